"""One holder for each run: claim, reclaim, release and settle, each one conditional write.

    claim      the run does not exist, or RETRY_WAIT and now >= not_before   → RUNNING, epoch + 1
    reclaim    RUNNING, its lease ended                                       → RUNNING, epoch + 1
    extend     RUNNING, epoch is mine                                         → RUNNING, its lease ends later
    release    RUNNING, epoch is mine (or my dead predecessor's)              → RUNNING, its lease ends now
    settle     RUNNING, epoch is mine                                         → a final state, or RETRY_WAIT

What a task queue's runs do besides is in `handing.py`.

A claim carries a token of its own: a reply that was lost makes a landed claim look like somebody else's, and a holder
that finds its own token has won. The epoch goes to the target as the fencing token.

A store that was restored from a backup does not know which epochs were given out after it. So it has a floor, and every
claim in it is under a higher epoch than the floor (see `restoring.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from schedkit.model.calls import Dead, Done, RetryAt, Unknown, Verdict
from schedkit.model.jobs import HttpTarget, Job, TaskTarget
from schedkit.model.keys import TimerKind, dead_listing, kept_until, run_key, sortable, timer_partition
from schedkit.model.runs import (
    MAX_KEPT_ATTEMPTS,
    REASON_CANCEL_REQUESTED,
    RECLAIM_MARGIN_MS,
    Attempt,
    AttemptOutcome,
    Run,
    RunStatus,
    listing,
    new_run,
    run_attributes,
    run_of,
    waiting_timer,
)
from schedkit.model.time import SECOND_MS, Instant
from schedkit.model.writes import Absent, Applied, Equals, Outcome, Write

LEASE_MARGIN_MS: Final = 60 * SECOND_MS  # H2: a lease outlives the call's timeout by this

NO_TIMER: Final[dict[str, Any]] = {"timer_partition": None, "timer_at": None, "task_line": None}


@dataclass(frozen=True, slots=True)
class Holder:
    """Who claims: the process, and a token no other claim has. Its epochs are above the floor."""

    node: str
    token: str
    epoch_floor: int = 0


def claim(
    job: Job,
    scheduled_for: Instant,
    due_at: Instant,
    *,
    misfired: bool,
    holder: Holder,
    shards: int,
    now: Instant,
) -> Write:
    """The first claim of an occurrence: the run comes to be, RUNNING, under the first epoch above the floor: 1."""
    assert now >= due_at >= scheduled_for, "never early"
    unclaimed = new_run(job, scheduled_for, due_at, RunStatus.RETRY_WAIT, now)
    run = replace(unclaimed, attempt=1, misfired=misfired)
    running = _running(run, job, due_at, holder, now)
    changes = run_attributes(running) | listing(running) | lease_timer(running, shards)
    return Write(run_key(job.job_id, scheduled_for), "claim", (Absent(),), changes)


def claim_retry(run: Run, job: Job, *, holder: Holder, shards: int, now: Instant) -> Write:
    """RETRY_WAIT → RUNNING, from not_before on, whichever message brought it here (F1a)."""
    assert run.not_before is not None, "a waiting run says from when on"
    assert now >= run.not_before, "never early"
    counted = replace(run, attempt=max(1, run.attempt))  # 0: redriven, and this is the first of a new series
    running = replace(_running(counted, job, run.not_before, holder, now), not_before=None)
    return Write(_key(run), "claim", waiting(run), run_attributes(running) | lease_timer(running, shards))


def reclaim(run: Run, job: Job, *, holder: Holder, shards: int, now: Instant) -> Write:
    """RUNNING → RUNNING under the next epoch: the holder before is fenced off. The attempt stays the same one."""
    assert run.lease_expires_at is not None, "a running run has a lease"
    assert now > run.lease_expires_at + RECLAIM_MARGIN_MS, "a live lease is not touched"
    lost = ended(run, AttemptOutcome.LEASE_EXPIRED, now, error="the executor that held it was lost")
    running = replace(_running(lost, job, run.due_at, holder, now), reclaims=run.reclaims + 1)
    return Write(_key(run), "reclaim", held_as_read(run), run_attributes(running) | lease_timer(running, shards))


def release(run: Run, *, shards: int, now: Instant) -> Write:
    """End a lease whose holder will do nothing more, so that the next one need not wait for it (F10)."""
    ended = now - RECLAIM_MARGIN_MS - 1
    changes = {
        "lease_expires_at": ended,
        "timer_partition": timer_partition(TimerKind.LEASE, run.job_id, shards),
        "timer_at": now,
    }
    return Write(_key(run), "release", held(run), changes)


def extend(run: Run, job: Job, *, shards: int, now: Instant) -> Write:
    """A holder that is alive gives its lease a new end; it only ever moves forward (I16)."""
    lease_end = max(_lease_end(job, now), run.lease_expires_at or 0)
    longer = replace(run, lease_expires_at=lease_end)
    changes = {"lease_expires_at": lease_end} | lease_timer(longer, shards)
    return Write(_key(run), "extend", held_as_read(run), changes)


def won(outcome: Outcome, holder: Holder) -> Run | None:
    """The run, if it is this holder's: its write landed, or its token stands there (H2). None if another's."""
    item = outcome.item if isinstance(outcome, Applied) else outcome.current
    return run_of(item) if item is not None and item.get("claim_token") == holder.token else None


def settle(
    run: Run,
    verdict: Verdict,
    *,
    called_at: Instant | None,
    shards: int,
    now: Instant,
    payload: str | None = None,
) -> Write:
    """The end of a holder's turn, if it is still the holder's (C5). `payload` is kept for the next try or a redrive."""
    after, extra = _settled(run, verdict, called_at, shards, now, payload)
    conditions = (*held(run), Equals("cancel_requested", run.cancel_requested))
    return Write(_key(run), f"settle {after.status}", conditions, run_attributes(after) | extra)


def skip(job: Job, scheduled_for: Instant, due_at: Instant, reason: str, now: Instant) -> Write:
    """An occurrence that will not run, recorded (C3)."""
    skipped = new_run(job, scheduled_for, due_at, RunStatus.SKIPPED, now)
    run = replace(skipped, reason=reason, finished_at=now)
    kept = kept_until(max(now, due_at))  # an operator may skip what is due in months
    return Write(run_key(job.job_id, scheduled_for), "skip", (Absent(),), run_attributes(run) | listing(run) | kept)


def _key(run: Run) -> Any:
    return run_key(run.job_id, run.scheduled_for)


def waiting(run: Run) -> tuple[Equals, ...]:
    """It waits for its next claim, as it did when it was read."""
    return (
        Equals("status", RunStatus.RETRY_WAIT),
        Equals("epoch", run.epoch),
        Equals("not_before", run.not_before),
    )


def held(run: Run) -> tuple[Equals, ...]:
    """Its holder is who it was when it was read."""
    return Equals("status", RunStatus.RUNNING), Equals("epoch", run.epoch)


def held_as_read(run: Run) -> tuple[Equals, ...]:
    """Held, and nobody has moved the end of its lease since it was read."""
    return *held(run), Equals("lease_expires_at", run.lease_expires_at)


def _running(run: Run, job: Job, start_from: Instant, holder: Holder, now: Instant) -> Run:
    epoch = max(run.epoch, holder.epoch_floor) + 1
    attempt = Attempt(run.attempt, epoch, started_at=now, lag_ms=now - start_from)
    return replace(
        run,
        status=RunStatus.RUNNING,
        epoch=epoch,
        claim_token=holder.token,
        lease_owner=holder.node,
        lease_expires_at=_lease_end(job, now),
        attempts=(*run.attempts, attempt)[-MAX_KEPT_ATTEMPTS:],
    )


def _lease_end(job: Job, now: Instant) -> Instant:
    """H2: a lease taken now lasts for the call and the margin; a worker's lasts until its next heartbeats."""
    match job.target:
        case HttpTarget(timeout_ms=timeout_ms):
            return now + timeout_ms + LEASE_MARGIN_MS
        case TaskTarget(lease_ms=lease_ms):
            return now + lease_ms


def lease_timer(run: Run, shards: int) -> dict[str, Any]:
    """The timer of a run that is held: for the sweep where an executor holds it, for the reaper where a worker does."""
    assert run.lease_expires_at is not None, "a running run has a lease"
    kind = TimerKind.LEASE if run.task_queue is None else TimerKind.HELD
    at = run.lease_expires_at + RECLAIM_MARGIN_MS + 1
    return {"timer_partition": timer_partition(kind, run.job_id, shards), "timer_at": at, "task_line": None}


def ended(
    run: Run,
    outcome: AttemptOutcome,
    now: Instant,
    called_at: Instant | None = None,
    http_status: int | None = None,
    error: str | None = None,
) -> Run:
    """The run with its last attempt closed; its start is the moment the call was made, where that is known."""
    last = run.attempts[-1]
    moved = 0 if called_at is None else max(0, called_at - last.started_at)
    closed = replace(
        last,
        started_at=last.started_at + moved,
        lag_ms=last.lag_ms + moved,
        finished_at=max(now, last.started_at + moved),
        outcome=outcome,
        http_status=http_status,
        error=error,
    )
    return replace(run, attempts=(*run.attempts[:-1], closed))


def _settled(
    run: Run, verdict: Verdict, called_at: Instant | None, shards: int, now: Instant, payload: str | None
) -> tuple[Run, dict[str, Any]]:
    free = replace(run, lease_owner=None, lease_expires_at=None, claim_token=None, reclaims=0)
    over = replace(free, finished_at=now)
    ended_for_good = NO_TIMER | kept_until(now)
    dead = {**ended_for_good, "dead_partition": dead_listing(run.tenant_id), "dead_at": sortable(now)}
    match verdict:
        case Done(result, http_status):
            status = RunStatus.SUCCEEDED_AFTER_CANCEL if run.cancel_requested else RunStatus.SUCCEEDED
            closed = ended(over, AttemptOutcome.SUCCEEDED, now, called_at, http_status)
            return replace(closed, status=status, result=result), ended_for_good
        case RetryAt(_, error, http_status) | Dead(error, _, http_status) if run.cancel_requested:
            closed = ended(over, AttemptOutcome.FAILED, now, called_at, http_status, error)
            return replace(closed, status=RunStatus.CANCELLED, reason=REASON_CANCEL_REQUESTED), ended_for_good
        case RetryAt(at, error, http_status):
            closed = ended(free, AttemptOutcome.FAILED, now, called_at, http_status, error)
            again = replace(
                closed, status=RunStatus.RETRY_WAIT, attempt=run.attempt + 1, not_before=at, payload=payload
            )
            return again, waiting_timer(again, shards, at)
        case Dead(error, reason, http_status):
            closed = ended(over, AttemptOutcome.FAILED, now, called_at, http_status, error)
            return replace(closed, status=RunStatus.FAILED, reason=reason, payload=payload), dead
        case Unknown(error):
            closed = ended(over, AttemptOutcome.UNKNOWN, now, called_at, None, error)
            return replace(closed, status=RunStatus.UNKNOWN, reason="UNKNOWN", payload=payload), dead
