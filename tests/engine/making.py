"""Jobs and runs for tests of pure functions: what is not said is as a plain job has it."""

from __future__ import annotations

from typing import Any, Final

from schedkit.engine.when.occurrences import next_after
from schedkit.engine.when.zones import TZDATA_VERSION
from schedkit.engine.who.claim import Holder, claim
from schedkit.model.jobs import HttpTarget, Job, job_attributes, job_of
from schedkit.model.runs import Run, run_of
from schedkit.model.schedules import Cron, Schedule
from schedkit.model.time import MINUTE_MS, Instant, parse_rfc3339
from schedkit.model.writes import Item, Write

NOON: Final = parse_rfc3339("2026-06-01T12:00:00Z")
EVERY_MINUTE: Final = Cron("* * * * *")
ME: Final = Holder("node-1", "token-1")
OTHER: Final = Holder("node-2", "token-2")
SHARDS: Final = 4


def minute(n: float) -> Instant:
    """n minutes after noon."""
    return NOON + round(n * MINUTE_MS)


def job(schedule: Schedule = EVERY_MINUTE, *, since: Instant = NOON - 1, **fields: Any) -> Job:
    """A job whose schedule counts from `since`."""
    first = next_after(schedule, since)
    values: dict[str, Any] = {
        "job_id": "job_x",
        "schedule": schedule,
        "target": HttpTarget(url="http://target.example/"),
        "created_at": since,
        "updated_at": since,
        "counted_from": since,
        "next_run_at": first.scheduled_for if first else None,
        "zone_data": TZDATA_VERSION,
    }
    return Job(**values | fields)


def after(write: Write, before: Item | None) -> Item:
    """The item after a write that must hold."""
    assert write.holds(before), f"{write.arrow} was refused"
    return write.result(before)


def job_after(write: Write, before: Job) -> Job:
    return job_of(after(write, job_attributes(before)))


def claimed(of: Job | None = None, at: Instant = NOON, *, now: Instant | None = None, holder: Holder = ME) -> Run:
    """A run that `holder` has claimed."""
    started = at if now is None else now
    write = claim(of or job(), at, at, misfired=False, holder=holder, shards=SHARDS, now=started)
    return run_of(after(write, None))
