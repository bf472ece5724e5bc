"""Backfilling: what did not run of the past comes to be run after all, each under its own time and key (W14).

    the record of the occurrence is …                      it is …
    none; SKIPPED; CANCELLED before it was called          started: RETRY_WAIT, its next claim is attempt 1
    SUCCEEDED, SUCCEEDED_AFTER_CANCEL                      left: RAN_ALREADY
    CANCELLED after it was called                          left: CANCELLED_ALREADY, somebody stopped it
    FAILED, UNKNOWN                                        left: FAILED_ALREADY, a redrive is for those
    RUNNING, RETRY_WAIT; held back by its job              left: UNDER_WAY
    older than records are kept                            left: TOO_OLD
    any, at most once, from before the last restore        left: OUTCOME_UNKNOWN

The write that starts one holds only where its record is as it was read, or is not there as it was not. So whatever is
asked for twice, or by two at once, no occurrence runs a second time. Where the schedule stands is left as it is.
"""

from __future__ import annotations

from dataclasses import replace

from schedkit.model.jobs import Delivery, Job, JobStatus
from schedkit.model.keys import RETENTION_MS, job_key, kept_until, run_key
from schedkit.model.redrives import DEAD_STATUSES, Unfit
from schedkit.model.runs import Run, RunStatus, listing, new_run, run_attributes, waiting_timer
from schedkit.model.time import Instant
from schedkit.model.writes import Absent, Condition, Equals, Write


def unfit(run: Run | None, job: Job | None, at: Instant, now: Instant, restored_at: Instant = 0) -> Unfit | None:
    """Why the occurrence at this time is not to be started, by its record as it stands; None where it may be.

    `restored_at`: the store was put back then from a backup, which may not know what ran before that.
    """
    if job is None:
        return Unfit.JOB_GONE
    if job.status is JobStatus.CANCELLED:
        return Unfit.JOB_CANCELLED
    if job.status is JobStatus.PAUSED:
        return Unfit.JOB_PAUSED
    if at < now - RETENTION_MS:
        return Unfit.TOO_OLD
    if at <= restored_at and job.delivery is Delivery.AT_MOST_ONCE:
        return Unfit.OUTCOME_UNKNOWN
    if run is None:
        return Unfit.UNDER_WAY if at == job.held else None
    if not run.status.final:
        return Unfit.UNDER_WAY
    if run.status in DEAD_STATUSES:
        return Unfit.FAILED_ALREADY
    if run.never_called:
        return None
    return Unfit.CANCELLED_ALREADY if run.status is RunStatus.CANCELLED else Unfit.RAN_ALREADY


def candidate(job: Job, at: Instant, there: Run | None, now: Instant) -> Run:
    """The occurrence as a run that has not come to be; what its record says of it, where there is one, is kept.

    It may start from its own time on: a dispatch window spreads what comes due, and a backfill has a pace of its own.
    """
    fresh = new_run(job, at, at, RunStatus.SKIPPED, now)
    if there is None:
        return fresh
    kept = ("status", "epoch", "attempts", "reason", "created_at", "finished_at", "triggered", "series")
    return replace(fresh, **{name: getattr(there, name) for name in kept})


def backfill_run(run: Run, shards: int, now: Instant, backfill_id: str) -> Write:
    """(none), SKIPPED or CANCELLED → RETRY_WAIT from now on, if its record is as the candidate says."""
    conditions: tuple[Condition, ...] = (Absent(),)
    if run.finished_at is not None:  # there is a record: it has ended
        conditions = Equals("status", run.status.value), Equals("epoch", run.epoch)
    after = replace(
        run,
        status=RunStatus.RETRY_WAIT,
        attempt=0,
        not_before=now,
        redrive_id=backfill_id,
        backfill_id=backfill_id,
        backfilled=True,
        reason=None,
        finished_at=None,
    )
    changes = {**run_attributes(after), **listing(after), "expires_at": None, **waiting_timer(after, shards, now)}
    return Write(run_key(run.job_id, run.scheduled_for), "backfill", conditions, changes)


def make_known(job: Job, at: Instant, now: Instant) -> Write:
    """The schedule's overlap rule knows of the run, as it does of one that was asked for by hand (W13).

    Only where the job has run nothing else since it was read, which the run might run beside: of a job that has ended
    that is what another backfill started. Such a job is kept as long as its runs may be called.
    """
    kept = kept_until(now) if job.status.ended else {}
    conditions = (
        Equals("status", job.status.value),
        Equals("version", job.version),
        Equals("last_run", job.last_run),
        Equals("last_triggered", job.last_triggered),
    )
    return Write(job_key(job.job_id), "know of backfill", conditions, {"last_triggered": at} | kept)
