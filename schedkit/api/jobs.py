"""Jobs over HTTP: create, list, read, edit, cancel, pause, resume, trigger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from schedkit.api import bodies, strict_json
from schedkit.api.jobs_in import instant_in, job_changed, job_in, payload_in
from schedkit.api.lookup import find_job, job_by_id
from schedkit.api.problems import problem, request_id_of
from schedkit.api.requests import (
    DEFAULT_LIMIT,
    MAX_SCANNED,
    Cursor,
    Limit,
    TenantDep,
    WorldDep,
    bad_cursor,
    body_of,
)
from schedkit.api.runs import list_runs_of, recent_runs
from schedkit.api.views import job_out, occurrence_out, run_out
from schedkit.engine.when import advance, operate
from schedkit.engine.when.occurrences import next_after
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.who import cancel as cancelling
from schedkit.errors import Conflict, InvalidInput, Reason, SchedkitError, Unprocessable
from schedkit.model.jobs import Job, JobStatus, job_of
from schedkit.model.keys import RUN_PREFIX, Index, derived_job_id, job_key, jobs_listing, new_job_id, run_id, run_key
from schedkit.model.runs import RunStatus, run_of
from schedkit.model.schedules import Once
from schedkit.model.time import DAY_MS
from schedkit.model.writes import Applied, Refused, Write
from schedkit.ports import World

KEY_LIFE_MS: Final = DAY_MS  # an Idempotency-Key is honoured for 24 hours
MAX_KEY_CHARS: Final = 255
ID_CHANCE_BYTES: Final = 10
OPEN_RUNS_LOOKED_AT: Final = 500  # a cancel looks this far back for runs that wait for a retry

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
batch_router = APIRouter(prefix="/v1", tags=["jobs"])

IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key")]


@batch_router.post("/jobs:batchCreate", summary="Create up to 500 jobs, each answered by itself")
async def batch_create(
    request: Request, world: WorldDep, tenant: TenantDep, body: Annotated[Any, Depends(body_of(bodies.BatchCreate))]
) -> dict[str, Any]:
    request_id = request_id_of(request)

    async def one(entry: Any) -> dict[str, Any]:
        try:
            given = dict(entry) if isinstance(entry, dict) else entry
            key = given.pop("idempotency_key", None) if isinstance(given, dict) else None
            if not isinstance(key, str | None):
                raise InvalidInput(Reason.INVALID_ARGUMENT, "idempotency_key must be a string", field="idempotency_key")
            job, replayed = await create(world, tenant, bodies.read(bodies.JobCreate, given), key)
        except SchedkitError as error:
            return {"status": error.status, "error": strict_json.loads(bytes(problem(error, request_id).body))}
        return {"status": 200 if replayed else 201, "job": job_out(job, world.registered)}

    return {"results": await asyncio.gather(*(one(entry) for entry in body.jobs))}


@router.post("", status_code=201, summary="Create a job")
async def create_job(
    world: WorldDep,
    tenant: TenantDep,
    response: Response,
    body: Annotated[Any, Depends(body_of(bodies.JobCreate))],
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    job, replayed = await create(world, tenant, body, idempotency_key)
    if replayed:
        response.status_code = 200
        response.headers["Idempotent-Replayed"] = "true"
    response.headers["Location"] = f"/v1/jobs/{job.job_id}"
    return job_out(job, world.registered)


@router.get("", summary="List jobs")
async def list_jobs(
    world: WorldDep,
    tenant: TenantDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    status: Annotated[list[JobStatus] | None, Query()] = None,
    label: Annotated[list[str] | None, Query(description="k=v")] = None,
    name_prefix: str = "",
    target_id: str | None = None,
    due_before: str | None = None,
) -> dict[str, Any]:
    labels = dict(_label(text) for text in label or ())
    before = instant_in(due_before, "due_before")

    def wanted(job: Job) -> bool:
        return (
            (not status or job.status in status)
            and all(job.labels.get(key) == value for key, value in labels.items())
            and (job.name or "").startswith(name_prefix)
            and (target_id is None or job.target.target_id == target_id)
            and (before is None or (job.next_run_at is not None and job.next_run_at < before))
        )

    found: list[Job] = []
    scanned = 0
    while True:
        try:
            page = await world.store.page(
                jobs_listing(tenant), index=Index.LISTED, limit=limit - len(found), cursor=cursor, newest_first=True
            )
        except ValueError as error:
            raise bad_cursor(error) from None
        found += [job for _, item in page.items if wanted(job := job_of(item))]
        scanned += len(page.items)
        cursor = page.cursor
        if cursor is None or len(found) >= limit or scanned >= MAX_SCANNED:
            return {"items": [job_out(job, world.registered) for job in found], "next_cursor": cursor}


@router.post("/{ref}:pause", summary="Stop future runs, keep the job")
async def pause_job(
    world: WorldDep,
    tenant: TenantDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.PauseBody, optional=True))],
) -> dict[str, Any]:
    until = instant_in(body.until, "until")
    if until is not None and until <= world.clock.now():
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"until: {body.until} has passed", field="until")
    async for job in _attempts(world, tenant, ref):
        if await _landed(world, operate.pause(job, body.reason, until, world.shards, world.clock.now())):
            break
    return job_out(await find_job(world, tenant, job.job_id), world.registered)


@router.post("/{ref}:resume", summary="Start again; say what happens to missed runs")
async def resume_job(
    world: WorldDep,
    tenant: TenantDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.ResumeBody, optional=True))],
) -> dict[str, Any]:
    async for job in _attempts(world, tenant, ref):
        if job.status is not JobStatus.PAUSED:
            break  # it runs already: nothing to do
        if await _landed(world, operate.resume(job, body.misfire, world.shards, world.clock.now())):
            break
    return job_out(await find_job(world, tenant, job.job_id), world.registered)


@router.post("/{ref}:trigger", summary="Run once now, outside the schedule")
async def trigger_job(
    world: WorldDep,
    tenant: TenantDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.TriggerBody, optional=True))],
) -> dict[str, Any]:
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
    async for job in _attempts(world, tenant, ref):
        now = world.clock.now()
        scheduled_for = as_of if as_of is not None else now + later_ms
        match await world.commit(*operate.trigger(job, scheduled_for, payload, world.shards, now)):
            case Applied(items):
                return run_out(run_of(items[1]))
            case Refused(index=1) if as_of is not None:
                raise Conflict(
                    Reason.RUN_IN_PROGRESS,
                    f"there is a run for {body.as_of} already",
                    field="as_of",
                    fix=(f"schedkit job runs {ref}",),
                )
            case Refused(index=1):
                later_ms += 1
    raise AssertionError("attempts end by an answer")


@router.get("/{ref}/runs", summary="Runs of one job, newest first")
async def job_runs(
    world: WorldDep,
    tenant: TenantDep,
    ref: str,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    status: Annotated[list[RunStatus] | None, Query()] = None,
    since: str | None = None,
    until: str | None = None,
) -> dict[str, Any]:
    job = await find_job(world, tenant, ref)
    return await list_runs_of(world, job, limit, cursor, status, since, until)


@router.get("/{ref}/next", summary="The next runs of one job")
async def job_next(
    world: WorldDep, tenant: TenantDep, ref: str, count: Annotated[int, Query(ge=1, le=bodies.MAX_PREVIEW)] = 5
) -> dict[str, Any]:
    job = await find_job(world, tenant, ref)
    if job.max_runs is not None:
        count = min(count, job.max_runs - job.run_count)
    shown: list[dict[str, Any]] = []
    after = job.counted_from
    while job.status is JobStatus.SCHEDULED and job.next_run_at is not None and len(shown) < count:
        occurrence = next_after(job.schedule, after)
        if occurrence is None:
            break
        shown.append(occurrence_out(occurrence, dispatch_at(job, occurrence.scheduled_for)))
        after = occurrence.scheduled_for
    return {"job_id": job.job_id, "occurrences": shown}


@router.get("/{ref}", summary="One job with its last ten runs")
async def get_job(world: WorldDep, tenant: TenantDep, ref: str) -> dict[str, Any]:
    job = await find_job(world, tenant, ref)
    return job_out(job, world.registered) | {"recent_runs": await recent_runs(world, job)}


@router.patch("/{ref}", summary="Change the given fields")
async def edit_job(
    world: WorldDep,
    tenant: TenantDep,
    ref: str,
    body: Annotated[Any, Depends(body_of(bodies.JobPatch))],
    if_match: Annotated[str | None, Header(alias="If-Match")] = None,
) -> dict[str, Any]:
    async for job in _attempts(world, tenant, ref):
        _require_version(job, if_match)
        wanted = job_changed(job, body, world, world.clock.now())
        if wanted == job:
            return job_out(job, world.registered)
        if wanted.schedule != job.schedule:
            await _require_no_run(world, job)
        writes = [operate.edit(job, wanted, world.shards, world.clock.now())]
        if wanted.name is not None and wanted.name != job.name:
            writes.append(await _take_name(world, wanted))
        if await _landed(world, *writes):
            break
    return job_out(await find_job(world, tenant, job.job_id), world.registered)


@router.delete("/{ref}", summary="Cancel for good")
async def cancel_job(
    world: WorldDep, tenant: TenantDep, ref: str, running: Annotated[str, Query(pattern="^(keep|cancel)$")] = "keep"
) -> dict[str, Any]:
    """Nothing that was not claimed yet will run; a run in progress ends as it ends, unless `running=cancel`."""
    job = await find_job(world, tenant, ref)
    while not job.status.ended:
        if await _landed(world, operate.cancel(job, world.shards, world.clock.now())):
            break
        job = await find_job(world, tenant, job.job_id)
    await _cancel_open_runs(world, job, running == "cancel")
    return job_out(await find_job(world, tenant, job.job_id), world.registered)


async def create(world: World, tenant: str, body: bodies.JobCreate, key: str | None) -> tuple[Job, bool]:
    """(the job, whether it was there already under this Idempotency-Key).

    Raises InvalidInput, NotFound, TooLarge; Unprocessable (IDEMPOTENCY_KEY_REUSED); Conflict (NAME_IN_USE).
    """
    if key is not None and not (0 < len(key) <= MAX_KEY_CHARS and key.isprintable()):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"an Idempotency-Key has 1 to {MAX_KEY_CHARS} printable characters",
            field="Idempotency-Key",
        )
    digest = _digest(body)
    generation = 0
    while True:
        now = world.clock.now()
        if key is None:
            job_id = new_job_id(now, world.chance.bytes(ID_CHANCE_BYTES))
        else:
            job_id = derived_job_id(tenant, key, generation)
            before = await job_by_id(world, tenant, job_id)
            if before is not None and now - before.created_at >= KEY_LIFE_MS:
                generation += 1
                continue
            if before is not None:
                return _same(before, digest, key), True
        job = job_in(body, job_id, tenant, digest, world, now)
        writes = [advance.create(job, world.shards)]
        if job.name is not None:
            writes.append(await _take_name(world, job))
        outcome = await world.commit(*writes)
        if isinstance(outcome, Applied):
            return job_of(outcome.item), False


def _digest(body: bodies.JobCreate) -> str:
    """What the body means, whatever its blanks, the order of its names, or the defaults it spells out."""
    meaning = strict_json.canonical(body.model_dump(mode="json") | {"has_payload": "payload" in body.model_fields_set})
    return strict_json.digest(meaning)


def _same(before: Job, digest: str, key: str) -> Job:
    if before.request_hash != digest:
        raise Unprocessable(
            Reason.IDEMPOTENCY_KEY_REUSED,
            f"the Idempotency-Key {key[:60]!r} was used for another body; it made job {before.job_id}",
            field="Idempotency-Key",
            why="one key stands for one request, so that a repeat can be told from a new wish",
            fix=("use a new key for a new job", f"schedkit job show {before.job_id}"),
        )
    return before


async def _take_name(world: World, job: Job) -> Write:
    """The write that claims the job's name. Raises Conflict (NAME_IN_USE) while another job lives under it."""
    assert job.name is not None, "only a named job takes a name"
    item = await world.store.get(advance.take_name(job, None).key)
    if item is None:
        return advance.take_name(job, None)
    holder = await job_by_id(world, job.tenant_id, item["job_id"])
    if holder is not None and holder.name == job.name and not holder.status.ended and holder.job_id != job.job_id:
        raise Conflict(
            Reason.NAME_IN_USE,
            f"the name {job.name!r} belongs to {holder.job_id}, which is {holder.status}",
            field="name",
            fix=(f"schedkit job update {holder.job_id} …", "choose another name"),
        )
    return advance.take_name(job, item["job_id"])


async def _attempts(world: World, tenant: str, ref: str) -> AsyncIterator[Job]:
    """The job as it stands, again after each refused write. Raises NotFound, Conflict (JOB_ENDED)."""
    job = await find_job(world, tenant, ref)
    while True:
        if job.status.ended:
            raise Conflict(
                Reason.JOB_ENDED,
                f"{job.name or job.job_id} has ended: it is {job.status}",
                why="a job that has ended does not come back",
                fix=("create a new job; the name is free again",),
            )
        yield job
        job = await find_job(world, tenant, job.job_id)


async def _landed(world: World, *writes: Write) -> bool:
    return isinstance(await world.commit(*writes), Applied)


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


def _require_version(job: Job, if_match: str | None) -> None:
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


async def _cancel_open_runs(world: World, job: Job, running_too: bool) -> None:
    """Runs that wait for a retry end now; running ones are asked to stop where that was wished."""
    page = await world.store.page(
        job_key(job.job_id).partition, prefix=RUN_PREFIX, limit=OPEN_RUNS_LOOKED_AT, newest_first=True
    )
    for _, item in page.items:
        run = run_of(item)
        if run.status is RunStatus.RETRY_WAIT:
            await world.commit(cancelling.cancel_waiting(run, cancelling.REASON_JOB_CANCELLED, world.clock.now()))
        elif run.status is RunStatus.RUNNING and running_too:
            await world.commit(cancelling.request_cancel(run))


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"label: {text[:60]!r} is not key=value", field="label")
    return key, value
