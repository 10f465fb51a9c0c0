"""Room 3: pure network parts. They know nothing of data or of training."""
