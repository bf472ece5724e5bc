"""Workers over HTTP: poll a task queue, keep the lease of what was handed out, say how it ended (H4).

These calls leave no audit record: what workers do is the history of their runs, under epochs. A queue is a team's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol

from fastapi import APIRouter, Depends, Path, Request, Response

from schedkit.api import bodies, strict_json
from schedkit.api.access import CallerDep, Guarded, Kept, needs
from schedkit.api.lookup import find_run
from schedkit.api.problems import problem, refuses, request_id_of
from schedkit.api.requests import WorldDep, body_of
from schedkit.api.runs_out import (
    BatchEndedOut,
    BatchHeldOut,
    HeldOut,
    RunOut,
    TaskOut,
    TasksOut,
    WorkerOut,
    WorkersOut,
)
from schedkit.api.views import run_out, time_out
from schedkit.api.workers_in import (
    BatchComplete,
    BatchHeartbeat,
    CompleteBody,
    CompleteEntry,
    HeartbeatBody,
    HeartbeatEntry,
    PollBody,
    ReleaseBody,
)
from schedkit.engine.failure.pace import heartbeat_every_ms
from schedkit.errors import InvalidInput, Reason, SchedkitError, TooLarge
from schedkit.model.access import Caller, Role
from schedkit.model.jobs import TaskTarget
from schedkit.model.keys import run_id
from schedkit.model.runs import MAX_PROGRESS_BYTES, Run, payload_of
from schedkit.model.tasks import Ask, Ending, Failed, Stopped, Succeeded, Task, WorkerSeen
from schedkit.model.time import SECOND_MS, rfc3339
from schedkit.ports import World

NOTHING: Final[dict[int | str, dict[str, Any]]] = {204: {"description": "No task came, and no max_tasks was given"}}
MAX_ERROR_CHARS: Final = 1_024  # of what went wrong; the rest belongs in the worker's own log

router = APIRouter(prefix="/v1", tags=["workers"], route_class=Guarded)


class WorkersDoor(Protocol):
    """What the process that serves the API does for workers."""

    def seen(self, caller: Caller) -> list[WorkerSeen]: ...

    async def poll(self, caller: Caller, ask: Ask, gone: Callable[[], Awaitable[bool]]) -> list[Task]: ...

    async def heartbeat(self, run: Run, epoch: int, progress: str | None) -> Run: ...

    async def complete(self, run: Run, epoch: int, ending: Ending) -> Run: ...

    async def release(self, run: Run, epoch: int) -> Run: ...


async def door_of(request: Request) -> WorkersDoor:
    door: WorkersDoor = request.app.state.workers
    return door


DoorDep = Annotated[WorkersDoor, Depends(door_of)]


@router.post("/task-queues/{task_queue}/tasks:poll", summary="Ask a task queue for work", responses=NOTHING)
@needs(Role.OPERATOR, Kept.NEVER)
async def poll(
    request: Request,
    caller: CallerDep,
    door: DoorDep,
    task_queue: Annotated[bodies.QueueName, Path()],
    body: Annotated[Any, Depends(body_of(PollBody))],
) -> TaskOut | TasksOut | Response:
    """Waits up to `wait_seconds` for the first task. With `max_tasks`, `{"tasks": […]}`; without, one task or 204."""
    ask = Ask(body.worker_id, task_queue, body.max_tasks or 1, int(body.wait_seconds * SECOND_MS))
    tasks = [task_out(task) for task in await door.poll(caller, ask, request.is_disconnected)]
    if body.max_tasks is not None:
        return {"tasks": tasks}
    return tasks[0] if tasks else Response(status_code=204)


@router.post("/runs/{run_id}:heartbeat", summary="Keep the lease of a run", responses=refuses(409))
@needs(Role.OPERATOR, Kept.NEVER)
async def heartbeat(
    world: WorldDep,
    caller: CallerDep,
    door: DoorDep,
    run_id: str,
    body: Annotated[Any, Depends(body_of(HeartbeatBody))],
) -> HeldOut:
    """The new end of the lease, and whether the run is to be stopped."""
    return await _heartbeat(world, caller, door, run_id, body)


@router.post("/runs/{run_id}:complete", summary="Say how a run ended", responses=refuses(409))
@needs(Role.OPERATOR, Kept.NEVER)
async def complete(
    world: WorldDep,
    caller: CallerDep,
    door: DoorDep,
    run_id: str,
    body: Annotated[Any, Depends(body_of(CompleteBody))],
) -> RunOut:
    """The run as it is recorded. The same word under the same epoch may be said again."""
    return run_out(await door.complete(await find_run(world, caller, run_id), body.epoch, _ending(body)))


@router.post("/runs/{run_id}:release", summary="Give a run back for another worker", responses=refuses(409))
@needs(Role.OPERATOR, Kept.NEVER)
async def release(
    world: WorldDep,
    caller: CallerDep,
    door: DoorDep,
    run_id: str,
    body: Annotated[Any, Depends(body_of(ReleaseBody))],
) -> RunOut:
    """It waits in its queue again, as the same attempt."""
    return run_out(await door.release(await find_run(world, caller, run_id), body.epoch))


@router.post("/runs:batchHeartbeat", summary="Keep up to 50 leases, each answered by itself")
@needs(Role.OPERATOR, Kept.NEVER)
async def batch_heartbeat(
    request: Request,
    world: WorldDep,
    caller: CallerDep,
    door: DoorDep,
    body: Annotated[Any, Depends(body_of(BatchHeartbeat))],
) -> BatchHeldOut:
    async def one(entry: Any) -> HeldOut:
        given = bodies.read(HeartbeatEntry, entry)
        return await _heartbeat(world, caller, door, given.run_id, given)

    return {"results": await _each(request, body.heartbeats, one)}


@router.post("/runs:batchComplete", summary="Say how up to 50 runs ended, each answered by itself")
@needs(Role.OPERATOR, Kept.NEVER)
async def batch_complete(
    request: Request,
    world: WorldDep,
    caller: CallerDep,
    door: DoorDep,
    body: Annotated[Any, Depends(body_of(BatchComplete))],
) -> BatchEndedOut:
    async def one(entry: Any) -> dict[str, Any]:
        given = bodies.read(CompleteEntry, entry)
        run = await door.complete(await find_run(world, caller, given.run_id), given.epoch, _ending(given))
        return {"run_id": given.run_id, "run_status": run.status.value, "attempt": run.attempt}

    return {"results": await _each(request, body.completions, one)}


@router.get("/workers", summary="Workers heard of in the last five minutes")
@needs(Role.VIEWER)
async def list_workers(caller: CallerDep, door: DoorDep) -> WorkersOut:
    return {"items": [worker_out(seen) for seen in door.seen(caller)], "next_cursor": None}


def task_out(task: Task) -> TaskOut:
    """What a worker is handed."""
    run, job = task.run, task.job
    key = run_id(run.job_id, run.scheduled_for)
    payload = payload_of(run, job)
    lease_ms = job.target.lease_ms if isinstance(job.target, TaskTarget) else TaskTarget("").lease_ms
    return {
        "run_id": key,
        "job_id": run.job_id,
        "job_name": job.name,
        "task_queue": run.task_queue,
        "task_type": run.task_type,
        "scheduled_for": rfc3339(run.scheduled_for),
        "epoch": run.epoch,
        "attempt": run.attempt,
        "lease_expires_at": time_out(run.lease_expires_at),
        "heartbeat_every_seconds": heartbeat_every_ms(lease_ms) / SECOND_MS,
        "deadline": time_out(task.deadline),
        "payload": json.loads(payload) if payload is not None else None,
        "previous_progress": json.loads(run.progress) if run.progress is not None else None,
        "idempotency_key": key,
    }


def worker_out(seen: WorkerSeen) -> WorkerOut:
    return {
        "worker_id": seen.worker_id,
        "task_queues": sorted(seen.queues),
        "held": len(seen.held),
        "first_seen_at": rfc3339(seen.first_at),
        "last_seen_at": rfc3339(seen.last_at),
    }


async def _heartbeat(world: World, caller: Caller, door: WorkersDoor, run_id: str, body: HeartbeatBody) -> HeldOut:
    progress = _progress(body.progress) if body.progress is not None else None
    run = await door.heartbeat(await find_run(world, caller, run_id), body.epoch, progress)
    return {"lease_expires_at": time_out(run.lease_expires_at), "cancel_requested": run.cancel_requested}


def _progress(value: Any) -> str:
    text = strict_json.dumps(value)
    if len(text.encode()) > MAX_PROGRESS_BYTES:
        raise TooLarge(
            Reason.PAYLOAD_TOO_LARGE,
            f"the progress has {len(text.encode()):,} bytes; {MAX_PROGRESS_BYTES:,} at most",
            field="progress",
            fix=("keep what is needed to go on, and the data itself elsewhere",),
        )
    return text


def _ending(body: CompleteBody) -> Ending:
    """The worker's word. Raises InvalidInput where its parts contradict each other."""
    failed = body.outcome == "FAILED"
    for name in ("error", "retryable", "retry_after_seconds"):
        if name in body.model_fields_set and getattr(body, name) is not None and not failed:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{name} goes with the outcome FAILED", field=name)
    match body.outcome:
        case "SUCCEEDED":
            has_result = "result" in body.model_fields_set and body.result is not None
            return Succeeded(strict_json.dumps(body.result) if has_result else None)
        case "CANCELLED":
            return Stopped()
        case _:
            error = (body.error or "the worker gave no reason")[:MAX_ERROR_CHARS]
            return Failed(error, body.retryable, int(body.retry_after_seconds * SECOND_MS))


async def _each(
    request: Request, entries: Sequence[Any], one: Callable[[Any], Awaitable[Mapping[str, Any]]]
) -> list[Any]:
    """The answer to each entry by itself, in their order."""

    async def answered(entry: Any) -> Any:
        try:
            return {"status": 200, **await one(entry)}
        except SchedkitError as error:
            answer = problem(error, request_id_of(request))
            return {"status": error.status, "error": strict_json.loads(bytes(answer.body))}

    return list(await asyncio.gather(*(answered(entry) for entry in entries)))
