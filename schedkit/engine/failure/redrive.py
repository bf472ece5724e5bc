"""Redriving: from a dead letter to a run that waits to be called again, at a pace, and first only a few (F6).

Of a run                                             condition
    redrive   FAILED, UNKNOWN → RETRY_WAIT           it is as it was listed: status, epoch, time of death
    drop      FAILED, UNKNOWN, as they are           likewise; it leaves the dead letters and stays in the history
    resolve   UNKNOWN → SUCCEEDED, FAILED            likewise; a person says what happened
Of a redrive, and of a backfill (what that does to a run is in `backfill.py`)
    plan, pause, resume, continue, stop              the redrive is as it was read
    take      a holder begins, under the next epoch  nobody else's lease lives
    let go    its holder is known to be gone         the redrive is as it was read
    release   some runs are redriven                 the redrive is as it was read, in one write with its runs
    follow    some of them have ended                the redrive is as it was read

A release and its runs land together or not at all, and only where the redrive stands as its holder knows it. So
whatever is repeated, late or done by two at once, no dead letter is released twice and none is released unpaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from schedkit.engine.failure.backfill import backfill_run, make_known
from schedkit.errors import Conflict, Reason
from schedkit.model.jobs import Job, JobStatus
from schedkit.model.keys import REDRIVING, job_key, kept_until, redrive_key, run_key, sortable
from schedkit.model.redrives import (
    DEAD_STATUSES,
    MAX_OPEN,
    PastRange,
    Redrive,
    RedriveState,
    StopReason,
    Unfit,
    redrive_attributes,
)
from schedkit.model.runs import RECLAIM_MARGIN_MS, Run, RunStatus, run_attributes, waiting_timer
from schedkit.model.time import SECOND_MS, Instant
from schedkit.model.writes import Absent, Equals, Write

LEASE_MS: Final = 10 * SECOND_MS  # how long a redrive waits for a holder that is lost, beside the clocks' margin
NOT_DEAD: Final[dict[str, Any]] = {"dead_partition": None, "dead_at": None}
GOOD_ENDS: Final = (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED_AFTER_CANCEL)


# ── of a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def dead(run: Run) -> bool:
    """It is among the dead letters."""
    return run.status in DEAD_STATUSES and run.dropped_at is None


def unfit(run: Run, job: Job | None, *, include_unknown: bool) -> Unfit | None:
    """Why this dead letter is not to be redriven; None where it may be."""
    if job is None:
        return Unfit.JOB_GONE
    if job.status is JobStatus.CANCELLED:
        return Unfit.JOB_CANCELLED
    if job.status is JobStatus.PAUSED and not run.triggered:
        return Unfit.JOB_PAUSED
    if run.status is RunStatus.UNKNOWN and not include_unknown:
        return Unfit.OUTCOME_UNKNOWN
    return None


def redrive_run(run: Run, shards: int, now: Instant, redrive_id: str | None = None) -> Write:
    """FAILED or UNKNOWN → RETRY_WAIT from now on. The next claim is attempt 1 of a new series, under the next epoch.

    The attempts of earlier series stay in the record.
    """
    after = replace(
        run,
        status=RunStatus.RETRY_WAIT,
        attempt=0,
        not_before=now,
        series=run.series + 1,
        redrive_id=redrive_id,
        reclaims=0,
        cancel_requested=False,
        reason=None,
        result=None,
        finished_at=None,
        resolved_at=None,
        note=None,
    )
    changes = {**run_attributes(after), **NOT_DEAD, "expires_at": None, **waiting_timer(after, shards, now)}
    return Write(run_key(run.job_id, run.scheduled_for), "redrive", _as_listed(run), changes)


def keep_job(job: Job, now: Instant) -> Write | None:
    """A job that has ended is kept as long as a run of it may be called again; None for one that lives."""
    if not job.status.ended:
        return None
    return Write(job_key(job.job_id), "keep for redrive", (Equals("version", job.version),), kept_until(now))


def drop(run: Run, note: str | None, now: Instant, *, archive: bool) -> Write:
    """Give it up: it leaves the dead letters. `archive` keeps it in the history as long as any run, else no longer."""
    changes = {"dropped_at": now, "note": note} | NOT_DEAD | ({} if archive else {"expires_at": now})
    return Write(run_key(run.job_id, run.scheduled_for), "drop", _as_listed(run), changes)


def resolve(run: Run, succeeded: bool, note: str | None, now: Instant) -> Write:
    """UNKNOWN → SUCCEEDED or FAILED, as a person found out. What failed stays a dead letter."""
    assert run.status is RunStatus.UNKNOWN, "refused at the door"
    status = RunStatus.SUCCEEDED if succeeded else RunStatus.FAILED
    changes = {"status": status.value, "resolved_at": now, "note": note} | (NOT_DEAD if succeeded else {})
    return Write(run_key(run.job_id, run.scheduled_for), "resolve", _as_listed(run), changes)


def _as_listed(run: Run) -> tuple[Equals, ...]:
    assert run.finished_at is not None, "what is dead died at some time"
    died = Equals("dead_at", sortable(run.finished_at))
    return Equals("status", run.status.value), Equals("epoch", run.epoch), died


# ── of a redrive: the operator's verbs ───────────────────────────────────────────────────────────────────────────────


def plan(redrive: Redrive) -> Write:
    """It comes to be; whoever looks for redrives takes it up."""
    listed = {"listed_partition": REDRIVING, "listed_at": redrive.redrive_id}
    return Write(_key(redrive), "plan redrive", (Absent(),), redrive_attributes(redrive) | listed)


def pause(redrive: Redrive, now: Instant) -> Write | None:
    """Release nothing more until it is resumed; None where it is paused. Raises Conflict (REDRIVE_STATE)."""
    _refuse_ended(redrive, "paused")
    if redrive.state is RedriveState.PAUSED:
        return None
    after = replace(_free(redrive), state=RedriveState.PAUSED, paused_from=redrive.state)
    return _write(redrive, after, "pause redrive", now)


def resume(redrive: Redrive, now: Instant) -> Write | None:
    """Go on as before the pause; None where it is not paused. Raises Conflict (REDRIVE_STATE)."""
    _refuse_ended(redrive, "resumed")
    if redrive.paused_from is None:
        return None
    return _write(redrive, replace(redrive, state=redrive.paused_from, paused_from=None), "resume redrive", now)


def proceed(redrive: Redrive, now: Instant) -> Write | None:
    """Yes to the rest: at once after a good canary, and by itself where that is still out; None where it goes on.

    Raises Conflict (REDRIVE_STATE).
    """
    _refuse_ended(redrive, "continued")
    if redrive.state is RedriveState.PAUSED:
        raise _state(redrive, "is paused", f"schedkit dlq redrive-resume {redrive.redrive_id}")
    if redrive.state is RedriveState.WAITING:
        after = replace(redrive, state=RedriveState.RUNNING, goes_on=True)
        return _write(redrive, after, "continue redrive", now)
    if redrive.state is RedriveState.RUNNING or redrive.goes_on:
        return None
    return _write(redrive, replace(redrive, goes_on=True), "continue redrive", now)


def stop(redrive: Redrive, now: Instant) -> Write | None:
    """End it; the rest stays among the dead letters. None where it has ended."""
    if redrive.state.ended:
        return None
    return _write(redrive, _ended(redrive, RedriveState.STOPPED, StopReason.STOPPED_BY_HAND, now), "stop redrive", now)


def _refuse_ended(redrive: Redrive, verb: str) -> None:
    if redrive.state.ended:
        again = "schedkit job backfills" if isinstance(redrive.filter, PastRange) else "schedkit dlq redrive"
        raise _state(redrive, f"has ended, so it cannot be {verb}: it is {redrive.state}", again)


def _state(redrive: Redrive, what: str, fix: str) -> Conflict:
    why = "each verb belongs to some states of a redrive only"
    return Conflict(Reason.REDRIVE_STATE, f"{redrive.redrive_id} {what}", why=why, fix=(fix,))


# ── of a redrive: its holder's ───────────────────────────────────────────────────────────────────────────────────────


def take(redrive: Redrive, node: str, now: Instant) -> Write | None:
    """Carry it out from here on, under the next epoch; None where it is not to be, or another's lease may live."""
    lease_end = redrive.lease_expires_at
    free = lease_end is None or redrive.owner == node or now > lease_end + RECLAIM_MARGIN_MS
    if not (free and redrive.state.driven):
        return None
    first = RedriveState.CANARY if redrive.canary else RedriveState.RUNNING
    state = first if redrive.state is RedriveState.PLANNED else redrive.state
    held = replace(redrive, state=state, epoch=redrive.epoch + 1, owner=node)
    return _write(redrive, _leased(held, now), "take redrive", now)


def let_go(redrive: Redrive, now: Instant) -> Write | None:
    """Nobody carries it out any more, so the next one need not wait for the lease; None where nobody did."""
    return _write(redrive, _free(redrive), "let go of redrive", now) if redrive.owner is not None else None


def room(redrive: Redrive) -> int:
    """How many runs may be released now, the pace aside."""
    if redrive.walked or redrive.state not in (RedriveState.CANARY, RedriveState.RUNNING):
        return 0
    bounds = [(1 if one_by_one(redrive) else MAX_OPEN) - len(redrive.open)]
    if redrive.state is RedriveState.CANARY:
        bounds.append(redrive.canary - redrive.redriven)
    if redrive.limit is not None:
        bounds.append(redrive.limit - redrive.redriven)
    return max(0, min(bounds))


def one_by_one(redrive: Redrive) -> bool:
    """Each of its runs waits for the one before it to end."""
    return isinstance(redrive.filter, PastRange) and redrive.filter.one_by_one


def release(redrive: Redrive, runs: Sequence[Run], jobs: Mapping[str, Job], shards: int, now: Instant) -> list[Write]:
    """The redrive first, then each run, then the jobs that are to be kept for them."""
    assert 0 < len(runs) <= room(redrive), "no more than there is room for"
    ids = tuple(run.run_id for run in runs)
    first = (*redrive.first, *ids) if redrive.state is RedriveState.CANARY else redrive.first
    moved = replace(
        _leased(redrive, now), redriven=redrive.redriven + len(runs), first=first, open=(*redrive.open, *ids)
    )
    begin = backfill_run if isinstance(redrive.filter, PastRange) else redrive_run
    writes = [_write(redrive, moved, "release", now)]
    writes += [begin(run, shards, now, redrive.redrive_id) for run in runs]
    if one_by_one(redrive):
        return [*writes, make_known(jobs[runs[0].job_id], runs[0].scheduled_for, now)]
    kept = [keep_job(jobs[job_id], now) for job_id in dict.fromkeys(run.job_id for run in runs)]
    return writes + [write for write in kept if write is not None]


def passed(redrive: Redrive, cursor: str | None, skipped: Mapping[str, int], now: Instant) -> Write:
    """A page of the list is done; without a cursor it was the last."""
    sums = {name: redrive.skipped.get(name, 0) + skipped.get(name, 0) for name in {**redrive.skipped, **skipped}}
    after = replace(_leased(redrive, now), cursor=cursor, walked=cursor is None, skipped=sums)
    return _write(redrive, after, "pass page", now)


def follow(redrive: Redrive, runs: Mapping[str, Run | None], now: Instant) -> Write | None:
    """Count the open runs that have ended, as they stand in `runs`; None where nothing is new and the lease is long."""
    ends = {name: end for name in redrive.open if (end := _end_of(redrive, runs.get(name))) is not None}
    fresh = redrive.lease_expires_at is not None and redrive.lease_expires_at - now > LEASE_MS // 2
    if not ends and fresh:
        return None
    counts = [sum(end == name for end in ends.values()) for name in ("succeeded", "failed", "cancelled")]
    after = replace(
        _leased(redrive, now),
        open=tuple(name for name in redrive.open if name not in ends),
        succeeded=redrive.succeeded + counts[0],
        failed=redrive.failed + counts[1],
        cancelled=redrive.cancelled + counts[2],
    )
    return _write(redrive, after, "follow", now)


def _end_of(redrive: Redrive, run: Run | None) -> str | None:
    if run is None:
        return "cancelled"  # forgotten: nobody will ever know
    if run.redrive_id != redrive.redrive_id:
        return "failed"  # only a dead letter could be redriven by another, or by hand
    if not run.status.final:
        return None
    if run.status in GOOD_ENDS:
        return "succeeded"
    return "failed" if run.status in DEAD_STATUSES else "cancelled"


def turn(redrive: Redrive, now: Instant) -> Write | None:
    """Where it goes from here by itself: on, to its end, or to a person; None while it is under way."""
    bad = redrive.failed + redrive.cancelled
    if redrive.state is RedriveState.CANARY and bad:
        after = _ended(redrive, RedriveState.STOPPED, StopReason.CANARY_FAILED, now)
    elif redrive.walked and not redrive.open:
        after = _ended(redrive, RedriveState.DONE, None, now)
    elif redrive.limit is not None and redrive.redriven >= redrive.limit and not redrive.walked:
        after = replace(redrive, walked=True)
    elif redrive.state is RedriveState.CANARY and redrive.redriven >= redrive.canary and not redrive.open:
        going = replace(redrive, state=RedriveState.RUNNING)
        after = going if redrive.goes_on else replace(_free(redrive), state=RedriveState.WAITING)
    else:
        return None
    return _write(redrive, after, f"turn {after.state}", now)


def broke(redrive: Redrive, error: str, now: Instant) -> Write:
    """What nobody foresaw ends it, so that it is seen and not tried for ever."""
    after = replace(_ended(redrive, RedriveState.FAILED, StopReason.REDRIVE_BROKE, now), note=error)
    return _write(redrive, after, "turn FAILED", now)


def started(run: Run | None, redrive_id: str) -> bool:
    """What this redrive released waits no more to be started."""
    return run is None or run.redrive_id != redrive_id or run.status is not RunStatus.RETRY_WAIT or run.attempt > 0


def _leased(redrive: Redrive, now: Instant) -> Redrive:
    return replace(redrive, lease_expires_at=now + LEASE_MS)


def _free(redrive: Redrive) -> Redrive:
    return replace(redrive, owner=None, lease_expires_at=None)


def _ended(redrive: Redrive, state: RedriveState, reason: StopReason | None, now: Instant) -> Redrive:
    return replace(_free(redrive), state=state, state_reason=reason and reason.value, finished_at=now)


def _write(before: Redrive, after: Redrive, arrow: str, now: Instant) -> Write:
    raised = replace(after, version=before.version + 1, updated_at=now)
    ended = {"listed_partition": None, "listed_at": None, **kept_until(now)} if after.state.ended else {}
    conditions = (Equals("version", before.version),)
    return Write(_key(before), arrow, conditions, redrive_attributes(raised) | ended)


def _key(redrive: Redrive) -> Any:
    return redrive_key(redrive.tenant_id, redrive.redrive_id)
