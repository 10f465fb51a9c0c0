"""Room 7: the only training loop, and what lets a run survive anything."""
