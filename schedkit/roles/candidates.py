"""What a redrive may start: dead letters from their list, or for a backfill the occurrences of a job's past.

    page      the next ones in order, unseen so far, and where the page after it begins
    fit       one of them as it stands now: to be started, to be left and why, or not yet

Both kinds are runs: an occurrence without a record is a run that has not come to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from schedkit.engine.failure import backfill
from schedkit.engine.failure import redrive as redriving
from schedkit.engine.when import ledger
from schedkit.model.jobs import Job, job_of
from schedkit.model.keys import RUN_PREFIX, Index, dead_listing, job_key, run_key
from schedkit.model.redrives import DeadFilter, Order, PastRange, Redrive, Unfit
from schedkit.model.runs import Run, run_of
from schedkit.model.time import SECOND_MS, Instant
from schedkit.ports import World

PAGE: Final = 50
STORE_PATIENCE_MS: Final = 5 * SECOND_MS  # half a lease: another may take it up after that


@dataclass(frozen=True, slots=True)
class Batch:
    """Some candidates in order; `cursor` None: there are no more. `left` are those that will not be looked at."""

    runs: Sequence[Run]
    cursor: str | None
    left: int = 0


@dataclass(frozen=True, slots=True)
class Fit:
    """To be started, with its job as both were read."""

    run: Run
    job: Job


@dataclass(frozen=True, slots=True)
class NotYet:
    """Another run of its job has to end first."""


class Candidates(Protocol):
    """Where a redrive finds what it starts. Both verbs raise StoreUnavailable."""

    async def page(self, redrive: Redrive) -> Batch:
        """The candidates from the redrive's cursor on."""

    async def fit(self, run: Run) -> Fit | Unfit | NotYet | None:
        """What is to be done about this one; None where this redrive has started it already."""


def candidates_of(redrive: Redrive, world: World) -> Candidates:
    """Where this redrive finds what it starts."""
    match redrive.filter:
        case DeadFilter():
            return DeadLetters(world, redrive.filter, redrive.include_unknown)
        case PastRange():
            return PastOccurrences(world, redrive.filter, redrive.redrive_id)


class DeadLetters:
    """Those that a filter keeps, oldest first."""

    def __init__(self, world: World, wanted: DeadFilter, include_unknown: bool) -> None:
        self._world = world
        self._wanted = wanted
        self._include_unknown = include_unknown

    async def page(self, redrive: Redrive) -> Batch:
        """What died after the redrive was begun is another's, and so is what died again in a series that it began."""
        listing = dead_listing(redrive.tenant_id)
        page = await self._world.store.page(listing, index=Index.DEAD, limit=PAGE, cursor=redrive.cursor)
        runs = [run_of(item) for _, item in page.items]
        known = [run for run in runs if (run.finished_at or 0) <= redrive.created_at]
        wanted = [run for run in known if self._wanted.keeps(run) and run.redrive_id != redrive.redrive_id]
        return Batch(wanted, page.cursor if len(known) == len(runs) else None)

    async def fit(self, run: Run) -> Fit | Unfit:
        """By its job as it is now."""
        job = await _job(self._world, run.job_id)
        why = redriving.unfit(run, job, include_unknown=self._include_unknown)
        if why is not None:
            return why
        assert job is not None, "a job that is gone is not fit"
        return Fit(run, job)


class PastOccurrences:
    """Those that a job was due at in a range of its past, in the order that was asked for."""

    def __init__(self, world: World, wanted: PastRange, backfill_id: str) -> None:
        self._world = world
        self._wanted = wanted
        self._backfill_id = backfill_id
        self._due: list[Instant] | None = None

    async def page(self, redrive: Redrive) -> Batch:
        """Where the job has another schedule by now, what is left of the old one is nobody's."""
        job = await _job(self._world, self._wanted.job_id)
        if job is None or job.known_since != self._wanted.known_since:
            told = redrive.redriven + sum(redrive.skipped.values())
            return Batch((), None, left=max(0, self._wanted.occurrences - told))
        all_due = await self._all_due(job)
        begin = 0 if redrive.cursor is None else self._place_after(all_due, int(redrive.cursor))
        due, more = all_due[begin : begin + PAGE], begin + PAGE < len(all_due)
        now = self._world.clock.now()
        runs = [backfill.candidate(job, at, None, now) for at in due]
        return Batch(runs, str(due[-1]) if more else None)

    async def fit(self, run: Run) -> Fit | Unfit | NotYet | None:
        """By its record and its job as they are now; where runs may not overlap, after what its job runs now."""
        world, at = self._world, run.scheduled_for
        job, there = await _job(world, run.job_id), await _run(world, run.job_id, at)
        if there is not None and self._backfill_id in (there.backfill_id, there.redrive_id):
            return None
        if job is not None and job.known_since != self._wanted.known_since:
            return Unfit.CHANGED
        why = backfill.unfit(there, job, at, world.clock.now(), world.epoch_floor)
        if why is not None:
            return why
        assert job is not None, "a job that is gone is not fit"
        if self._wanted.one_by_one:
            for other in (job.last_run, job.last_triggered):
                beside = await _run(world, job.job_id, other) if other is not None else None
                if beside is not None and not beside.status.final:
                    return NotYet()
        return Fit(backfill.candidate(job, at, there, world.clock.now()), job)

    async def _all_due(self, job: Job) -> list[Instant]:
        """Computed once, in turns with everything else."""
        if self._due is None:
            by_schedule: list[Instant] = []
            for at in ledger.by_schedule(job, self._wanted.since, self._wanted.until):
                by_schedule.append(at)
                if len(by_schedule) % PAGE == 0:
                    await self._world.clock.sleep(0)
            due = ledger.was_due(job, by_schedule, await self._recorded(job))
            self._due = due if self._wanted.order is Order.OLDEST else due[::-1]
        return self._due

    async def _recorded(self, job: Job) -> list[Run]:
        """The runs of the range where only they tell when the job was due."""
        since, until = ledger.only_recorded(job)
        since, until = max(since, self._wanted.since), min(until, self._wanted.until)
        found: list[Run] = []
        first, cursor = run_key(job.job_id, since), None
        while since < until:
            page = await self._world.store.page(
                first.partition, prefix=RUN_PREFIX, since=first.sort, limit=PAGE, cursor=cursor
            )
            runs = [run_of(item) for _, item in page.items]
            found += [run for run in runs if run.scheduled_for < until]
            cursor = page.cursor
            if cursor is None or runs[-1].scheduled_for >= until:
                break
            await self._world.clock.sleep(0)
        return found

    def _place_after(self, due: Sequence[Instant], at: Instant) -> int:
        newest_first = self._wanted.order is Order.NEWEST
        return sum((other >= at) if newest_first else (other <= at) for other in due)


async def _job(world: World, job_id: str) -> Job | None:
    item = await world.get_by(world.clock.now() + STORE_PATIENCE_MS, job_key(job_id))
    return job_of(item) if item is not None else None


async def _run(world: World, job_id: str, at: Instant) -> Run | None:
    item = await world.get_by(world.clock.now() + STORE_PATIENCE_MS, run_key(job_id, at))
    return run_of(item) if item is not None else None
