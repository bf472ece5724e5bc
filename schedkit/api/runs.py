"""Runs over HTTP: list, read, cancel."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query

from schedkit.api.jobs_in import instant_in
from schedkit.api.lists import PageOf, listed
from schedkit.api.lookup import find_job, find_run
from schedkit.api.requests import DEFAULT_LIMIT, Cursor, Limit, TenantDep, WorldDep
from schedkit.api.views import recent_run_out, run_out
from schedkit.engine.when.advance import look_again, waits_for_run
from schedkit.engine.who import cancel as cancelling
from schedkit.errors import Conflict, Reason
from schedkit.model.jobs import Job
from schedkit.model.keys import RUN_PREFIX, Index, job_key, runs_listing
from schedkit.model.runs import Run, RunStatus, run_of
from schedkit.model.writes import Applied, Item
from schedkit.ports import Page, World

RECENT_RUNS: Final = 10

router = APIRouter(prefix="/v1/runs", tags=["runs"])

Statuses = Annotated[list[RunStatus] | None, Query()]


@router.get("", summary="Runs across jobs, newest first")
async def list_runs(
    world: WorldDep,
    tenant: TenantDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    status: Statuses = None,
    job: str | None = None,
    target: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> dict[str, Any]:
    if job is not None:
        found = await find_job(world, tenant, job)
        return await list_runs_of(world, found, limit, cursor, status, since, until, target)

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            runs_listing(tenant), index=Index.LISTED, limit=limit, cursor=cursor, newest_first=True
        )

    return await _listed(world, page, limit, cursor, status, since, until, target)


async def list_runs_of(
    world: World,
    job: Job,
    limit: int,
    cursor: str | None,
    status: list[RunStatus] | None,
    since: str | None,
    until: str | None,
    target_id: str | None = None,
) -> dict[str, Any]:
    """One page of a job's runs, newest first."""

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            job_key(job.job_id).partition, prefix=RUN_PREFIX, limit=limit, cursor=cursor, newest_first=True
        )

    return await _listed(world, page, limit, cursor, status, since, until, target_id)


async def recent_runs(world: World, job: Job) -> list[dict[str, Any]]:
    page = await world.store.page(
        job_key(job.job_id).partition, prefix=RUN_PREFIX, limit=RECENT_RUNS, newest_first=True
    )
    return [recent_run_out(run_of(item)) for _, item in page.items]


@router.post("/{run_id}:cancel", summary="Ask a run to stop")
async def cancel_run(world: WorldDep, tenant: TenantDep, run_id: str) -> dict[str, Any]:
    """A waiting run ends CANCELLED at once; a call in flight cannot be recalled, and its end is recorded as it was."""
    while True:
        run = await find_run(world, tenant, run_id)
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
            await _let_job_know(world, tenant, run)
            return run_out(run_of(outcome.item))


@router.get("/{run_id}", summary="One run with its attempts")
async def get_run(world: WorldDep, tenant: TenantDep, run_id: str) -> dict[str, Any]:
    return run_out(await find_run(world, tenant, run_id))


async def _let_job_know(world: World, tenant: str, run: Run) -> None:
    """A job that waits for this run, to end or to start a held occurrence, looks at it now."""
    job = await find_job(world, tenant, run.job_id)
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
) -> dict[str, Any]:
    """Runs come newest first, so the first one before `since` is the end."""
    first, last = instant_in(since, "since"), instant_in(until, "until")

    def pick(item: Item) -> dict[str, Any] | None:
        run = run_of(item)
        matches = (
            (not status or run.status in status)
            and (last is None or run.scheduled_for <= last)
            and (target_id is None or run.target_id == target_id)
        )
        return run_out(run) if matches else None

    def ends(item: Item) -> bool:
        return first is not None and run_of(item).scheduled_for < first

    items, next_cursor = await listed(world, page_of, limit, cursor, pick, ends)
    return {"items": items, "next_cursor": next_cursor}
