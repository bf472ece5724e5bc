"""API keys over HTTP: made, listed, replaced, revoked by the admins of a tenant; and who a caller is.

A key's text is in one answer, when it is made, and nowhere else. An admin makes keys for the teams of its own tenant.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from schedkit.api import bodies
from schedkit.api.access import CallerDep, Guarded, Keyring, access_of, needs
from schedkit.api.lists import listed
from schedkit.api.ops_out import KeyOut, KeysOut, NewKeyOut, RotatedKeyOut, WhoamiOut
from schedkit.api.problems import refuses
from schedkit.api.requests import DEFAULT_LIMIT, LOCATION, Cursor, Limit, WorldDep, body_of
from schedkit.api.views import key_out, time_out
from schedkit.engine import keyring as keys
from schedkit.errors import Conflict, NotAllowed, NotFound, Reason
from schedkit.model.access import (
    ID_BYTES,
    SECRET_BYTES,
    ApiKey,
    Caller,
    Role,
    key_hash,
    key_of,
    key_text,
    new_key_id,
)
from schedkit.model.keys import Index, api_key_key, holder_key, keys_listing
from schedkit.model.time import SECOND_MS, Instant, rfc3339
from schedkit.model.writes import Applied, Item, Write
from schedkit.ports import Page, World

MADE: Final[dict[int | str, dict[str, Any]]] = {201: {"headers": LOCATION}}
NOT_STORED: Final = {"Cache-Control": "no-store"}

router = APIRouter(prefix="/v1", tags=["keys"], route_class=Guarded)


async def keyring_of(request: Request) -> Keyring:
    """What keys are made of here. Raises NotAllowed where none are made."""
    keyring = access_of(request).keyring
    if keyring is None:
        raise NotAllowed(
            Reason.FORBIDDEN, "this scheduler makes no API keys", why="it has no secret to keep them under"
        )
    return keyring


KeyringDep = Annotated[Keyring, Depends(keyring_of)]


@router.get("/whoami", summary="Who you are to this server")
@needs(Role.VIEWER)
async def whoami(request: Request, world: WorldDep, caller: CallerDep) -> WhoamiOut:
    item = await world.store.get(api_key_key(caller.key_id)) if caller.key_id is not None else None
    key = key_of(item) if item is not None else None
    return {
        "auth": access_of(request).auth.value,
        "tenant_id": caller.tenant_id,
        "team_id": caller.team_id,
        "role": caller.role.value,
        "key_id": caller.key_id,
        "key_name": key.name if key is not None else None,
        "expires_at": time_out(key.valid_until if key is not None else None),
    }


@router.post(
    "/keys", status_code=201, summary="Make a key; its secret is in this answer only", responses=MADE | refuses(409)
)
@needs(Role.ADMIN)
async def create_key(
    world: WorldDep,
    caller: CallerDep,
    keyring: KeyringDep,
    response: Response,
    body: Annotated[Any, Depends(body_of(bodies.KeyCreate))],
) -> NewKeyOut:
    """Two live keys may have one name, and then they have one team and one role."""
    until = _until(body.expires_in_seconds, world.clock.now())
    key, secret = await make_key(world, keyring, caller, body.name, body.team_id or caller.team_id, body.role, until)
    response.headers.update(NOT_STORED | {"Location": f"/v1/keys/{key.key_id}"})
    return {**key_out(key, world.clock.now()), "secret": secret}


@router.get("/keys", summary="List keys, newest first")
@needs(Role.ADMIN)
async def list_keys(
    world: WorldDep,
    caller: CallerDep,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    name: str | None = None,
    live: bool | None = None,
) -> KeysOut:
    now = world.clock.now()

    def pick(item: Item) -> KeyOut | None:
        key = key_of(item)
        wanted = name in (None, key.name) and live in (None, key.live(now))
        return key_out(key, now) if wanted else None

    async def page(limit: int, cursor: str | None) -> Page:
        return await world.store.page(
            keys_listing(caller.tenant_id), index=Index.LISTED, limit=limit, cursor=cursor, newest_first=True
        )

    items, next_cursor = await listed(world, page, limit, cursor, pick)
    return {"items": items, "next_cursor": next_cursor}


@router.get("/keys/{key_id}", summary="One key")
@needs(Role.ADMIN)
async def get_key(world: WorldDep, caller: CallerDep, key_id: str) -> KeyOut:
    return key_out(await find_key(world, caller, key_id), world.clock.now())


@router.post(
    "/keys/{key_id}:rotate",
    status_code=201,
    summary="Make its successor; both are good for a while",
    responses=MADE | refuses(409),
)
@needs(Role.ADMIN)
async def rotate_key(
    world: WorldDep,
    caller: CallerDep,
    keyring: KeyringDep,
    key_id: str,
    response: Response,
    body: Annotated[Any, Depends(body_of(bodies.KeyRotate, optional=True))],
) -> RotatedKeyOut:
    """The successor has the same name, team and role. The old key ends after `grace_seconds`."""
    while True:
        old = await find_key(world, caller, key_id)
        now = world.clock.now()
        if not old.live(now):
            raise Conflict(
                Reason.KEY_ENDED,
                f"the key {old.name} ({key_id}) has ended: it opens nothing that a new one could take over",
                fix=(f"schedkit key create {old.name} --role {old.role} --team {old.team_id}",),
            )
        ends_at = now + round(body.grace_seconds * SECOND_MS)
        until = _until(body.expires_in_seconds, now)
        new, secret = _drawn(world, keyring, caller, old.name, old.team_id, old.role, until, now)
        holder = await world.store.get(holder_key(old.tenant_id, old.name))
        others = {other for other in keys.live_keys(holder, now) if other != key_id or ends_at > now}
        _room(old.name, others)
        if await _landed(world, *keys.rotate(old, new, holder, ends_at, now)):
            response.headers.update(NOT_STORED | {"Location": f"/v1/keys/{new.key_id}"})
            shown = key_out(new, now)
            return {**shown, "secret": secret, "replaces": key_id, "old_key_ends_at": rfc3339(ends_at)}


@router.delete("/keys/{key_id}", summary="Revoke a key: it opens nothing from now on")
@needs(Role.ADMIN)
async def revoke_key(world: WorldDep, caller: CallerDep, key_id: str) -> KeyOut:
    while True:
        key = await find_key(world, caller, key_id)
        now = world.clock.now()
        if key.revoked_at is not None:
            return key_out(key, now)
        holder = await world.store.get(holder_key(key.tenant_id, key.name))
        await _landed(world, *keys.revoke(key, holder, now))


async def find_key(world: World, caller: Caller, key_id: str) -> ApiKey:
    """Raises NotFound (KEY_NOT_FOUND), also for a key of another tenant."""
    item = await world.store.get(api_key_key(key_id))
    if item is None or item["tenant_id"] != caller.tenant_id:
        raise NotFound(
            Reason.KEY_NOT_FOUND, f"there is no key {key_id[:60]!r}", field="key_id", fix=("schedkit key list",)
        )
    return key_of(item)


async def make_key(
    world: World, keyring: Keyring, caller: Caller, name: str, team_id: str, role: Role, until: Instant | None
) -> tuple[ApiKey, str]:
    """(a new key of the caller's tenant, its text). Raises Conflict (KEYS_AT_LIMIT, NAME_IN_USE)."""
    while True:  # again where another maker was faster
        now = world.clock.now()
        holder = await world.store.get(holder_key(caller.tenant_id, name))
        live = keys.live_keys(holder, now)
        if live and holder is not None and (holder["role"], holder["team_id"]) != (role, team_id):
            raise Conflict(
                Reason.NAME_IN_USE,
                f"the live keys named {name} have the role {holder['role']} in the team {holder['team_id']}",
                field="name",
                why="keys of one name take over from each other, so they may do the same",
                fix=("choose another name",),
            )
        _room(name, set(live))
        key, text = _drawn(world, keyring, caller, name, team_id, role, until, now)
        if await _landed(world, *keys.issue(key, holder, now)):
            return key, text


def _drawn(
    world: World,
    keyring: Keyring,
    caller: Caller,
    name: str,
    team_id: str,
    role: Role,
    until: Instant | None,
    now: Instant,
) -> tuple[ApiKey, str]:
    key_id = new_key_id(world.chance.bytes(ID_BYTES))
    text = key_text(keyring.env, key_id, keyring.secret(SECRET_BYTES))
    key = ApiKey(
        key_id=key_id,
        name=name,
        tenant_id=caller.tenant_id,
        team_id=team_id,
        role=role,
        env=keyring.env,
        hash=key_hash(keyring.pepper(), text),
        created_at=now,
        created_by=caller.key_id,
        valid_until=until,
    )
    return key, text


def _room(name: str, live: set[str]) -> None:
    if len(live) >= keys.MAX_LIVE:
        raise Conflict(
            Reason.KEYS_AT_LIMIT,
            f"the name {name} has {len(live)} live keys: {', '.join(sorted(live))}",
            field="name",
            why="two are enough for one to take over from the other; more are keys that nobody keeps track of",
            fix=(f"schedkit key revoke {min(live)}", "choose another name"),
        )


async def _landed(world: World, *writes: Write) -> bool:
    return isinstance(await world.commit(*writes), Applied)


def _until(expires_in_seconds: float | None, now: Instant) -> Instant | None:
    return now + round(expires_in_seconds * SECOND_MS) if expires_in_seconds is not None else None
