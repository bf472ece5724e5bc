"""What to do about a job whose time has come: start, hold or skip (W12, W13, W15).

    the occurrence is …            RUN_ONCE                 SKIP             RUN_ALL
    on time, or within the grace   start                    start            start
    late                           skip all but the latest  skip all late    start, up to 100 in a row;
                                   one, start that          ones             then as RUN_ONCE

    the previous run is open       ALLOW start · SKIP skip · BUFFER_ONE hold one, skip the others
    not started in time            skip (EXPIRED)

A pure function of the job, its previous run and now; the role performs it and asks again until nothing is due. Long
outages are worked off in chunks, each of them one atomic write, so a crash between two of them loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schedkit.engine.when.occurrences import next_after
from schedkit.engine.when.window import dispatch_at
from schedkit.model.jobs import Job, JobStatus, MisfirePolicy, OverlapPolicy
from schedkit.model.time import SECOND_MS, Instant

CHUNK: Final = 90  # skips in one atomic write: a transaction holds 100 items at most
MAX_CATCH_UP_RUNS: Final = 100  # W12: RUN_ALL runs this many missed occurrences, then only the latest
LOOK_AGAIN_MS: Final = 10 * SECOND_MS  # a job that waits for its last run is looked at, should its wake-up be lost

MISFIRED: Final = "MISFIRED"
OVERLAP: Final = "OVERLAP"
EXPIRED: Final = "EXPIRED"


@dataclass(frozen=True, slots=True)
class NotDue:
    """Nothing to do now."""


@dataclass(frozen=True, slots=True)
class AutoResume:
    """A pause with an end has reached it."""


@dataclass(frozen=True, slots=True)
class Start:
    """Claim this occurrence. `held` says that it waited for the run before it."""

    scheduled_for: Instant
    misfired: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """Record these occurrences as SKIPPED; the job goes on at the first occurrence after the last of them."""

    occurrences: tuple[Instant, ...]
    reason: str
    held: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the occurrence that is due until the previous run has ended."""


@dataclass(frozen=True, slots=True)
class Close:
    """No occurrence is left: the job ends with its last run."""


Plan = NotDue | AutoResume | Start | Skip | Hold | Close


def plan(job: Job, previous_open: bool, now: Instant) -> Plan:
    """The next thing to do for this job. `previous_open`: the run started last has no final state yet."""
    if job.status is JobStatus.PAUSED:
        return AutoResume() if job.paused_until is not None and job.paused_until <= now else NotDue()
    if job.status is not JobStatus.SCHEDULED:
        return NotDue()
    if job.held is not None and not previous_open and dispatch_at(job, job.held) <= now:
        return Skip((job.held,), EXPIRED, held=True) if expired(job, job.held, now) else Start(job.held, held=True)
    due = job.next_run_at
    if due is None and job.held is None:
        return Close()
    if due is None or dispatch_at(job, due) > now:
        return NotDue()
    if expired(job, due, now):
        return Skip(_chunk(job, due, now, lambda at: expired(job, at, now)), EXPIRED)
    if previous_open and job.overlap is OverlapPolicy.BUFFER_ONE and job.held is None:
        return Hold()
    if previous_open and job.overlap is not OverlapPolicy.ALLOW:
        return Skip(_chunk(job, due, now), OVERLAP)
    return _on_time_or_misfire(job, due, now)


def _on_time_or_misfire(job: Job, due: Instant, now: Instant) -> Start | Skip:
    if not _late(job, due, now):
        return Start(due)
    policy = job.catch_up or job.misfire
    if policy is MisfirePolicy.SKIP:
        return Skip(_chunk(job, due, now, lambda at: _late(job, at, now)), MISFIRED)
    if policy is MisfirePolicy.RUN_ALL and job.missed_run < MAX_CATCH_UP_RUNS:
        return Start(due, misfired=True)
    missed = _chunk(job, due, now, size=CHUNK + 1)
    return Start(due, misfired=True) if len(missed) == 1 else Skip(missed[:-1], MISFIRED)


def _late(job: Job, scheduled_for: Instant, now: Instant) -> bool:
    """Noticed more than the grace after its time; its time is its place in the window."""
    return now - dispatch_at(job, scheduled_for) > job.misfire_grace_ms


def expired(job: Job, scheduled_for: Instant, now: Instant) -> bool:
    """It was not started in time (W15)."""
    return job.expires_after_ms is not None and now > scheduled_for + job.expires_after_ms


def _chunk(
    job: Job, first: Instant, now: Instant, also: Callable[[Instant], bool] = lambda at: True, size: int = CHUNK
) -> tuple[Instant, ...]:
    """`first` and the occurrences after it that are due already, while `also` holds for them; `size` at most."""
    found = [first]
    while len(found) < size:
        following = next_after(job.schedule, found[-1])
        if following is None or dispatch_at(job, following.scheduled_for) > now or not also(following.scheduled_for):
            break
        found.append(following.scheduled_for)
    return tuple(found)
