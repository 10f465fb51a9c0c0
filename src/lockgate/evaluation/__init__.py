"""Room 8: a learner and tasks to numbers. Never touches training."""
