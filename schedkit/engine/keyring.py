"""Keys: made, used, replaced, revoked. At most two live keys have one name, so that one can take over from the other.

    (none) ──issue──► live ──use──► live          at most one write a minute
                       │ │
                       │ └─rotate─► live until the grace ends, and its successor is live
                       └──revoke──► revoked

A key's name belongs to a holder item: role, team, and the live keys. Every arrow but `use` goes through it, so two
racing makers cannot leave three keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from schedkit.model.access import ApiKey, key_attributes
from schedkit.model.keys import api_key_key, holder_key, kept_until, keys_listing, sortable, tenant_key
from schedkit.model.time import MAX_INSTANT, MINUTE_MS, Instant
from schedkit.model.writes import Absent, Condition, Equals, Item, Write

MAX_LIVE: Final = 2  # the old one and the new one
USED_EVERY_MS: Final = MINUTE_MS  # last_used_at is not more exact than this: a write for each call would cost too much


def live_keys(holder: Item | None, now: Instant) -> dict[str, Instant]:
    """The live keys of a name: key id → valid until (MAX_INSTANT: no end)."""
    known: Mapping[str, Instant] = holder["live"] if holder is not None else {}
    return {key_id: until for key_id, until in known.items() if now < until}


def issue(key: ApiKey, holder: Item | None, now: Instant) -> tuple[Write, ...]:
    """The key comes to be, and its tenant is known; refused if the keys of its name changed since `holder` was read."""
    live = live_keys(holder, now) | {key.key_id: _end(key)}
    return _made(key), _held(key, holder, live, now), _tenant(key)


def rotate(old: ApiKey, new: ApiKey, holder: Item | None, ends_at: Instant, now: Instant) -> tuple[Write, ...]:
    """`new` takes over from `old`, which is good until `ends_at` (ms) at the latest."""
    ending = replace(old, valid_until=min(_end(old), ends_at))
    live = live_keys(holder, now) | {old.key_id: _end(ending), new.key_id: _end(new)}
    changes = {"valid_until": ending.valid_until, **kept_until(_end(ending))}
    return _made(new), _held(new, holder, live, now), _changed(old, "rotate", changes)


def revoke(key: ApiKey, holder: Item | None, now: Instant) -> tuple[Write, ...]:
    """The key opens nothing from now on."""
    live = {key_id: until for key_id, until in live_keys(holder, now).items() if key_id != key.key_id}
    return _changed(key, "revoke", {"revoked_at": now, **kept_until(now)}), _held(key, holder, live, now)


def use(key: ApiKey, now: Instant) -> Write | None:
    """Note that the key is in use; None where that was noted within the last minute."""
    if key.last_used_at is not None and now - key.last_used_at < USED_EVERY_MS:
        return None
    seen = (Equals("last_used_at", key.last_used_at), Equals("revoked_at", None), Equals("key_id", key.key_id))
    return Write(api_key_key(key.key_id), "use", seen, {"last_used_at": now})


def _made(key: ApiKey) -> Write:
    listed = {"listed_partition": keys_listing(key.tenant_id), "listed_at": sortable(key.created_at)}
    forgotten = kept_until(key.valid_until) if key.valid_until is not None else {}
    return Write(api_key_key(key.key_id), "issue", (Absent(),), key_attributes(key) | listed | forgotten)


def _changed(key: ApiKey, arrow: str, changes: dict[str, Any]) -> Write:
    conditions = (Equals("version", key.version), Equals("revoked_at", None))
    return Write(api_key_key(key.key_id), arrow, conditions, {**changes, "version": key.version + 1})


def _held(key: ApiKey, holder: Item | None, live: dict[str, Instant], now: Instant) -> Write:
    version = holder["version"] if holder is not None else 0
    condition: Condition = Absent() if holder is None else Equals("version", version)
    forgotten = {"expires_at": None} if live else kept_until(now)
    changes = {"role": key.role.value, "team_id": key.team_id, "live": live, "version": version + 1, **forgotten}
    return Write(holder_key(key.tenant_id, key.name), "hold", (condition,), changes)


def _tenant(key: ApiKey) -> Write:
    return Write(tenant_key(key.tenant_id), "tenant", (), {"tenant_id": key.tenant_id})


def _end(key: ApiKey) -> Instant:
    return key.valid_until if key.valid_until is not None else MAX_INSTANT
