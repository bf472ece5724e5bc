"""Skip-next over HTTP: the next occurrences of a job do not run, and each has a record that says so (W14)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from schedkit.api import bodies
from schedkit.api.access import CallerDep, Guarded, needs
from schedkit.api.changing import IfMatch, attempts, require_version
from schedkit.api.jobs_in import instant_in
from schedkit.api.past_out import SkippedOut
from schedkit.api.problems import refuses
from schedkit.api.requests import WorldDep, body_of
from schedkit.api.views import job_out
from schedkit.engine.when import operate
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.who import claim as claiming
from schedkit.errors import Conflict, Reason
from schedkit.model.access import Role
from schedkit.model.jobs import Job, job_attributes, job_of
from schedkit.model.keys import run_id, run_key
from schedkit.model.runs import RunStatus, run_of
from schedkit.model.time import Instant, rfc3339
from schedkit.model.writes import Applied, Refused
from schedkit.ports import World

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=Guarded)


@router.post("/{ref}:skipNext", summary="The next occurrences do not run; the schedule stands", responses=refuses(409))
@needs(Role.OPERATOR)
async def skip_next(
    world: WorldDep,
    caller: CallerDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.SkipBody, optional=True))],
    if_match: IfMatch = None,
) -> SkippedOut:
    """The job as it goes on, and `skipped`: the times that were. Said again it skips those that come then.

    With `dry_run` as it would go on, and those that would be.

    With `first`, only if that is the occurrence that comes next: the schedule goes on without changing `version`.
    """
    first = instant_in(body.first, "first")
    async for job in attempts(world, caller, ref):
        require_version(job, if_match)
        now = world.clock.now()
        move, skipped = operate.skip_next(job, body.count, world.shards, now)
        if first is not None and skipped[0] != first:
            raise await _another(world, job, first, skipped[0])
        shown = [rfc3339(at) for at in skipped]
        if body.dry_run:
            after = job_of(move.result(job_attributes(job)))
            return {**job_out(after, world.registered), "skipped": shown}
        records = [claiming.skip(job, at, dispatch_at(job, at), operate.SKIPPED_BY_HAND, now) for at in skipped]
        match await world.commit(move, *records):
            case Applied(items):
                return {**job_out(job_of(items[0]), world.registered), "skipped": shown}
            case Refused(index=0, current=current) if current is not None:
                fresh = job_of(current)
                if fresh.version == job.version and skipped[0] not in (fresh.held, fresh.next_run_at):
                    raise await _begun(world, job, skipped[0])
            case Refused(index=index) if index > 0:
                raise await _begun(world, job, skipped[index - 1])
    raise AssertionError("attempts end by an answer")


async def _another(world: World, job: Job, first: Instant, coming: Instant) -> Conflict:
    """What comes next is not the occurrence that was to be skipped first."""
    if await world.store.get(run_key(job.job_id, first)) is not None:
        return await _begun(world, job, first)
    name = job.name or job.job_id
    return Conflict(
        Reason.VERSION_CONFLICT,
        f"the next run of {name} is that of {rfc3339(coming)}, not that of {rfc3339(first)}; nothing was skipped",
        field="first",
        why="its schedule has gone on, or was changed, since you read it",
        fix=(f"schedkit job next {name}",),
        extra={"next": rfc3339(coming)},
    )


async def _begun(world: World, job: Job, at: Instant) -> Conflict:
    """There is a run of this occurrence by now: whoever asked meant it, and not the one after it."""
    item = await world.store.get(run_key(job.job_id, at))
    status = run_of(item).status if item is not None else RunStatus.RUNNING
    again = f"schedkit job skip-next {job.name or job.job_id}"
    return Conflict(
        Reason.RUN_FINISHED if status.final else Reason.RUN_IN_PROGRESS,
        f"the run of {job.name or job.job_id} for {rfc3339(at)} is {status} by now; nothing was skipped",
        why="it was claimed, or passed over, before it could be skipped",
        fix=(again,) if status.final else (f"schedkit run cancel {run_id(job.job_id, at)}", again),
    )
