"""Changing a job or a run as somebody read it: what they saw of it, the tries that this takes, what is given up."""

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
from schedkit.model.runs import Run
from schedkit.model.writes import Applied, Write
from schedkit.ports import World

IfMatch = Annotated[str | None, Header(alias="If-Match", description="the `version` that you read")]
IfRunMatches = Annotated[
    str | None, Header(alias="If-Match", description="the `status` and `epoch` that you read, as in `RUNNING/3`")
]


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
    if not _matches(if_match, str(job.version)):
        raise Conflict(
            Reason.VERSION_CONFLICT,
            f"{job.name or job.job_id} is at version {job.version}, not {str(if_match)[:20]}",
            field="If-Match",
            why="somebody changed it since you read it",
            fix=(f"schedkit job show {job.name or job.job_id}",),
            extra={"version": job.version},
        )


def require_unchanged(run: Run, if_match: str | None) -> None:
    """Raises Conflict (VERSION_CONFLICT) where the run has another status or epoch than the ones that were read."""
    if not _matches(if_match, f"{run.status}/{run.epoch}"):
        raise Conflict(
            Reason.VERSION_CONFLICT,
            f"{run.run_id} is {run.status}/{run.epoch} by now, not {str(if_match)[:40]}",
            field="If-Match",
            why="it went on, or somebody changed it, since you read it",
            fix=(f"schedkit run show {run.run_id}",),
            extra={"run_status": run.status.value, "epoch": run.epoch},
        )


def _matches(if_match: str | None, version: str) -> bool:
    return if_match is None or if_match.strip() == "*" or if_match.strip().strip('"') == version
