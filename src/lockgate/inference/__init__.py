"""A trained learner as something fast: compiled to the filters its streams can open, exported to files."""
