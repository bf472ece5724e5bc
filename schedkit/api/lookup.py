"""Finding what a path names: a job by its id or its name, a run, a redrive or a backfill by its id.

What is not the caller's is not there.
"""

from __future__ import annotations

from schedkit.errors import NotFound, Reason
from schedkit.model.access import Caller
from schedkit.model.jobs import Job, job_of
from schedkit.model.keys import BACKFILL_ID_PREFIX, JOB_ID_PREFIX, job_key, name_key, parse_run_id, redrive_key, run_key
from schedkit.model.redrives import Redrive, redrive_of
from schedkit.model.runs import Run, run_of
from schedkit.ports import World


async def find_job(world: World, caller: Caller, ref: str) -> Job:
    """Raises NotFound (JOB_NOT_FOUND)."""
    job = await job_by_id(world, caller, ref) if ref.startswith(JOB_ID_PREFIX) else None
    job = job or await job_by_name(world, caller, ref)
    if job is None:
        raise NotFound(
            Reason.JOB_NOT_FOUND, f"there is no job {ref[:80]!r}", field="job_id", fix=("schedkit job list",)
        )
    return job


async def job_by_id(world: World, caller: Caller, job_id: str) -> Job | None:
    item = await world.store.get(job_key(job_id))
    return job_of(item) if item is not None and caller.sees_item(item) else None


async def job_by_name(world: World, caller: Caller, name: str) -> Job | None:
    """The job that has this name now; a job that was renamed has left it."""
    item = await world.store.get(name_key(caller.tenant_id, name))
    job = await job_by_id(world, caller, item["job_id"]) if item is not None else None
    return job if job is not None and job.name == name else None


async def find_run(world: World, caller: Caller, run_id: str) -> Run:
    """Raises NotFound (RUN_NOT_FOUND)."""
    try:
        job_id, scheduled_for = parse_run_id(run_id)
        item = await world.store.get(run_key(job_id, scheduled_for)) if scheduled_for >= 0 else None
    except (ValueError, OverflowError):
        item = None
    if item is None or not caller.sees_item(item):
        raise NotFound(
            Reason.RUN_NOT_FOUND,
            f"there is no run {run_id[:120]!r}",
            field="run_id",
            why="a run comes to be when its time has come and it is claimed, or skipped",
            fix=("schedkit run list",),
        )
    return run_of(item)


async def find_redrive(world: World, caller: Caller, redrive_id: str) -> Redrive:
    """Raises NotFound (REDRIVE_NOT_FOUND)."""
    found = None if redrive_id.startswith(BACKFILL_ID_PREFIX) else await _begun(world, caller, redrive_id)
    if found is None:
        raise NotFound(
            Reason.REDRIVE_NOT_FOUND,
            f"there is no redrive {redrive_id[:80]!r}",
            field="redrive_id",
            why="a redrive is kept for 30 days after its end",
            fix=("schedkit dlq redrives",),
        )
    return found


async def find_backfill(world: World, caller: Caller, backfill_id: str) -> Redrive:
    """Raises NotFound (BACKFILL_NOT_FOUND)."""
    found = await _begun(world, caller, backfill_id) if backfill_id.startswith(BACKFILL_ID_PREFIX) else None
    if found is None:
        raise NotFound(
            Reason.BACKFILL_NOT_FOUND,
            f"there is no backfill {backfill_id[:80]!r}",
            field="backfill_id",
            why="a backfill is kept for 30 days after its end",
            fix=("schedkit job backfills",),
        )
    return found


async def _begun(world: World, caller: Caller, redrive_id: str) -> Redrive | None:
    item = await world.store.get(redrive_key(caller.tenant_id, redrive_id))
    found = redrive_of(item) if item is not None else None
    return found if found is not None and caller.reaches(found.filter.team_id) else None
