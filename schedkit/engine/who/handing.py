"""Handing runs to workers: how one waits in a task queue, is held under heartbeats, and comes back (H4, H5).

    ready       (none)                                       → RETRY_WAIT, in its task queue
    heartbeat   RUNNING, epoch is mine                       → RUNNING, its lease ends later
    give back   RUNNING, its lease ended, or released by me  → RETRY_WAIT, the same attempt
    reroute     RETRY_WAIT, the job's target is another now  → RETRY_WAIT, where it belongs
    lapse       RETRY_WAIT, never started, expired           → SKIPPED

A worker claims and settles as an executor does (`claim.py`). The epoch is raised by the next claim, so whoever held the
run before can change nothing from the moment that it is given back.
"""

from __future__ import annotations

from dataclasses import replace

from schedkit.engine.who.claim import NO_TIMER, ended, held_as_read, lease_timer, waiting
from schedkit.model.jobs import HttpTarget, Job, TaskTarget
from schedkit.model.keys import kept_until, run_key
from schedkit.model.runs import (
    RECLAIM_MARGIN_MS,
    AttemptOutcome,
    Run,
    RunStatus,
    listing,
    new_run,
    run_attributes,
    waiting_timer,
)
from schedkit.model.time import Instant
from schedkit.model.writes import Absent, Write


def ready(job: Job, scheduled_for: Instant, due_at: Instant, *, misfired: bool, shards: int, now: Instant) -> Write:
    """The occurrence is due: its run comes to be, and waits for the first worker that asks."""
    assert now >= due_at >= scheduled_for, "never early"
    unclaimed = new_run(job, scheduled_for, due_at, RunStatus.RETRY_WAIT, now)
    run = replace(unclaimed, attempt=1, not_before=due_at, misfired=misfired)
    changes = run_attributes(run) | listing(run) | waiting_timer(run, shards, due_at)
    return Write(run_key(job.job_id, scheduled_for), "ready", (Absent(),), changes)


def heartbeat(run: Run, job: Job, progress: str | None, *, shards: int, now: Instant) -> Write:
    """The holder is alive: its lease ends later, and never earlier (I16). `progress` None leaves what was said last."""
    lease_end = max(held_until(run, job, now), run.lease_expires_at or 0)
    alive = replace(run, lease_expires_at=lease_end)
    said = {"progress": progress} if progress is not None else {}
    changes = {"lease_expires_at": lease_end} | said | lease_timer(alive, shards)
    return Write(run_key(run.job_id, run.scheduled_for), "heartbeat", held_as_read(run), changes)


def give_back(run: Run, *, lost: bool, shards: int, now: Instant) -> Write:
    """To the queue, as the same attempt: its holder was lost (its lease ended), or lets go of it."""
    assert run.lease_expires_at is not None, "a running run has a lease"
    assert not lost or now > run.lease_expires_at + RECLAIM_MARGIN_MS, "a live lease is not touched"
    outcome = AttemptOutcome.LEASE_EXPIRED if lost else AttemptOutcome.RELEASED
    error = f"{run.lease_owner} was not heard of until its lease had ended" if lost else None
    back = replace(
        ended(run, outcome, now, error=error),
        status=RunStatus.RETRY_WAIT,
        not_before=now,
        reclaims=run.reclaims + 1 if lost else run.reclaims,
        lease_owner=None,
        lease_expires_at=None,
        claim_token=None,
    )
    arrow = "give back" if lost else "let go"
    changes = run_attributes(back) | waiting_timer(back, shards, now)
    return Write(run_key(run.job_id, run.scheduled_for), arrow, held_as_read(run), changes)


def belongs(run: Run, job: Job) -> bool:
    """The run waits where the target of its job, as it is now, says that it should."""
    match job.target:
        case HttpTarget():
            return run.task_queue is None
        case TaskTarget(task_queue, task_type):
            return run.task_queue == task_queue and run.task_type == task_type


def reroute(run: Run, job: Job, *, shards: int, now: Instant) -> Write:
    """The job's target was edited while the run waited: it waits where it belongs now, and as long as it had to."""
    fresh = new_run(job, run.scheduled_for, run.due_at, run.status, now)
    changes = {"task_queue": fresh.task_queue, "task_type": fresh.task_type, "target_id": fresh.target_id}
    timer = waiting_timer(fresh, shards, max(now, run.not_before or now))
    return Write(run_key(run.job_id, run.scheduled_for), "reroute", waiting(run), changes | timer)


def lapse(run: Run, reason: str, now: Instant) -> Write:
    """No worker took it before it expired (W15): it ends as an occurrence that was skipped."""
    assert not run.attempts, "what was started is not skipped"
    over = replace(run, status=RunStatus.SKIPPED, reason=reason, finished_at=now, not_before=None)
    changes = run_attributes(over) | NO_TIMER | kept_until(now)
    return Write(run_key(run.job_id, run.scheduled_for), f"skip ({reason})", waiting(run), changes)


def held_until(run: Run, job: Job, now: Instant) -> Instant:
    """The end of a lease that is renewed now; past its deadline a run is held no longer."""
    lease_ms = job.target.lease_ms if isinstance(job.target, TaskTarget) else TaskTarget("").lease_ms
    deadline = deadline_of(run, job)
    return now + lease_ms if deadline is None else min(now + lease_ms, deadline)


def deadline_of(run: Run, job: Job) -> Instant | None:
    """When the attempt under way is to be done; None where it may take as long as its heartbeats come."""
    if not isinstance(job.target, TaskTarget) or job.target.timeout_ms is None or not run.attempts:
        return None
    return run.attempts[-1].started_at + job.target.timeout_ms
