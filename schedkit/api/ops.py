"""For those who operate it: liveness, readiness with the reason, metrics, the snapshot that dashboards show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from fastapi import APIRouter, Request, Response

from schedkit import __version__
from schedkit.api.access import CallerDep, Guarded, needs
from schedkit.api.ops_out import AlertOut, SnapshotOut, StatusOut, VersionOut
from schedkit.api.requests import WorldDep
from schedkit.engine.when.zones import TZDATA_VERSION
from schedkit.errors import StoreUnavailable
from schedkit.model.access import Caller, Role
from schedkit.model.jobs import JobStatus
from schedkit.model.keys import Index, dead_listing, jobs_listing
from schedkit.model.time import SECOND_MS, Instant, rfc3339
from schedkit.model.writes import Item
from schedkit.ports import World

COUNTED: Final = 2_000  # jobs and dead letters counted for a snapshot; more are shown as "at least"
PAGE: Final = 500

NOT_READY: Final[dict[int | str, dict[str, Any]]] = {503: {"model": StatusOut, "description": "Not yet, or no more"}}
TEXT: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

router = APIRouter(tags=["operate"], route_class=Guarded)


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the process that serves the API knows of itself."""

    profile: str
    data: str
    started_at: Instant
    not_ready: Callable[[], str | None]
    live: Callable[[], dict[str, Any]]
    metrics: Callable[[], bytes]


def vitals_of(request: Request) -> Vitals:
    vitals = request.app.state.vitals
    assert isinstance(vitals, Vitals), "the app is made with its vitals"
    return vitals


@router.get("/healthz", summary="Alive")
@needs(None)
async def healthz() -> StatusOut:
    return {"status": "ok"}


@router.get("/readyz", summary="Jobs can be created and run", responses=NOT_READY)
@needs(None)
async def readyz(request: Request, response: Response) -> StatusOut:
    why = vitals_of(request).not_ready()
    if why is None:
        return {"status": "ready"}
    response.status_code = 503
    return {"status": "not ready", "reason": why}


@router.get("/metrics", summary="Prometheus text", response_class=Response, responses=TEXT)
@needs(Role.VIEWER)
async def metrics(request: Request) -> Response:
    return Response(vitals_of(request).metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/v1/version", summary="Versions of the server and its zone data")
@needs(Role.VIEWER)
async def version() -> VersionOut:
    return {"version": __version__, "tzdata": TZDATA_VERSION}


@router.get("/v1/ops/snapshot", summary="One document for dashboards")
@needs(Role.VIEWER)
async def snapshot(request: Request, world: WorldDep, caller: CallerDep) -> SnapshotOut:
    return await snapshot_of(vitals_of(request), world, caller)


async def snapshot_of(vitals: Vitals, world: World, caller: Caller) -> SnapshotOut:
    """The snapshot as this caller sees it."""
    now = world.clock.now()
    live = vitals.live()
    why = vitals.not_ready()
    try:
        jobs = await _jobs_by_status(world, caller)
        letters = _newest(world, dead_listing(caller.tenant_id), Index.DEAD)
        dead = sum([caller.sees_item(item) async for item in letters])
    except StoreUnavailable as error:
        why, jobs, dead = error.detail, {}, 0
    alerts: list[AlertOut] = list(live.pop("alerts", ()))
    if why is not None:
        alerts.insert(0, {"level": "CRIT", "text": why})
    shown: SnapshotOut = {
        "schema": "schedkit.snapshot/v1",
        "version": __version__,
        "tzdata": TZDATA_VERSION,
        "profile": vitals.profile,
        "node": world.node,
        "now": rfc3339(now),
        "uptime_seconds": (now - vitals.started_at) // SECOND_MS,
        "data": vitals.data,
        "store": {"ok": why is None, "detail": why},
        "jobs": jobs,
        "dead_letters": dead,
        "alerts": alerts,
    }
    return cast(SnapshotOut, {**shown, **live})


async def _jobs_by_status(world: World, caller: Caller) -> dict[str, int]:
    counts = {status.value: 0 for status in JobStatus}
    async for item in _newest(world, jobs_listing(caller.tenant_id), Index.LISTED):
        counts[item["status"]] += caller.sees_item(item)
    return counts


async def _newest(world: World, partition: str, index: Index) -> AsyncIterator[Item]:
    """The newest ones, as many as are counted; others have their turn between two pages."""
    cursor: str | None = None
    for _ in range(COUNTED // PAGE):
        page = await world.store.page(partition, index=index, limit=PAGE, cursor=cursor, newest_first=True)
        for _, item in page.items:
            yield item
        cursor = page.cursor
        if cursor is None:
            return
        await world.clock.sleep(0)
