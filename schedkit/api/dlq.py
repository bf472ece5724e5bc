"""Dead letters over HTTP: list, read, start again, give up; and the redrives that were asked for (F6)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response

from schedkit.api import dead
from schedkit.api.access import CallerDep, Guarded, Kept, needs
from schedkit.api.beginning import begun, listed_of, moved
from schedkit.api.dead_in import DropBody, RedriveBody, filter_in, filter_of
from schedkit.api.dead_out import (
    DeadGroupsOut,
    DeadLetterOut,
    DeadLettersOut,
    DeadRunOut,
    DroppedOut,
    RedriveOut,
    RedrivePlanOut,
    RedrivesOut,
)
from schedkit.api.lists import listed
from schedkit.api.lookup import find_redrive, find_run
from schedkit.api.problems import refuses
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
from schedkit.api.views import dead_letter_out, redrive_out, run_out
from schedkit.engine.failure import redrive as redriving
from schedkit.errors import InvalidInput, NotFound, Reason
from schedkit.model.access import Role
from schedkit.model.keys import Index, dead_listing, new_redrive_id, redrive_key
from schedkit.model.redrives import Redrive, RedriveState
from schedkit.model.runs import RunStatus, run_of
from schedkit.model.writes import Item
from schedkit.ports import Page

ID_CHANCE_BYTES: Final = 10

router = APIRouter(prefix="/v1", tags=["dead letters"], route_class=Guarded)

GROUPED: Final[dict[str, Any]] = {"pattern": "^({0})(,({0}))*$".format("|".join(dead.GROUPS))}
BEGUN: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": RedrivePlanOut, "description": "With `dry_run`: what it would do"},
    202: {"model": RedriveOut, "headers": LOCATION | IDEMPOTENT},
}


@router.get("/dlq", summary="Dead letters, newest first, or counted by group", responses=refuses(404))
@needs(Role.VIEWER)
async def list_dead(
    world: WorldDep,
    caller: CallerDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    target_id: str | None = None,
    job: str | None = None,
    job_id: str | None = None,
    reason: str | None = None,
    failed_after: When = None,
    failed_before: When = None,
    status: Annotated[list[RunStatus] | None, Query()] = None,
    group_by: Annotated[str | None, Query(description="with commas between", json_schema_extra=GROUPED)] = None,
) -> DeadLettersOut | DeadGroupsOut:
    wanted = await filter_in(
        world,
        caller,
        target_id=target_id,
        job=job or job_id,
        reason=reason,
        failed_after=failed_after,
        failed_before=failed_before,
    )
    if group_by is not None:
        return await dead.grouped(world, caller, wanted, _groups(group_by))

    def pick(item: Item) -> DeadLetterOut | None:
        run = run_of(item)
        return dead_letter_out(run) if wanted.keeps(run) and (not status or run.status in status) else None

    def ends(item: Item) -> bool:
        return wanted.failed_after is not None and (run_of(item).finished_at or 0) < wanted.failed_after

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            dead_listing(caller.tenant_id), index=Index.DEAD, limit=limit, cursor=cursor, newest_first=True
        )

    items, next_cursor = await listed(world, page, limit, cursor, pick, ends)
    return {"items": items, "next_cursor": next_cursor}


def _groups(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in dead.GROUPS:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"group_by: {name[:40]!r} is none of {', '.join(dead.GROUPS)}",
                field="group_by",
            )
    return list(dict.fromkeys(names))


@router.get("/dlq/{run_id}", summary="One dead letter with each attempt")
@needs(Role.VIEWER)
async def get_dead(world: WorldDep, caller: CallerDep, run_id: str) -> DeadRunOut:
    run = await find_run(world, caller, run_id)
    if not redriving.dead(run):
        raise NotFound(
            Reason.RUN_NOT_FOUND,
            f"{run_id} is no dead letter: it is {run.status}{' and was given up' if run.dropped_at else ''}",
            field="run_id",
            fix=(f"schedkit run show {run_id}", "schedkit dlq list"),
        )
    letter = dead_letter_out(run)
    return {
        **run_out(run),
        "error": letter["error"],
        "http_status": letter["http_status"],
        "attempts_made": letter["attempts_made"],
        "failed_at": letter["failed_at"],
    }


@router.post(
    "/dlq:redrive",
    status_code=202,
    summary="Start dead letters again, at a capped rate",
    responses=BEGUN | refuses(404, 422),
)
@needs(Role.OPERATOR)
async def redrive_dead(
    world: WorldDep,
    caller: CallerDep,
    response: Response,
    body: Annotated[Any, Depends(body_of(RedriveBody))],
    idempotency_key: IdempotencyKey = None,
) -> RedriveOut | RedrivePlanOut:
    """The redrive that was begun, or with `dry_run` what it would do. One Idempotency-Key begins one redrive."""
    wanted = await filter_of(world, caller, body.filter)
    plan = await dead.planned(world, caller, wanted, limit=body.limit, include_unknown=body.include_unknown)
    if body.dry_run:
        response.status_code = 200
        return {
            **plan.document,
            "max_per_second": body.max_per_second,
            "canary": body.canary,
            "include_unknown": body.include_unknown,
            "limit": body.limit,
            "seconds": dead.seconds_for(plan.fit.count, body.max_per_second),
        }
    now = world.clock.now()
    fresh = Redrive(
        redrive_id=new_redrive_id(now, world.chance.bytes(ID_CHANCE_BYTES)),
        tenant_id=caller.tenant_id,
        created_at=now,
        updated_at=now,
        filter=wanted,
        max_per_second=body.max_per_second,
        canary=body.canary,
        goes_on=body.goes_on,
        include_unknown=body.include_unknown,
        limit=body.limit,
        total=plan.fit.count,
        note=body.note,
    )
    meaning = body.model_dump(mode="json") | {"team_id": wanted.team_id}  # an admin's body means more
    began, replayed = await begun(world, caller, fresh, meaning, idempotency_key)
    made(response, f"/v1/redrives/{began.redrive_id}", replayed)
    return redrive_out(began)


@router.post("/dlq:drop", summary="Give dead letters up; they stay in the history", responses=refuses(404))
@needs(Role.OPERATOR, Kept.AFTERWARDS)
async def drop_dead(world: WorldDep, caller: CallerDep, body: Annotated[Any, Depends(body_of(DropBody))]) -> DroppedOut:
    wanted = await filter_of(world, caller, body.filter)
    if body.dry_run:
        plan = await dead.planned(world, caller, wanted, limit=body.limit, include_unknown=True)
        document = plan.document
        total = document["total"] + sum(plan.skipped.values())
        return {"total": total, "dropped": 0, "more": False, "archive": body.archive, "causes": document["causes"]}
    limit = min(body.limit or dead.MOST_DROPPED, dead.MOST_DROPPED)
    count, more = await dead.dropped(world, caller, wanted, limit, body.note, archive=body.archive)
    return {"dropped": count, "more": more, "archive": body.archive}


# ── redrives ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/redrives", summary="Redrives in progress and done, newest first")
@needs(Role.VIEWER)
async def list_redrives(
    world: WorldDep,
    caller: CallerDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    state: Annotated[list[RedriveState] | None, Query()] = None,
) -> RedrivesOut:
    redrives = redrive_key(caller.tenant_id, "").partition
    found, next_cursor = await listed_of(redrives, world, caller, limit, cursor, state)
    return {"items": [redrive_out(one) for one in found], "next_cursor": next_cursor}


@router.get("/redrives/{redrive_id}", summary="How far a redrive has come")
@needs(Role.VIEWER)
async def get_redrive(world: WorldDep, caller: CallerDep, redrive_id: str) -> RedriveOut:
    return redrive_out(await find_redrive(world, caller, redrive_id))


@router.post("/redrives/{redrive_id}:pause", summary="Start nothing more until it is resumed", responses=refuses(409))
@needs(Role.OPERATOR)
async def pause_redrive(world: WorldDep, caller: CallerDep, redrive_id: str) -> RedriveOut:
    return redrive_out(await moved(find_redrive, world, caller, redrive_id, redriving.pause))


@router.post("/redrives/{redrive_id}:resume", summary="Go on after a pause", responses=refuses(409))
@needs(Role.OPERATOR)
async def resume_redrive(world: WorldDep, caller: CallerDep, redrive_id: str) -> RedriveOut:
    return redrive_out(await moved(find_redrive, world, caller, redrive_id, redriving.resume))


@router.post("/redrives/{redrive_id}:continue", summary="Yes to the rest, after the canary", responses=refuses(409))
@needs(Role.OPERATOR)
async def continue_redrive(world: WorldDep, caller: CallerDep, redrive_id: str) -> RedriveOut:
    return redrive_out(await moved(find_redrive, world, caller, redrive_id, redriving.proceed))


@router.post(
    "/redrives/{redrive_id}:stop", summary="End it; the rest stays among the dead letters", responses=refuses(409)
)
@needs(Role.OPERATOR)
async def stop_redrive(world: WorldDep, caller: CallerDep, redrive_id: str) -> RedriveOut:
    return redrive_out(await moved(find_redrive, world, caller, redrive_id, redriving.stop))


@router.delete("/redrives/{redrive_id}", summary="The same as :stop", responses=refuses(409))
@needs(Role.OPERATOR)
async def delete_redrive(world: WorldDep, caller: CallerDep, redrive_id: str) -> RedriveOut:
    return redrive_out(await moved(find_redrive, world, caller, redrive_id, redriving.stop))
