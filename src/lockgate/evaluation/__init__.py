"""a learner and tasks to numbers. Never touches training."""
