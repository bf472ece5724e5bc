"""Jobs over HTTP: create, list, read, edit, cancel, pause, resume, trigger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from schedkit.api import bodies, strict_json
from schedkit.api.access import CallerDep, Guarded, Kept, needs
from schedkit.api.changing import IfMatch, attempts, held_record, landed, require_version
from schedkit.api.creating import create, name_for
from schedkit.api.jobs_in import instant_in, job_changed, payload_in
from schedkit.api.jobs_out import BatchCreatedOut, CreatedOut, JobOut, JobsOut, NextOut
from schedkit.api.lists import listed
from schedkit.api.lookup import find_job
from schedkit.api.problems import problem, refuses, request_id_of
from schedkit.api.requests import (
    DEFAULT_LIMIT,
    IDEMPOTENT,
    LOCATION,
    Cursor,
    IdempotencyKey,
    Limit,
    When,
    WorldDep,
    body_of,
    made,
)
from schedkit.api.runs import list_runs_of, recent_runs
from schedkit.api.runs_out import RunOut, RunsOut
from schedkit.api.schedules import upcoming
from schedkit.api.target_auth import own_secrets
from schedkit.api.views import job_out, next_run, occurrence_out, run_out
from schedkit.engine.when import operate
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.who import cancel as cancelling
from schedkit.errors import Conflict, InvalidInput, Reason, SchedkitError
from schedkit.model.access import Role
from schedkit.model.jobs import Job, JobStatus, job_of, target_id_of, task_queue_of
from schedkit.model.keys import RUN_PREFIX, Index, TimerKind, job_key, jobs_listing, run_id, run_key, timer_partition
from schedkit.model.runs import RunStatus, run_of
from schedkit.model.schedules import Once
from schedkit.model.time import MAX_INSTANT
from schedkit.model.timers import Timer
from schedkit.model.writes import Applied, Item, Key, Refused
from schedkit.ports import Page, World

BATCH_STEP: Final = 25
OPEN_STEP: Final = 500  # timers read between two turns of everybody else
OPEN: Final = (TimerKind.LEASE, TimerKind.HELD, TimerKind.RETRY, TimerKind.TASK)  # a run has one of them until it ends

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=Guarded)
batch_router = APIRouter(prefix="/v1", tags=["jobs"], route_class=Guarded)

REPLAYED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": JobOut,
        "description": "It was made before, under this Idempotency-Key",
        "headers": LOCATION | IDEMPOTENT,
    },
    201: {"headers": LOCATION},
}
LabelIs = Annotated[str, Field(json_schema_extra={"pattern": "^[^=]+="})]


@batch_router.post("/jobs:batchCreate", summary="Create up to 500 jobs, each answered by itself")
@needs(Role.OPERATOR, Kept.AFTERWARDS)
async def batch_create(
    request: Request, world: WorldDep, caller: CallerDep, body: Annotated[Any, Depends(body_of(bodies.BatchCreate))]
) -> BatchCreatedOut:
    request_id = request_id_of(request)

    async def one(entry: Any) -> CreatedOut:
        try:
            given = dict(entry) if isinstance(entry, dict) else entry
            key = given.pop("idempotency_key", None) if isinstance(given, dict) else None
            if not isinstance(key, str | None):
                raise InvalidInput(Reason.INVALID_ARGUMENT, "idempotency_key must be a string", field="idempotency_key")
            job, replayed = await create(world, caller, bodies.read(bodies.JobCreate, given), key)
        except SchedkitError as error:
            return {"status": error.status, "error": strict_json.loads(bytes(problem(error, request_id).body))}
        return {"status": 200 if replayed else 201, "job": job_out(job, world.registered)}

    tasks = []
    for number, entry in enumerate(body.jobs, start=1):
        tasks.append(asyncio.create_task(one(entry)))
        if number % BATCH_STEP == 0:
            await world.clock.sleep(0)  # a large batch takes turns with everything else
    return {"results": [await task for task in tasks]}


@router.post("", status_code=201, summary="Create a job", responses=REPLAYED | refuses(404, 409, 422))
@needs(Role.OPERATOR)
async def create_job(
    world: WorldDep,
    caller: CallerDep,
    response: Response,
    body: Annotated[Any, Depends(body_of(bodies.JobCreate))],
    idempotency_key: IdempotencyKey = None,
) -> JobOut:
    job, replayed = await create(world, caller, body, idempotency_key)
    if replayed:
        response.status_code = 200
    made(response, f"/v1/jobs/{job.job_id}", replayed)
    return job_out(job, world.registered)


@router.get("", summary="List jobs")
@needs(Role.VIEWER)
async def list_jobs(
    world: WorldDep,
    caller: CallerDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    status: Annotated[list[JobStatus] | None, Query()] = None,
    label: Annotated[list[LabelIs] | None, Query(description="k=v")] = None,
    name_prefix: str = "",
    target_id: str | None = None,
    task_queue: str | None = None,
    due_before: When = None,
    managed_by: str | None = None,
) -> JobsOut:
    labels = dict(_label(text) for text in label or ())
    before = instant_in(due_before, "due_before")

    def pick(item: Item) -> JobOut | None:
        job = job_of(item)
        matches = (
            caller.sees(job.tenant_id, job.team_id)
            and (not status or job.status in status)
            and all(job.labels.get(key) == value for key, value in labels.items())
            and (job.name or "").startswith(name_prefix)
            and (target_id is None or target_id_of(job.target) == target_id)
            and (task_queue is None or task_queue_of(job.target) == task_queue)
            and (before is None or ((at := next_run(job)) is not None and at < before))
            and (managed_by is None or job.managed_by == managed_by)
        )
        return job_out(job, world.registered) if matches else None

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            jobs_listing(caller.tenant_id), index=Index.LISTED, limit=limit, cursor=cursor, newest_first=True
        )

    items, next_cursor = await listed(world, page, limit, cursor, pick)
    return {"items": items, "next_cursor": next_cursor}


@router.post("/{ref}:pause", summary="Stop future runs, keep the job", responses=refuses(409))
@needs(Role.OPERATOR)
async def pause_job(
    world: WorldDep,
    caller: CallerDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.PauseBody, optional=True))],
    if_match: IfMatch = None,
) -> JobOut:
    until = instant_in(body.until, "until")
    if until is not None and until <= world.clock.now():
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"until: {body.until} has passed", field="until")
    async for job in attempts(world, caller, ref):
        require_version(job, if_match)
        if await landed(world, operate.pause(job, body.reason, until, world.shards, world.clock.now())):
            break
    return job_out(await find_job(world, caller, job.job_id), world.registered)


@router.post("/{ref}:resume", summary="Start again; say what happens to missed runs", responses=refuses(409))
@needs(Role.OPERATOR)
async def resume_job(
    world: WorldDep,
    caller: CallerDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.ResumeBody, optional=True))],
    if_match: IfMatch = None,
) -> JobOut:
    async for job in attempts(world, caller, ref):
        require_version(job, if_match)
        if job.status is not JobStatus.PAUSED:
            break  # it runs already: nothing to do
        if await landed(world, operate.resume(job, body.misfire, world.shards, world.clock.now())):
            break
    return job_out(await find_job(world, caller, job.job_id), world.registered)


@router.post("/{ref}:trigger", summary="Run once now, outside the schedule", responses=refuses(409))
@needs(Role.OPERATOR)
async def trigger_job(
    world: WorldDep,
    caller: CallerDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.TriggerBody, optional=True))],
    if_match: IfMatch = None,
) -> RunOut:
    payload = payload_in(body.payload) if "payload" in body.model_fields_set else None
    as_of = instant_in(body.as_of, "as_of")
    if as_of is not None and as_of > world.clock.now():
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"as_of: {body.as_of} lies ahead, and nothing runs early",
            field="as_of",
            fix=("create a one-off job for that time",),
        )
    later_ms = 0  # two triggers within one millisecond are two runs
    async for job in attempts(world, caller, ref):
        require_version(job, if_match)
        now = world.clock.now()
        scheduled_for = as_of if as_of is not None else now + later_ms
        match await world.commit(*operate.trigger(job, scheduled_for, payload, world.shards, now)):
            case Applied(items):
                return run_out(run_of(items[1]))
            case Refused(index=1, current=current) if as_of is not None and current is not None:
                status = run_of(current).status
                raise Conflict(
                    Reason.RUN_FINISHED if status.final else Reason.RUN_IN_PROGRESS,
                    f"there is a run for {body.as_of} already: it is {status}",
                    field="as_of",
                    why="an occurrence has one run",
                    fix=(f"schedkit job runs {ref}",),
                )
            case Refused(index=1):
                later_ms += 1
    raise AssertionError("attempts end by an answer")


@router.get("/{ref}/runs", summary="Runs of one job, newest first")
@needs(Role.VIEWER)
async def job_runs(
    world: WorldDep,
    caller: CallerDep,
    ref: str,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    status: Annotated[list[RunStatus] | None, Query()] = None,
    since: When = None,
    until: When = None,
) -> RunsOut:
    job = await find_job(world, caller, ref)
    return await list_runs_of(world, job, limit, cursor, status, since, until)


@router.get("/{ref}/next", summary="The next runs of one job")
@needs(Role.VIEWER)
async def job_next(
    world: WorldDep, caller: CallerDep, ref: str, count: Annotated[int, Query(ge=1, le=bodies.MAX_PREVIEW)] = 5
) -> NextOut:
    job = await find_job(world, caller, ref)
    if job.max_runs is not None:
        count = min(count, job.max_runs - job.run_count)
    due = job.status is JobStatus.SCHEDULED and job.next_run_at is not None
    found = await upcoming(world, job.schedule, job.counted_from, count) if due else []
    shown = [occurrence_out(occurrence, dispatch_at(job, occurrence.scheduled_for)) for occurrence in found]
    return {"job_id": job.job_id, "occurrences": shown}


@router.get("/{ref}", summary="One job with its last ten runs")
@needs(Role.VIEWER)
async def get_job(world: WorldDep, caller: CallerDep, ref: str) -> JobOut:
    job = await find_job(world, caller, ref)
    return {**job_out(job, world.registered), "recent_runs": await recent_runs(world, job)}


@router.patch("/{ref}", summary="Change the given fields", responses=refuses(409))
@needs(Role.OPERATOR)
async def edit_job(
    world: WorldDep,
    caller: CallerDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.JobPatch))],
    if_match: IfMatch = None,
) -> JobOut:
    async for job in attempts(world, caller, ref):
        require_version(job, if_match)
        wanted = job_changed(job, body, world, world.clock.now())
        if wanted == job:
            return job_out(job, world.registered)
        if wanted.target != job.target:
            own_secrets(wanted, caller)
        if wanted.schedule != job.schedule:
            await _require_no_run(world, job)
        moved = wanted.schedule != job.schedule
        writes = [operate.edit(job, wanted, world.shards, world.clock.now())]
        if moved:
            writes += await held_record(world, job, cancelling.REASON_RESCHEDULED)
        if wanted.name is not None and wanted.name != job.name:
            writes.append(await name_for(world, caller, wanted))
        if await landed(world, *writes):
            break
    return job_out(await find_job(world, caller, job.job_id), world.registered)


@router.delete("/{ref}", summary="Cancel for good", responses=refuses(409))
@needs(Role.OPERATOR)
async def cancel_job(
    world: WorldDep,
    caller: CallerDep,
    ref: str,
    running: Annotated[str, Query(pattern="^(keep|cancel)$")] = "keep",
    if_match: IfMatch = None,
) -> JobOut:
    """Nothing that was not claimed yet will run; a run in progress ends as it ends, unless `running=cancel`."""
    job = await find_job(world, caller, ref)
    while not job.status.ended:
        require_version(job, if_match)
        held = await held_record(world, job, cancelling.REASON_JOB_CANCELLED)
        if await landed(world, operate.cancel(job, world.shards, world.clock.now()), *held):
            break
        job = await find_job(world, caller, job.job_id)
    await _cancel_open_runs(world, job, running == "cancel")
    return job_out(await find_job(world, caller, job.job_id), world.registered)


async def _require_no_run(world: World, job: Job) -> None:
    """Raises Conflict (RUN_IN_PROGRESS) where the occurrence that would be moved is being run (W14)."""
    occurrence = job.next_run_at
    if isinstance(job.schedule, Once) and occurrence is None:
        occurrence = job.last_run
    item = await world.store.get(run_key(job.job_id, occurrence)) if occurrence is not None else None
    if item is None or run_of(item).status.final:
        return
    run = run_of(item)
    raise Conflict(
        Reason.RUN_IN_PROGRESS,
        f"{job.name or job.job_id} is running now, so its schedule cannot be edited",
        why=f"attempt {run.attempt} holds the run, which is {run.status}",
        fix=(
            f"wait for it: schedkit run wait {run_id(job.job_id, run.scheduled_for)}",
            f"or cancel that run: schedkit run cancel {run_id(job.job_id, run.scheduled_for)}",
        ),
    )


async def _cancel_open_runs(world: World, job: Job, running_too: bool) -> None:
    """Runs that wait end now; running ones are asked to stop where that was wished.

    One that begins meanwhile finds its job cancelled, and is not called.
    """

    async def cancel(key: Key) -> None:
        while (item := await world.store.get(key)) is not None:
            run = run_of(item)
            if run.status is RunStatus.RETRY_WAIT:
                write = cancelling.cancel_waiting(run, cancelling.REASON_JOB_CANCELLED, world.clock.now())
            elif run.status is RunStatus.RUNNING and running_too and not run.cancel_requested:
                write = cancelling.request_cancel(run)
            else:
                return
            if isinstance(await world.commit(write), Applied):
                return

    async for keys in _open_runs(world, job):
        await asyncio.gather(*map(cancel, keys))


async def _open_runs(world: World, job: Job) -> AsyncIterator[list[Key]]:
    """All runs of the job that are not over: its newest ones, and where it has more those that have a timer."""
    mine = job_key(job.job_id).partition
    newest = await world.store.page(mine, prefix=RUN_PREFIX, limit=OPEN_STEP, newest_first=True)
    yield [key for key, item in newest.items if not run_of(item).status.final]
    for kind in OPEN if newest.cursor is not None else ():
        waiting = timer_partition(kind, job.job_id, world.shards)
        last: Timer | None = None
        while page := await world.store.timers(waiting, until=MAX_INSTANT, limit=OPEN_STEP, after=last):
            last = page[-1]
            yield [timer.key for timer in page if timer.key.partition == mine]
            await world.clock.sleep(0)


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"label: {text[:60]!r} is not key=value", field="label")
    return key, value
