"""Moving a job along its schedule: each arrow of the job's own state machine that the scheduler takes by itself.

    create      (none) → SCHEDULED or PAUSED
    advance     the occurrence was claimed: on to the next one, computed from scheduled_for, never from now (W5)
    hold        the occurrence waits for the previous run: on to the next one, this one kept (W13)
    look again  what the job waits for may have come
    pass by     occurrences were skipped: on to the next one
    finish      no occurrence is left and the last run has ended → COMPLETED, FAILED or CANCELLED
    recount     the zone data changed: next_run_at anew, from where the schedule counts (W2). What was due before that
                was so by other zone data, which is not known any more: its records tell of it (W16)

Each is conditional on the job as it was read, so far as its timer follows from it: one that was edited, paused or
cancelled meanwhile refuses it, and so does one whose schedule somebody else moved on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from schedkit.engine.when.occurrences import next_after, resolve_once
from schedkit.engine.when.plan import LOOK_AGAIN_MS, Start
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.when.zones import TZDATA_VERSION, stands_still
from schedkit.errors import InvalidInput
from schedkit.model.jobs import Job, JobStatus, changed_attributes, job_attributes
from schedkit.model.keys import (
    TimerKind,
    idempotency_key_key,
    job_key,
    jobs_listing,
    kept_until,
    name_key,
    timer_partition,
)
from schedkit.model.runs import Run, RunStatus
from schedkit.model.schedules import Cron, Once, Schedule
from schedkit.model.time import DAY_MS, Instant
from schedkit.model.writes import Absent, Condition, Equals, Item, Write

KEY_LIFE_MS: Final = DAY_MS  # an Idempotency-Key is honoured for 24 hours

ENDED_BY_RUN: Final = {
    RunStatus.SUCCEEDED: JobStatus.COMPLETED,
    RunStatus.SUCCEEDED_AFTER_CANCEL: JobStatus.COMPLETED,
    RunStatus.CANCELLED: JobStatus.CANCELLED,
}


def create(job: Job, shards: int) -> Write:
    """The job comes to be; it is due from now on."""
    listed = {"listed_partition": jobs_listing(job.tenant_id), "listed_at": job.job_id}
    return Write(
        job_key(job.job_id), "create", (Absent(),), job_attributes(job) | timer(job, shards, job.created_at) | listed
    )


def take_name(job: Job, item: Item | None) -> Write:
    """Claim the job's name for its tenant: a free one, or one whose holder in `item` has no right to it any more.

    `taken` counts its holders, so that a name that went away and came back is not mistaken for one that stayed.
    """
    assert job.name is not None, "only a named job takes a name"
    taken = item["taken"] if item is not None else 0
    condition: Condition = Absent() if item is None else Equals("taken", taken)
    changes = {"job_id": job.job_id, "taken": taken + 1}
    return Write(name_key(job.tenant_id, job.name), "take name", (condition,), changes)


def take_key(job: Job, idempotency_key: str, request_hash: str, item: Item | None) -> Write:
    """Tie an Idempotency-Key to the job it makes, if nobody has meanwhile; `item` is what it stood for long ago."""
    condition: Condition = Absent() if item is None else Equals("job_id", item["job_id"])
    changes = {
        "job_id": job.job_id,
        "request_hash": request_hash,
        "expires_at": job.created_at + KEY_LIFE_MS,
    }
    return Write(idempotency_key_key(job.tenant_id, job.team_id, idempotency_key), "take key", (condition,), changes)


def timer(job: Job, shards: int, now: Instant, look_at: Instant | None = None) -> dict[str, Any]:
    """The one timer of a job as it stands: its next occurrence, the end of its pause, its last run, or none."""
    candidates = [look_at] if look_at is not None else []
    if waits_for_run(job) and look_at is None:
        candidates.append(now + LOOK_AGAIN_MS)
    if job.status is JobStatus.SCHEDULED and job.next_run_at is not None:
        candidates.append(dispatch_at(job, job.next_run_at))
    if job.status is JobStatus.PAUSED and job.paused_until is not None:
        candidates.append(job.paused_until)
    if not candidates:
        return {"timer_partition": None, "timer_at": None}
    return {"timer_partition": timer_partition(TimerKind.DUE, job.job_id, shards), "timer_at": min(candidates)}


def advance(job: Job, start: Start, shards: int, now: Instant) -> Write:
    """`start` was claimed: the job goes on. Refused if the job was cancelled, paused or moved away meanwhile."""
    assert start.scheduled_for == (job.held if start.held else job.next_run_at), "what is started is what is due"
    moved = job if start.held else counting_from(job, start.scheduled_for)
    after = replace(
        moved,
        held=None if start.held else job.held,
        last_run=start.scheduled_for,
        run_count=job.run_count + 1,
        missed_run=job.missed_run + 1 if start.misfired else 0,
        catch_up=job.catch_up if start.misfired else None,
    )
    if after.max_runs is not None and after.run_count >= after.max_runs:
        after = replace(after, next_run_at=None)
    return _write(job, after, "advance", shards, now)


def claimed(run: Run, job: Job) -> Start:
    """What the claim of this run would have gone on with. A wish said at resume stands until the job has caught up."""
    held = job.held == run.scheduled_for
    return Start(run.scheduled_for, misfired=run.misfired or job.catch_up is not None, held=held)


def hold(job: Job, shards: int, now: Instant) -> Write:
    """The occurrence that is due waits for the previous run to end; the schedule goes on without it."""
    assert job.next_run_at is not None, "something is due"
    assert job.held is None, "one occurrence is held at most"
    after = replace(counting_from(job, job.next_run_at), held=job.next_run_at)
    return _write(job, after, "hold", shards, now)


def look_again(job: Job, shards: int, at: Instant) -> Write:
    """A job that waits for its last run, to start a held occurrence or to end, is looked at again at this time."""
    return Write(job_key(job.job_id), "look again", stands(job), timer(job, shards, at, look_at=at))


def pass_by(job: Job, last: Instant, shards: int, now: Instant, *, reason: str, held: bool = False) -> Write:
    """Occurrences up to `last` were skipped: the job goes on after them."""
    after = replace(job, held=None) if held else counting_from(job, last)
    if after.next_run_at is None and job.last_run is None:
        after = replace(after, status_reason=reason)  # why a job that never ran has come to its end
    return _write(job, after, "pass by", shards, now)


def finish(job: Job, last_status: RunStatus, reason: str | None, now: Instant) -> Write:
    """The schedule has come to its end and so has its last run."""
    status = ENDED_BY_RUN.get(last_status, JobStatus.FAILED) if isinstance(job.schedule, Once) else JobStatus.COMPLETED
    assert job.next_run_at is None, "its schedule is at its end"
    assert job.held is None, "nothing waits any more"
    conditions = (*stands(job), Equals("last_run", job.last_run))
    changes = {
        "status": status.value,
        "status_reason": reason if status is not JobStatus.COMPLETED else None,
        "updated_at": now,
        "timer_partition": None,
        "timer_at": None,
        **kept_until(now),
    }
    return Write(job_key(job.job_id), f"finish {status}", conditions, changes)


def waits_for_run(job: Job) -> bool:
    """The end of the last run is what this job waits for: to start the held occurrence, or to end with it."""
    return job.status is JobStatus.SCHEDULED and (job.held is not None or job.next_run_at is None)


def recount(job: Job, shards: int, now: Instant) -> Write | None:
    """W2: the next occurrence under the zone data of today. None where nothing has to be written.

    An occurrence that is due already stays due: the role recounts before it dispatches anything. A job whose schedule
    has come to its end keeps that; but its ledger, and a backfill, must not compute its past with data that it had not.
    """
    goes_on, moves = job.next_run_at is not None and not job.status.ended, _moves_with_zones(job.schedule)
    if job.zone_data == TZDATA_VERSION or not (goes_on or moves):
        return None
    after = replace(job, zone_data=TZDATA_VERSION)
    if goes_on:
        schedule = _resolved_anew(job.schedule)
        counted_from = min(job.counted_from, schedule.run_at - 1) if isinstance(schedule, Once) else job.counted_from
        after = counting_from(replace(job, schedule=schedule), counted_from)
    if moves:
        after = replace(after, known_since=after.counted_from, pauses=())
    return _write(job, after, "recount", shards, now, Equals("zone_data", job.zone_data))


def _moves_with_zones(schedule: Schedule) -> bool:
    """Other zone data may give it other instants, those of its past among them. A one-off that is past has its own."""
    match schedule:
        case Cron(time_zone=name):
            return not stands_still(name)
        case _:
            return False


def _resolved_anew(schedule: Schedule) -> Schedule:
    """A one-off given as a wall time has its instant computed again; everything else is computed as it is asked."""
    if not isinstance(schedule, Once) or schedule.time_zone is None:
        return schedule
    try:
        return resolve_once(schedule.text, schedule.time_zone, schedule.gap, schedule.repeat)[0]
    except InvalidInput:  # the new data has no such time: the instant that was promised stands
        return schedule


def counting_from(job: Job, after: Instant) -> Job:
    """The job with its first occurrence after this instant as its next one."""
    following = next_after(job.schedule, after)
    return replace(
        job,
        counted_from=after,
        next_run_at=following.scheduled_for if following else None,
        zone_data=TZDATA_VERSION,
    )


def seen(job: Job) -> tuple[Equals, ...]:
    """The job is as it was read: nobody's verb came between."""
    return Equals("status", job.status.value), Equals("version", job.version)


def stands(job: Job) -> tuple[Equals, ...]:
    """… and its schedule stands where it stood. What sets a timer needs this: the timer follows from all of it."""
    return *seen(job), Equals("next_run_at", job.next_run_at), Equals("held", job.held)


def _write(before: Job, after: Job, arrow: str, shards: int, now: Instant, *more: Condition) -> Write:
    """The attributes in which `after` differs, and the timer that follows from it."""
    changes = changed_attributes(before, after)
    return Write(job_key(before.job_id), arrow, (*stands(before), *more), changes | timer(after, shards, now))
