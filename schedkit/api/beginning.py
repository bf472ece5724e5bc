"""Redrives and backfills over HTTP: how one is begun once for each Idempotency-Key, and moved by a verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from schedkit.api import strict_json
from schedkit.api.lists import listed
from schedkit.engine.failure import redrive as redriving
from schedkit.errors import Reason, Unprocessable
from schedkit.model.access import Caller
from schedkit.model.keys import kept_until, redrive_key, redrive_request_key
from schedkit.model.redrives import Redrive, RedriveState, redrive_of
from schedkit.model.time import Instant
from schedkit.model.writes import Absent, Applied, Item, Write
from schedkit.ports import Page, World

Find = Callable[[World, Caller, str], Awaitable[Redrive]]
Verb = Callable[[Redrive, Instant], Write | None]


async def begun(
    world: World, caller: Caller, fresh: Redrive, meaning: Mapping[str, Any], key: str | None
) -> tuple[Redrive, bool]:
    """(the redrive, whether this key had begun it before). `meaning` is what the request asks for.

    Raises Unprocessable (IDEMPOTENCY_KEY_REUSED).
    """
    if key is None:
        await world.commit(redriving.plan(fresh))
        return fresh, False
    digest = strict_json.digest(strict_json.canonical(dict(meaning)))
    place = redrive_request_key(caller.tenant_id, caller.team_id, key)
    taken = {"redrive_id": fresh.redrive_id, "request_hash": digest} | kept_until(fresh.created_at)
    outcome = await world.commit(redriving.plan(fresh), Write(place, "take key", (Absent(),), taken))
    if isinstance(outcome, Applied):
        return fresh, False
    used = await world.store.get(place)
    before = await world.store.get(redrive_key(fresh.tenant_id, used["redrive_id"])) if used is not None else None
    if used is None or before is None or used["request_hash"] != digest:
        raise Unprocessable(
            Reason.IDEMPOTENCY_KEY_REUSED,
            f"the Idempotency-Key {key[:60]!r} was used for another request",
            field="Idempotency-Key",
            why="one key stands for one request, so that a repeat can be told from a new wish",
            fix=("use a new key for a new request", "schedkit dlq redrives", "schedkit job backfills"),
        )
    return redrive_of(before), True


async def listed_of(
    partition: str,
    world: World,
    caller: Caller,
    limit: int,
    cursor: str | None,
    states: Collection[RedriveState] | None,
) -> tuple[list[Redrive], str | None]:
    """(those of the caller's teams in these states, newest first; the cursor of the next page). Raises InvalidInput."""

    def pick(item: Item) -> Redrive | None:
        found = redrive_of(item)
        return found if caller.reaches(found.filter.team_id) and (not states or found.state in states) else None

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(partition, limit=limit, cursor=cursor, newest_first=True)

    return await listed(world, page, limit, cursor, pick)


async def moved(find: Find, world: World, caller: Caller, redrive_id: str, verb: Verb) -> Redrive:
    """The verb is done to the redrive as it stands; whoever carries it out writes often, so it may take some tries.

    Raises NotFound, Conflict (REDRIVE_STATE).
    """
    while True:
        found = await find(world, caller, redrive_id)
        write = verb(found, world.clock.now())
        if write is None:
            return found
        outcome = await world.commit(write)
        if isinstance(outcome, Applied):
            return redrive_of(outcome.item)
