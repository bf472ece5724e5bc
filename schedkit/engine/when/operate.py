"""The operator's verbs on a job: pause, resume, trigger, edit, skip next, cancel (W14), on the job as it was read.

SCHEDULED ──pause──► PAUSED ──resume──► SCHEDULED
    │ edit, trigger     │ edit, trigger
    │ skip next         │
    └──────cancel───────┴──────► CANCELLED, also by the skip of a one-off
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from schedkit.engine.when.advance import counting_from, seen, stands, timer
from schedkit.errors import Conflict, Reason
from schedkit.model.jobs import MAX_PAUSES, MAX_SKIPPED, Job, JobStatus, MisfirePolicy, changed_attributes
from schedkit.model.keys import job_key, kept_until, run_key
from schedkit.model.runs import RECLAIM_MARGIN_MS, RunStatus, listing, new_run, run_attributes, waiting_timer
from schedkit.model.schedules import Once
from schedkit.model.time import Instant
from schedkit.model.writes import Absent, Write

MISSED_WHILE_PAUSED: Final = "MISSED_WHILE_PAUSED"
SKIPPED_BY_HAND: Final = "SKIPPED_BY_HAND"


def pause(job: Job, reason: str | None, until: Instant | None, shards: int, now: Instant) -> Write:
    """Stop future runs and keep the job; with `until` it resumes by itself."""
    since = job.paused_at if job.status is JobStatus.PAUSED else now
    after = replace(job, status=JobStatus.PAUSED, pause_reason=reason, paused_until=until, paused_at=since)
    return _verb(job, after, "pause", shards, now)


def resume(job: Job, misfire: MisfirePolicy | None, shards: int, now: Instant) -> Write:
    """Start again. What was due while paused does not run, unless `misfire` says what happens to it.

    A one-off whose time passed meanwhile has nothing left to run: it ends FAILED, MISSED_WHILE_PAUSED. A pause that had
    an end was over then, even if it is noticed later: what was due from its end on is due still.
    """
    paused_through = now if job.paused_until is None else min(now, job.paused_until - 1)
    awake = replace(
        job, status=JobStatus.SCHEDULED, pause_reason=None, paused_until=None, paused_at=None, catch_up=misfire
    )
    missed = job.next_run_at is not None and job.next_run_at <= paused_through
    if misfire is None and missed:
        awake = _passed_over(counting_from(awake, paused_through), job.counted_from)
        if awake.next_run_at is None and job.last_run is None and isinstance(job.schedule, Once):
            awake = replace(awake, status=JobStatus.FAILED, status_reason=MISSED_WHILE_PAUSED)
    held = awake.held is not None and awake.status is JobStatus.SCHEDULED  # what it waited for may have ended meanwhile
    return _verb(job, awake, "resume", shards, now, look_at=now if held else None)


def _passed_over(awake: Job, after: Instant) -> Job:
    """The job remembers that nothing ran of what was due after this and until it counts on. Old pauses go first."""
    pauses, through = awake.pauses, awake.counted_from
    if pauses and pauses[-1][1] == after:  # nothing was due between the two
        return replace(awake, pauses=(*pauses[:-1], (pauses[-1][0], through)))
    kept = (*pauses, (after, through))[-MAX_PAUSES:]
    known_since = pauses[0][1] if len(pauses) == MAX_PAUSES else awake.known_since
    return replace(awake, pauses=kept, known_since=known_since)


def edit(job: Job, wanted: Job, shards: int, now: Instant) -> Write:
    """Change the fields that differ. The schedule counts from now where it changed, and stands where it did not.

    Where it changed, an occurrence that waited for the run before it is given up: whoever edits records it. "Now" is
    not before the last run where two clocks differ by as much as clocks may: it would be due again.
    """
    after = wanted
    if wanted.schedule != job.schedule:
        last_run = job.last_run or 0
        since = last_run if now < last_run <= now + RECLAIM_MARGIN_MS else now
        if isinstance(wanted.schedule, Once):
            since = min(now, wanted.schedule.run_at - 1)  # just past: at once
        moved = counting_from(wanted, since)
        after = replace(moved, held=None, missed_run=0, catch_up=None, known_since=since, pauses=())
    elif job.next_run_at is None:
        after = counting_from(wanted, job.counted_from)  # there may be more runs now than there were to be
    if after.max_runs is not None and after.run_count >= after.max_runs:
        after = replace(after, next_run_at=None)
    return _verb(job, after, "edit", shards, now)


def skip_next(job: Job, count: int, shards: int, now: Instant) -> tuple[Write, tuple[Instant, ...]]:
    """(the job, gone on after the next `count` occurrences that nobody has claimed; these). The schedule stands.

    One that waits for the run before it is the next one. Whoever skips records each of them, in one write with this.
    A one-off has nothing left then: it ends CANCELLED, as it would by a cancel. Raises Conflict (NOTHING_TO_SKIP).
    """
    assert 0 < count <= MAX_SKIPPED, "refused at the door"
    if job.status is not JobStatus.SCHEDULED or (job.held is None and job.next_run_at is None):
        raise _nothing_to_skip(job)
    skipped = [job.held] if job.held is not None else []
    after = replace(job, held=None)
    while after.next_run_at is not None and len(skipped) < count:
        skipped.append(after.next_run_at)
        after = counting_from(after, after.next_run_at)
    if isinstance(job.schedule, Once):
        after = replace(after, status=JobStatus.CANCELLED, status_reason=SKIPPED_BY_HAND)
    return _verb(job, after, "skip next", shards, now), tuple(skipped)


def _nothing_to_skip(job: Job) -> Conflict:
    name = job.name or job.job_id
    if job.status is JobStatus.PAUSED:
        why, fix = "nothing of it runs before it is resumed", f"schedkit job resume {name}"
    else:
        why, fix = "all of its schedule has been claimed or skipped already", f"schedkit job runs {name}"
    detail = f"{name} is {job.status} and has no next occurrence to skip"
    return Conflict(Reason.NOTHING_TO_SKIP, detail, why=why, fix=(fix,))


def cancel(job: Job, shards: int, now: Instant) -> Write:
    """Nothing of this job that was not claimed yet will run."""
    after = replace(job, status=JobStatus.CANCELLED, next_run_at=None, held=None, paused_until=None, catch_up=None)
    return _verb(job, after, "cancel", shards, now)


def trigger(job: Job, scheduled_for: Instant, payload: str | None, shards: int, now: Instant) -> tuple[Write, Write]:
    """A run outside the schedule, which stays as it is: ready to be claimed now, known to the overlap rule."""
    waiting = new_run(job, scheduled_for, now, RunStatus.RETRY_WAIT, now)
    run = replace(waiting, attempt=1, not_before=now, triggered=True, payload=payload)
    retry = waiting_timer(run, shards, now)
    known = Write(job_key(job.job_id), "trigger", seen(job), {"last_triggered": scheduled_for})
    made = Write(run_key(job.job_id, scheduled_for), "trigger", (Absent(),), run_attributes(run) | listing(run) | retry)
    return known, made


def _verb(job: Job, after: Job, arrow: str, shards: int, now: Instant, look_at: Instant | None = None) -> Write:
    raised = replace(after, version=job.version + 1, updated_at=now)
    changes = changed_attributes(job, raised)
    ended = kept_until(now) if raised.status.ended else {}
    return Write(job_key(job.job_id), arrow, stands(job), changes | ended | timer(raised, shards, now, look_at))
