"""A run from its first task to its last: its folder, its checkpoints, its log, its results."""
