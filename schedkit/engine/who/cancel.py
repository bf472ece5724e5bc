"""Stopping a run: before it is called again, or by asking its holder.

RETRY_WAIT   → CANCELLED at once
RUNNING      → cancel_requested; a call in flight cannot be recalled, and what it did is recorded as it was
final        nothing to do
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from schedkit.engine.who.claim import NO_TIMER
from schedkit.model.jobs import Job, JobStatus
from schedkit.model.keys import kept_until, run_key
from schedkit.model.runs import Attempt, AttemptOutcome, Run, RunStatus, run_attributes
from schedkit.model.time import Instant
from schedkit.model.writes import Equals, Write

REASON_JOB_CANCELLED: Final = "JOB_CANCELLED"
REASON_JOB_PAUSED: Final = "JOB_PAUSED"
REASON_RESCHEDULED: Final = "RESCHEDULED"
REASON_RUN_CANCELLED: Final = "RUN_CANCELLED"


def cancel_waiting(run: Run, reason: str, now: Instant) -> Write:
    """RETRY_WAIT → CANCELLED, if nobody has claimed it meanwhile."""
    conditions = (Equals("status", RunStatus.RETRY_WAIT), Equals("epoch", run.epoch))
    return _cancelled(run, reason, now, conditions)


def cancel_claimed(run: Run, reason: str, now: Instant, outcome: AttemptOutcome = AttemptOutcome.CANCELLED) -> Write:
    """RUNNING → CANCELLED by its holder, before it called anything: the job was taken away meanwhile.

    A worker that stops at work says so by the reason CANCEL_REQUESTED; of one that was lost at work the outcome tells.
    """
    last = run.attempts[-1]
    closed: Attempt = replace(last, finished_at=max(now, last.started_at), outcome=outcome)
    conditions = (Equals("status", RunStatus.RUNNING), Equals("epoch", run.epoch))
    return _cancelled(replace(run, attempts=(*run.attempts[:-1], closed)), reason, now, conditions)


def request_cancel(run: Run) -> Write:
    """Ask the holder of a running run to stop. Asking twice is asking once."""
    conditions = (Equals("status", RunStatus.RUNNING), Equals("epoch", run.epoch))
    return Write(run_key(run.job_id, run.scheduled_for), "request cancel", conditions, {"cancel_requested": True})


def unwanted(run: Run, job: Job, *, retried: bool = False) -> str | None:
    """Why a run that is to be called (again) must not be: its job was cancelled, or paused between two tries."""
    if job.status is JobStatus.CANCELLED:
        return REASON_JOB_CANCELLED
    if job.status is JobStatus.PAUSED and not run.triggered and retried:
        return REASON_JOB_PAUSED
    return None


def taken_away(run: Run, job: Job | None) -> str:
    """Why a run that was just claimed is not called."""
    if job is not None and (reason := unwanted(run, job)) is not None:
        return reason
    if run.cancel_requested:
        return REASON_RUN_CANCELLED
    paused = job is not None and job.status is JobStatus.PAUSED
    return REASON_JOB_PAUSED if paused else REASON_RESCHEDULED


def _cancelled(run: Run, reason: str, now: Instant, conditions: tuple[Equals, ...]) -> Write:
    after = replace(
        run,
        status=RunStatus.CANCELLED,
        reason=reason,
        finished_at=now,
        not_before=None,
        lease_owner=None,
        lease_expires_at=None,
        claim_token=None,
    )
    return Write(
        run_key(run.job_id, run.scheduled_for),
        f"cancel ({reason})",
        conditions,
        run_attributes(after) | NO_TIMER | kept_until(now),
    )
