"""Backfills over HTTP: what did not run of a job's past is run, at a capped rate, and can be watched (W14)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from schedkit.api.access import CallerDep, Guarded, needs
from schedkit.api.beginning import begun, listed_of, moved
from schedkit.api.bodies import WHOLE, Body, Text, Time
from schedkit.api.dead import seconds_for
from schedkit.api.jobs_in import instant_in
from schedkit.api.lookup import find_backfill, find_job, job_by_id
from schedkit.api.past import due_between, require_range, runs_between
from schedkit.api.past_out import BackfillOut, BackfillPlanOut, BackfillsOut
from schedkit.api.problems import refuses
from schedkit.api.requests import (
    DEFAULT_LIMIT,
    IDEMPOTENT,
    LOCATION,
    Cursor,
    IdempotencyKey,
    Limit,
    WorldDep,
    body_of,
    made,
)
from schedkit.api.views import backfill_out
from schedkit.engine.failure import backfill as backfilling
from schedkit.engine.failure import redrive as redriving
from schedkit.engine.when import ledger
from schedkit.errors import Conflict, InvalidInput, Reason
from schedkit.model.access import Caller, Role
from schedkit.model.jobs import Job, JobStatus, OverlapPolicy
from schedkit.model.keys import BACKFILL_ID_PREFIX, RETENTION_MS, new_backfill_id, redrive_key
from schedkit.model.redrives import MAX_PER_SECOND, Order, PastRange, Redrive, RedriveState
from schedkit.model.runs import Run
from schedkit.model.time import HOUR_MS, Instant, rfc3339
from schedkit.ports import World

ID_CHANCE_BYTES: Final = 10
NO_RECORD: Final = "NO_RECORD"
ASKED_WITHIN_MS: Final = HOUR_MS  # "30 days ago" is asked for by another clock, and a plan is read before the yes

router = APIRouter(prefix="/v1", tags=["backfills"], route_class=Guarded)

BEGUN: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": BackfillPlanOut, "description": "With `dry_run`: what it would do"},
    202: {"model": BackfillOut, "headers": LOCATION | IDEMPOTENT},
}


class BackfillBody(Body):
    """Run what did not run of from <= time < to: each once, at most `max_per_second`; with `dry_run` only say what."""

    from_: Annotated[Time, Field(alias="from")]
    to: Time
    max_per_second: Annotated[int, Field(strict=True, ge=1, le=MAX_PER_SECOND), WHOLE] = 1
    order: Order = Order.OLDEST
    note: Text | None = None
    dry_run: Annotated[bool, Field(strict=True)] = False


@router.post(
    "/jobs/{ref}:backfill",
    status_code=202,
    summary="Run what did not run of the past, at a capped rate",
    responses=BEGUN | refuses(409, 422),
)
@needs(Role.OPERATOR)
async def backfill_job(
    world: WorldDep,
    caller: CallerDep,
    response: Response,
    ref: str,
    body: Annotated[Any, Depends(body_of(BackfillBody))],
    idempotency_key: IdempotencyKey = None,
) -> BackfillOut | BackfillPlanOut:
    """The backfill that was begun, or with `dry_run` what it would do. One Idempotency-Key begins one backfill."""
    job, now = await find_job(world, caller, ref), world.clock.now()
    _require_living(job)
    past, notes = _range(job, body, now)
    plan = await _planned(world, job, past, body.max_per_second, notes)
    if body.dry_run:
        response.status_code = 200
        return plan
    fresh = Redrive(
        redrive_id=new_backfill_id(now, world.chance.bytes(ID_CHANCE_BYTES)),
        tenant_id=caller.tenant_id,
        created_at=now,
        updated_at=now,
        filter=replace(past, occurrences=plan["occurrences"]),
        max_per_second=body.max_per_second,
        total=plan["total"],
        note=body.note,
    )
    meaning = body.model_dump(mode="json") | {"backfill": job.job_id}
    began, replayed = await begun(world, caller, fresh, meaning, idempotency_key)
    made(response, f"/v1/backfills/{began.redrive_id}", replayed)
    return backfill_out(began, job.name)


def _require_living(job: Job) -> None:
    """Raises Conflict (NOT_BACKFILLABLE) for a job whose runs are not called."""
    name = job.name or job.job_id
    fixes = {JobStatus.CANCELLED: "create a new job", JobStatus.PAUSED: f"schedkit job resume {name}"}
    if (fix := fixes.get(job.status)) is not None:
        raise Conflict(
            Reason.NOT_BACKFILLABLE,
            f"nothing of {name} is run: it is {job.status}",
            why=f"a run of a {job.status.lower()} job would be cancelled before its call",
            fix=(fix,),
        )


def _range(job: Job, body: BackfillBody, now: Instant) -> tuple[PastRange, list[str]]:
    """(what was asked for, up to where the schedule itself has come; what is to be said of it). Raises InvalidInput."""
    since, until = instant_in(body.from_, "from"), instant_in(body.to, "to")
    assert since is not None, "the body has it"
    assert until is not None, "the body has it"
    require_range(since, until, "from", "to")
    kept, notes = now - RETENTION_MS, []
    if since < kept - ASKED_WITHIN_MS:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"from {rfc3339(since)} lies more than 30 days back",
            field="from",
            why="records of runs are kept for 30 days: what ran before that is not known, and would run again",
            fix=(f"begin at {rfc3339(kept)} or later", "trigger single ones: job trigger --as-of"),
        )
    if since < kept:
        notes.append(f"begins at {rfc3339(kept)}: records of runs are kept for 30 days")
    made, known = ledger.only_recorded(job)
    if max(made, since) < min(known, until):
        notes.append(
            f"of what was due before {rfc3339(known)} only what has a record can run: "
            "its schedule, and its zone data, have been as they are since then"
        )
    past = PastRange(
        job_id=job.job_id,
        since=max(since, kept),
        until=min(until, now, job.counted_from + 1),
        team_id=job.team_id,
        order=body.order,
        one_by_one=job.overlap is not OverlapPolicy.ALLOW,
        known_since=job.known_since,
    )
    return past, notes


async def _planned(world: World, job: Job, past: PastRange, max_per_second: int, notes: list[str]) -> BackfillPlanOut:
    """What would be started, by what their records say, and what would be left and why."""
    now = world.clock.now()
    by_schedule: list[Instant] = []
    runs: dict[Instant, Run] = {}
    if past.since < past.until:
        by_schedule = await due_between(world, job, past.since, past.until, "to")
        runs = await runs_between(world, job, past.since, past.until, "to")
    due = ledger.was_due(job, by_schedule, runs.values())
    starts, left = Counter[str](), Counter[str]()
    for at in due:
        run = runs.get(at)
        why = backfilling.unfit(run, job, at, now, world.epoch_floor)
        if why is not None:
            left[why.value] += 1
        else:
            starts[run.reason or run.status.value if run is not None else NO_RECORD] += 1
    return {
        "job_id": job.job_id,
        "job_name": job.name,
        "from": rfc3339(past.since),
        "to": rfc3339(past.until),
        "order": past.order.value,
        "one_by_one": past.one_by_one,
        "occurrences": len(due),
        "total": starts.total(),
        "starts": dict(sorted(starts.items())),
        "left": dict(sorted(left.items())),
        "max_per_second": max_per_second,
        "seconds": seconds_for(starts.total(), max_per_second),
        "notes": notes,
    }


@router.get("/backfills", summary="Backfills in progress and done, newest first")
@needs(Role.VIEWER)
async def list_backfills(
    world: WorldDep,
    caller: CallerDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    state: Annotated[list[RedriveState] | None, Query()] = None,
) -> BackfillsOut:
    backfills = redrive_key(caller.tenant_id, BACKFILL_ID_PREFIX).partition
    found, next_cursor = await listed_of(backfills, world, caller, limit, cursor, state)
    return {"items": [await _shown(world, caller, one) for one in found], "next_cursor": next_cursor}


@router.get("/backfills/{backfill_id}", summary="How far a backfill has come")
@needs(Role.VIEWER)
async def get_backfill(world: WorldDep, caller: CallerDep, backfill_id: str) -> BackfillOut:
    return await _shown(world, caller, await find_backfill(world, caller, backfill_id))


@router.post("/backfills/{backfill_id}:pause", summary="Start nothing more until it is resumed", responses=refuses(409))
@needs(Role.OPERATOR)
async def pause_backfill(world: WorldDep, caller: CallerDep, backfill_id: str) -> BackfillOut:
    return await _shown(world, caller, await moved(find_backfill, world, caller, backfill_id, redriving.pause))


@router.post("/backfills/{backfill_id}:resume", summary="Go on after a pause", responses=refuses(409))
@needs(Role.OPERATOR)
async def resume_backfill(world: WorldDep, caller: CallerDep, backfill_id: str) -> BackfillOut:
    return await _shown(world, caller, await moved(find_backfill, world, caller, backfill_id, redriving.resume))


@router.post("/backfills/{backfill_id}:stop", summary="End it; what has started goes on", responses=refuses(409))
@needs(Role.OPERATOR)
async def stop_backfill(world: WorldDep, caller: CallerDep, backfill_id: str) -> BackfillOut:
    return await _shown(world, caller, await moved(find_backfill, world, caller, backfill_id, redriving.stop))


async def _shown(world: World, caller: Caller, backfill: Redrive) -> BackfillOut:
    assert isinstance(backfill.filter, PastRange), "found among the backfills"
    job = await job_by_id(world, caller, backfill.filter.job_id)
    return backfill_out(backfill, job.name if job is not None else None)
