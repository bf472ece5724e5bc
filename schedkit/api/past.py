"""What was due to a job in a range of time, and the runs that there are of it. A range is since <= time < until."""

from __future__ import annotations

from typing import Final

from schedkit.engine.when import ledger
from schedkit.errors import InvalidInput, Reason
from schedkit.model.jobs import Job
from schedkit.model.keys import RUN_PREFIX, run_key
from schedkit.model.redrives import MAX_BACKFILLED
from schedkit.model.runs import Run, run_of
from schedkit.model.time import Instant, rfc3339
from schedkit.ports import World

MOST_OCCURRENCES: Final = MAX_BACKFILLED  # of one answer: a day of every nine seconds, a week of every minute
MOST_RUNS: Final = 2 * MOST_OCCURRENCES  # … and as many again that the schedule did not ask for
STEP: Final = 50  # occurrences computed, or runs read, between two turns of everybody else


def require_range(since: Instant, until: Instant, begin: str = "since", end: str = "until") -> None:
    """Raises InvalidInput for a range that nothing can be in; `begin` and `end` are the names of its ends."""
    if until <= since:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{end} {rfc3339(until)} is not later than {begin} {rfc3339(since)}, so nothing lies between them",
            field=end,
        )


async def due_between(world: World, job: Job, since: Instant, until: Instant, end: str = "until") -> list[Instant]:
    """What the job's schedule asked for in the range, oldest first. Raises InvalidInput where they are too many."""
    found: list[Instant] = []
    for at in ledger.by_schedule(job, since, until):
        found.append(at)
        if len(found) > MOST_OCCURRENCES:
            raise _too_many(job, f"{MOST_OCCURRENCES:,} occurrences", (since, until), at, end)
        if len(found) % STEP == 0:
            await world.clock.sleep(0)
    return found


def _too_many(job: Job, what: str, between: tuple[Instant, Instant], at: Instant, end: str) -> InvalidInput:
    since, until = map(rfc3339, between)
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"{job.name or job.job_id} has more than {what} between {since} and {until}",
        field=end,
        why="each of them is looked at, and others wait for answers too",
        fix=(f"end at {rfc3339(at)}, and ask for the rest from there on",),
    )


async def runs_between(
    world: World, job: Job, since: Instant, until: Instant, end: str = "until"
) -> dict[Instant, Run]:
    """Every run of the job in the range, by its time; no other one is read, but those of the last page.

    Raises InvalidInput where they are too many.
    """
    first = run_key(job.job_id, since)
    found: dict[Instant, Run] = {}
    cursor: str | None = None
    while True:
        page = await world.store.page(first.partition, prefix=RUN_PREFIX, since=first.sort, limit=STEP, cursor=cursor)
        for _, item in page.items:
            if item["scheduled_for"] >= until:
                return found
            found[item["scheduled_for"]] = run_of(item)
        if len(found) > MOST_RUNS:
            raise _too_many(job, f"{MOST_RUNS:,} runs", (since, until), max(found), end)
        cursor = page.cursor
        if cursor is None:
            return found
        await world.clock.sleep(0)
