"""schedkit: run every job at the right time, and make it safe when machines fail and a job runs twice."""

__version__ = "0.1.0"
