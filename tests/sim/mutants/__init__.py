"""Bugs on purpose: one-line changes of the scheduler that the checker of the simulator must notice."""
