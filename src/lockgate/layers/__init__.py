"""pure network parts. They know nothing of data or of training."""
