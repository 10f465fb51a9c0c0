"""what is kept of past tasks. A memory feeds the rehearsal of the task classifier, and nothing else."""
