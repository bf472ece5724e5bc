"""The audit log over HTTP: who changed what, newest first. For the admins of a tenant, and of their tenant only."""

from __future__ import annotations

from fastapi import APIRouter

from schedkit.api.access import CallerDep, Guarded, needs
from schedkit.api.jobs_in import instant_in
from schedkit.api.lists import listed
from schedkit.api.ops_out import RecordOut, RecordsOut
from schedkit.api.requests import DEFAULT_LIMIT, Cursor, Limit, When, WorldDep
from schedkit.api.views import record_out
from schedkit.model.access import Role
from schedkit.model.audit import Recorded
from schedkit.model.keys import Index, audit_listing
from schedkit.model.writes import Item
from schedkit.ports import Page

router = APIRouter(prefix="/v1", tags=["audit"], route_class=Guarded)


@router.get("/audit", summary="Who changed what, newest first")
@needs(Role.ADMIN)
async def list_audit(
    world: WorldDep,
    caller: CallerDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    action: str | None = None,
    resource: str | None = None,
    key_id: str | None = None,
    team_id: str | None = None,
    outcome: Recorded | None = None,
    since: When = None,
    until: When = None,
) -> RecordsOut:
    """`resource` finds what a record names, and what a batch made."""
    first, last = instant_in(since, "since"), instant_in(until, "until")

    def pick(item: Item) -> RecordOut | None:
        matches = (
            action in (None, item["action"])
            and (resource in (None, item["resource"]) or resource in item.get("resources", ()))
            and key_id in (None, item.get("key_id"))
            and team_id in (None, item["team_id"])
            and outcome in (None, item["outcome"])
            and (last is None or item["at"] <= last)
        )
        return record_out(item) if matches else None

    def ends(item: Item) -> bool:
        return first is not None and item["at"] < first

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            audit_listing(caller.tenant_id), index=Index.LISTED, limit=limit, cursor=cursor, newest_first=True
        )

    items, next_cursor = await listed(world, page, limit, cursor, pick, ends)
    return {"items": items, "next_cursor": next_cursor}
