"""Runs over HTTP: list, read, cancel, start a dead one again, settle an unknown one."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query

from schedkit.api.access import CallerDep, Guarded, needs
from schedkit.api.changing import IfRunMatches, require_unchanged
from schedkit.api.dead_in import ResolveBody, RetryBody
from schedkit.api.jobs_in import instant_in
from schedkit.api.lists import PageOf, listed
from schedkit.api.lookup import find_job, find_run, job_by_id
from schedkit.api.problems import refuses
from schedkit.api.requests import DEFAULT_LIMIT, Cursor, Limit, When, WorldDep, body_of
from schedkit.api.runs_out import RecentRunOut, RunOut, RunsOut
from schedkit.api.views import recent_run_out, run_out
from schedkit.engine.failure import redrive as redriving
from schedkit.engine.when.advance import look_again, waits_for_run
from schedkit.engine.who import cancel as cancelling
from schedkit.errors import Conflict, Reason
from schedkit.model.access import Caller, Role
from schedkit.model.jobs import Job
from schedkit.model.keys import RUN_PREFIX, Index, job_key, runs_listing
from schedkit.model.redrives import Unfit
from schedkit.model.runs import Run, RunStatus, run_of
from schedkit.model.writes import Applied, Item
from schedkit.ports import Page, World

RECENT_RUNS: Final = 10
MANY_AHEAD: Final = 100  # a page of a job of which more was skipped ahead than was asked for: one skip-next has 90

router = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=Guarded)

Statuses = Annotated[list[RunStatus] | None, Query()]


@router.get("", summary="Runs across jobs, newest first", responses=refuses(404))
@needs(Role.VIEWER)
async def list_runs(
    world: WorldDep,
    caller: CallerDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    status: Statuses = None,
    job: str | None = None,
    target: str | None = None,
    since: When = None,
    until: When = None,
) -> RunsOut:
    if job is not None:
        found = await find_job(world, caller, job)
        return await list_runs_of(world, found, limit, cursor, status, since, until, target)

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            runs_listing(caller.tenant_id), index=Index.LISTED, limit=limit, cursor=cursor, newest_first=True
        )

    return await _listed(world, page, limit, cursor, status, since, until, target, caller)


async def list_runs_of(
    world: World,
    job: Job,
    limit: int,
    cursor: str | None,
    status: list[RunStatus] | None,
    since: str | None,
    until: str | None,
    target_id: str | None = None,
) -> RunsOut:
    """One page of a job's runs, newest first."""

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            job_key(job.job_id).partition, prefix=RUN_PREFIX, limit=limit, cursor=cursor, newest_first=True
        )

    return await _listed(world, page, limit, cursor, status, since, until, target_id)


async def recent_runs(world: World, job: Job) -> list[RecentRunOut]:
    """The job's newest runs, whose first one is its last run wherever one is spoken of.

    What was skipped ahead of its time is none before that has come.
    """
    found: list[Run] = []
    now, cursor, limit = world.clock.now(), None, RECENT_RUNS
    while True:
        page = await world.store.page(
            job_key(job.job_id).partition, prefix=RUN_PREFIX, limit=limit, cursor=cursor, newest_first=True
        )
        runs = [run_of(item) for _, item in page.items]
        found += [run for run in runs if run.scheduled_for <= now or run.status is not RunStatus.SKIPPED]
        cursor, limit = page.cursor, MANY_AHEAD
        if cursor is None or len(found) >= RECENT_RUNS:
            return [recent_run_out(run) for run in found[:RECENT_RUNS]]
        await world.clock.sleep(0)


@router.post("/{run_id}:cancel", summary="Ask a run to stop", responses=refuses(409))
@needs(Role.OPERATOR)
async def cancel_run(world: WorldDep, caller: CallerDep, run_id: str, if_match: IfRunMatches = None) -> RunOut:
    """A waiting run ends CANCELLED at once; a call in flight cannot be recalled, and its end is recorded as it was."""
    while True:
        run = await find_run(world, caller, run_id)
        require_unchanged(run, if_match)
        match run.status:
            case RunStatus.RETRY_WAIT:
                write = cancelling.cancel_waiting(run, cancelling.REASON_RUN_CANCELLED, world.clock.now())
            case RunStatus.RUNNING if not run.cancel_requested:
                write = cancelling.request_cancel(run)
            case RunStatus.RUNNING | RunStatus.CANCELLED | RunStatus.SUCCEEDED_AFTER_CANCEL:
                return run_out(run)
            case _:
                raise Conflict(
                    Reason.RUN_FINISHED,
                    f"{run_id} has ended: it is {run.status}",
                    why="what has ended cannot be stopped",
                    fix=(f"schedkit run show {run_id}",),
                )
        outcome = await world.commit(write)
        if isinstance(outcome, Applied):
            await _let_job_know(world, caller, run)
            return run_out(run_of(outcome.item))


@router.post("/{run_id}:retry", summary="A new series of attempts for a dead letter", responses=refuses(409))
@needs(Role.OPERATOR)
async def retry_run(
    world: WorldDep,
    caller: CallerDep,
    run_id: str,
    body: Annotated[Any, Depends(body_of(RetryBody, optional=True))],
    if_match: IfRunMatches = None,
) -> RunOut:
    """One conditional write: the next call is attempt 1 of a new series, under the next epoch and the same key."""
    while True:
        run = await find_run(world, caller, run_id)
        require_unchanged(run, if_match)
        _require_dead(run)
        job = await job_by_id(world, caller, run.job_id)
        if (why := redriving.unfit(run, job, include_unknown=body.include_unknown)) is not None:
            raise _not_redrivable(run, why)
        assert job is not None, "a job that is gone is not fit"
        now = world.clock.now()
        kept = redriving.keep_job(job, now)
        outcome = await world.commit(
            redriving.redrive_run(run, world.shards, now), *([kept] if kept is not None else [])
        )
        if isinstance(outcome, Applied):
            return run_out(run_of(outcome.item))


@router.post("/{run_id}:resolve", summary="Say what became of an UNKNOWN run", responses=refuses(409))
@needs(Role.OPERATOR)
async def resolve_run(
    world: WorldDep, caller: CallerDep, run_id: str, body: Annotated[Any, Depends(body_of(ResolveBody))]
) -> RunOut:
    """One conditional write: as SUCCEEDED it leaves the dead letters, as FAILED it stays one."""
    while True:
        run = await find_run(world, caller, run_id)
        if run.status is not RunStatus.UNKNOWN or run.dropped_at is not None:
            raise Conflict(
                Reason.NOT_UNKNOWN,
                f"{run_id} is {run.status}{', and was given up' if run.dropped_at else ''}",
                why="what is known is not settled by hand",
                fix=(f"schedkit run show {run_id}",),
            )
        outcome = await world.commit(
            redriving.resolve(run, body.as_ == RunStatus.SUCCEEDED, body.note, world.clock.now())
        )
        if isinstance(outcome, Applied):
            return run_out(run_of(outcome.item))


def _require_dead(run: Run) -> None:
    if redriving.dead(run):
        return
    raise Conflict(
        Reason.NOT_A_DEAD_LETTER,
        f"{run.run_id} is {run.status}{', and was given up' if run.dropped_at else ''}",
        why="only what is among the dead letters can be started again",
        fix=(f"schedkit run show {run.run_id}", "schedkit dlq list"),
    )


def _not_redrivable(run: Run, why: Unfit) -> Conflict:
    rules = {
        Unfit.JOB_CANCELLED: ("a run of a cancelled job is not called", "create a new job"),
        Unfit.JOB_PAUSED: ("a run of a paused job is not called", f"schedkit job resume {run.job_id}"),
        Unfit.JOB_GONE: ("its job is forgotten, so nobody knows what to call", "create a new job"),
        Unfit.OUTCOME_UNKNOWN: (
            "its job is to be delivered at most once, and this run may have been done already",
            f"schedkit run retry {run.run_id} --include-unknown",
        ),
    }
    rule, fix = rules[why]
    return Conflict(Reason.NOT_REDRIVABLE, f"{run.run_id} is not started again: {why}", why=rule, fix=(fix,))


@router.get("/{run_id}", summary="One run with its attempts")
@needs(Role.VIEWER)
async def get_run(world: WorldDep, caller: CallerDep, run_id: str) -> RunOut:
    return run_out(await find_run(world, caller, run_id))


async def _let_job_know(world: World, caller: Caller, run: Run) -> None:
    """A job that waits for this run, to end or to start a held occurrence, looks at it now."""
    job = await find_job(world, caller, run.job_id)
    if waits_for_run(job):
        now = world.clock.now()
        await world.commit(look_again(job, world.shards, now))


async def _listed(
    world: World,
    page_of: PageOf,
    limit: int,
    cursor: str | None,
    status: list[RunStatus] | None,
    since: str | None,
    until: str | None,
    target_id: str | None,
    caller: Caller | None = None,
) -> RunsOut:
    """Runs that `caller` sees, newest first: the first one before `since` is the end."""
    first, last = instant_in(since, "since"), instant_in(until, "until")

    def pick(item: Item) -> RunOut | None:
        run = run_of(item)
        matches = (
            (caller is None or caller.sees(run.tenant_id, run.team_id))
            and (not status or run.status in status)
            and (last is None or run.scheduled_for <= last)
            and (target_id is None or run.target_id == target_id)
        )
        return run_out(run) if matches else None

    def ends(item: Item) -> bool:
        return first is not None and run_of(item).scheduled_for < first

    items, next_cursor = await listed(world, page_of, limit, cursor, pick, ends)
    return {"items": items, "next_cursor": next_cursor}
