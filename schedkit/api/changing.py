"""Changing a job as somebody read it: the version that they saw, the tries that this takes, what is given up by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header

from schedkit.api.lookup import find_job
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.who import claim as claiming
from schedkit.errors import Conflict, Reason
from schedkit.model.access import Caller
from schedkit.model.jobs import Job
from schedkit.model.keys import run_key
from schedkit.model.writes import Applied, Write
from schedkit.ports import World

IfMatch = Annotated[str | None, Header(alias="If-Match")]


async def attempts(world: World, caller: Caller, ref: str) -> AsyncIterator[Job]:
    """The job as it stands, again after each refused write. Raises NotFound, Conflict (JOB_ENDED)."""
    job = await find_job(world, caller, ref)
    while True:
        if job.status.ended:
            raise Conflict(
                Reason.JOB_ENDED,
                f"{job.name or job.job_id} has ended: it is {job.status}",
                why="a job that has ended does not come back",
                fix=("create a new job; the name is free again",),
            )
        yield job
        job = await find_job(world, caller, job.job_id)


async def landed(world: World, *writes: Write) -> bool:
    """Commit; whether all of it was written."""
    return isinstance(await world.commit(*writes), Applied)


async def held_record(world: World, job: Job, reason: str) -> list[Write]:
    """The record of an occurrence that waited for the run before it, and now will not run (C3)."""
    if job.held is None or await world.store.get(run_key(job.job_id, job.held)) is not None:
        return []
    return [claiming.skip(job, job.held, dispatch_at(job, job.held), reason, world.clock.now())]


def require_version(job: Job, if_match: str | None) -> None:
    """Raises Conflict (VERSION_CONFLICT) where the job is at another version than the one that was read."""
    if if_match is None or if_match.strip() == "*":
        return
    if if_match.strip().strip('"') != str(job.version):
        raise Conflict(
            Reason.VERSION_CONFLICT,
            f"{job.name or job.job_id} is at version {job.version}, not {if_match[:20]}",
            field="If-Match",
            why="somebody changed it since you read it",
            fix=(f"schedkit job show {job.name or job.job_id}",),
            extra={"version": job.version},
        )
