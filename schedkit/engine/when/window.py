"""Dispatch windows: where in its window a job starts. The same at every occurrence, and only ever later."""

from __future__ import annotations

from schedkit.model.jobs import Job
from schedkit.model.keys import stable_hash
from schedkit.model.time import MAX_INSTANT, Instant


def offset_ms(job_id: str, window_ms: int) -> int:
    """W6: blake2b64(job_id) mod window, so that a reload or a restart gives the same place."""
    return stable_hash(job_id) % window_ms if window_ms else 0


def dispatch_at(job: Job, scheduled_for: Instant) -> Instant:
    """The earliest start of an occurrence: its time plus the job's place in the window."""
    return min(scheduled_for + offset_ms(job.job_id, job.window_ms), MAX_INSTANT)
