"""Walking the dead letters that a caller sees: counted by group, planned for a redrive, given up."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from schedkit.api.dead_out import DeadGroupOut, DeadGroupsOut, PlanOut, SpanOut
from schedkit.api.lookup import job_by_id
from schedkit.api.views import time_out
from schedkit.engine.failure import redrive as redriving
from schedkit.engine.failure.redrive_pace import pace_of
from schedkit.model.access import Caller
from schedkit.model.jobs import Job
from schedkit.model.keys import Index, dead_listing
from schedkit.model.redrives import DeadFilter, Unfit
from schedkit.model.runs import Run, RunStatus, run_of
from schedkit.model.time import Instant
from schedkit.model.writes import Applied
from schedkit.ports import World

PAGE: Final = 500
MOST_COUNTED: Final = 100_000  # dead letters that one answer looks at; beyond, its figures are "at least"
MOST_JOBS: Final = 1_000  # jobs that a plan looks up; what belongs to others is taken to be fit
MOST_CAUSES: Final = 10
MOST_DROPPED: Final = 5_000  # by one request: each is a write
NO_ERROR: Final = "no answer is recorded"

GROUPS: Final[dict[str, Callable[[Run], tuple[str, str | None]]]] = {
    "target": lambda run: ("target_id", run.target_id),
    "job": lambda run: ("job_name", run.job_name or run.job_id),
    "reason": lambda run: ("reason", run.reason),
    "error": lambda run: ("error", error_of(run)),
}


def error_of(run: Run) -> str:
    """How it failed last, without the number of the try: what failures have in common."""
    error = run.attempts[-1].error if run.attempts else None
    return (error or NO_ERROR).partition("; attempt ")[0]


async def walk(world: World, caller: Caller, wanted: DeadFilter, *, newest_first: bool = False) -> AsyncIterator[Run]:
    """Every dead letter that the filter keeps, by the time of its failure; others have their turn between pages."""
    cursor: str | None = None
    while True:
        page = await world.store.page(
            dead_listing(caller.tenant_id), index=Index.DEAD, limit=PAGE, cursor=cursor, newest_first=newest_first
        )
        for _, item in page.items:
            if wanted.keeps(run := run_of(item)):
                yield run
        cursor = page.cursor
        if cursor is None:
            return
        await world.clock.sleep(0)


@dataclass(slots=True)
class Span:
    """How many, since when and until when."""

    count: int = 0
    oldest: Instant | None = None
    newest: Instant | None = None

    def add(self, run: Run) -> None:
        failed_at = run.finished_at or 0
        self.count += 1
        self.oldest = failed_at if self.oldest is None else min(self.oldest, failed_at)
        self.newest = failed_at if self.newest is None else max(self.newest, failed_at)

    @property
    def document(self) -> SpanOut:
        return {"count": self.count, "oldest": time_out(self.oldest), "newest": time_out(self.newest)}


async def grouped(world: World, caller: Caller, wanted: DeadFilter, by: Sequence[str]) -> DeadGroupsOut:
    """Counts of what has the same target, job, reason or error; the largest group first."""
    groups: dict[tuple[tuple[str, str | None], ...], Span] = {}
    counted = 0
    async for run in walk(world, caller, wanted):
        groups.setdefault(tuple(GROUPS[name](run) for name in by), Span()).add(run)
        counted += 1
        if counted >= MOST_COUNTED:
            break
    ordered = sorted(groups.items(), key=lambda found: (-found[1].count, repr(found[0])))
    items = [cast(DeadGroupOut, {**dict(names), **span.document}) for names, span in ordered]
    return {"items": items, "counted": counted, "complete": counted < MOST_COUNTED}


@dataclass(slots=True)
class Plan:
    """What a redrive or a drop would do, counted."""

    fit: Span = field(default_factory=Span)
    skipped: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    complete: bool = True

    def add(self, run: Run) -> None:
        self.fit.add(run)
        self.causes[error_of(run)] += 1
        self.unknown += run.status is RunStatus.UNKNOWN

    @property
    def document(self) -> PlanOut:
        span = self.fit.document
        causes = sorted(self.causes.items(), key=lambda found: (-found[1], found[0]))[:MOST_CAUSES]
        return {
            "total": span["count"],
            "oldest": span["oldest"],
            "newest": span["newest"],
            "causes": [{"error": error, "count": count} for error, count in causes],
            "unknown": self.unknown,
            "skipped": dict(sorted(self.skipped.items())),
            "complete": self.complete,
            "notes": list(_notes(self)),
        }


async def planned(
    world: World, caller: Caller, wanted: DeadFilter, *, limit: int | None, include_unknown: bool
) -> Plan:
    """What a redrive of these would start, and what it would leave and why."""
    plan, jobs = Plan(), dict[str, Job | None]()
    looked_at = 0
    async for run in walk(world, caller, wanted):
        looked_at += 1
        if run.job_id not in jobs and len(jobs) < MOST_JOBS:
            jobs[run.job_id] = await job_by_id(world, caller, run.job_id)
        known = run.job_id in jobs
        why = redriving.unfit(run, jobs[run.job_id], include_unknown=include_unknown) if known else None
        if why is not None:
            plan.skipped[why.value] += 1
        else:
            plan.add(run)
        if looked_at >= MOST_COUNTED:
            plan.complete = False
        if looked_at >= MOST_COUNTED or plan.fit.count == limit:
            break
    return plan


def _notes(plan: Plan) -> list[str]:
    said: Mapping[str, str] = {
        Unfit.JOB_CANCELLED: "of cancelled jobs stay where they are: a run of such a job is not called",
        Unfit.JOB_PAUSED: "of paused jobs stay where they are: resume the job first",
        Unfit.JOB_GONE: "stay where they are: their jobs are forgotten, so nobody knows what to call",
        Unfit.OUTCOME_UNKNOWN: "are UNKNOWN and stay where they are: each may have been done already",
    }
    notes = [f"{plan.skipped[name]} {text}" for name, text in said.items() if plan.skipped[name]]
    if plan.unknown:
        notes.insert(0, f"{plan.unknown} are UNKNOWN: each may have been done already, and would be called again")
    return notes


def seconds_for(count: int, max_per_second: int) -> int:
    """About how long that many take to be released."""
    return -(-count // max(1, round(pace_of(max_per_second).per_second))) if count else 0


async def dropped(
    world: World, caller: Caller, wanted: DeadFilter, limit: int, note: str | None, *, archive: bool
) -> tuple[int, bool]:
    """(how many were given up, whether there are more). What changes meanwhile stays."""
    count = 0
    found = [run async for run in _first(world, caller, wanted, limit + 1)]
    for run in found[:limit]:
        write = redriving.drop(run, note, world.clock.now(), archive=archive)
        count += isinstance(await world.commit(write), Applied)
    return count, len(found) > limit


async def _first(world: World, caller: Caller, wanted: DeadFilter, limit: int) -> AsyncIterator[Run]:
    left = limit
    async for run in walk(world, caller, wanted):
        yield run
        left -= 1
        if not left:
            return
