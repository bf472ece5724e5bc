"""Access: who calls, what they may do, and the keys they prove it with.

    sk_<env>_<id>_<secret>      sk_dev_7f3k2m9q4w8x_…: 256 bits of chance in base 62, then six characters of checksum

A key is stored as an HMAC under the server's pepper; the text itself is shown once, when it is made. A caller has one
tenant, one team and one role, all from its key. The checksum tells a typing error from a wrong key without a look-up.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, fields
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

from schedkit.model.jobs import DEFAULT_TEAM, DEFAULT_TENANT
from schedkit.model.time import Instant
from schedkit.model.writes import Item

SECRET_BYTES: Final = 32
ID_BYTES: Final = 10
SECRET_DIGITS: Final = 43  # 256 bits in base 62
CHECKSUM_DIGITS: Final = 6  # 32 bits in base 62
ID_DIGITS: Final = 14  # 80 bits in base 62
MAX_KEY_CHARS: Final = 128
NAME_PATTERN: Final = r"[a-z0-9][a-z0-9-]{0,62}"  # of tenants, teams and keys: they stand in storage keys and key texts
ENV_PATTERN: Final = r"[a-z0-9]{1,16}"

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_BYTES: Final = 4
_KEY: Final = re.compile(
    rf"sk_{ENV_PATTERN}_(?P<id>[0-9A-Za-z]{{{ID_DIGITS}}})_[0-9A-Za-z]{{{SECRET_DIGITS + CHECKSUM_DIGITS}}}", re.ASCII
)


class Role(StrEnum):
    """Viewers read, operators change, admins change who may. Each may what the one before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def allows(self, needed: Role) -> bool:
        """Whether this role may do what `needed` may."""
        order = tuple(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as its credential says; `key_id` None where no credentials are asked for."""

    tenant_id: str = DEFAULT_TENANT
    team_id: str = DEFAULT_TEAM
    role: Role = Role.ADMIN
    key_id: str | None = None

    @property
    def reach(self) -> str | None:
        """The one team whose objects are there for the caller; None for an admin, who has every team of its tenant."""
        return None if self.role is Role.ADMIN else self.team_id

    def reaches(self, team_id: str | None) -> bool:
        """Whether what is about this team of its tenant, or about every team (None), is there for the caller."""
        return self.reach in (None, team_id)

    def sees(self, tenant_id: str, team_id: str) -> bool:
        """Whether an object of this team is there for the caller: its own team's, and for an admin its tenant's."""
        return tenant_id == self.tenant_id and self.reaches(team_id)

    def sees_item(self, item: Item) -> bool:
        """The same for a stored item; one from before there were teams is the default team's."""
        return self.sees(item["tenant_id"], item.get("team_id", DEFAULT_TEAM))


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key as it stands in the store. Instants in ms; it is live until `valid_until` or `revoked_at`."""

    key_id: str
    name: str
    tenant_id: str
    team_id: str
    role: Role
    env: str
    hash: str  # HMAC-SHA256 of the key's text under the pepper, in hex
    created_at: Instant
    created_by: str | None = None  # the key that made it
    valid_until: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None  # to the minute
    version: int = 1

    def live(self, now: Instant) -> bool:
        """Whether it opens anything now."""
        return self.revoked_at is None and (self.valid_until is None or now < self.valid_until)

    @property
    def caller(self) -> Caller:
        """Who calls with this key."""
        return Caller(self.tenant_id, self.team_id, self.role, self.key_id)


def key_attributes(key: ApiKey) -> dict[str, Any]:
    """The key as item attributes; what it does not have is left out."""
    return {name: value for name in _FIELDS if (value := getattr(key, name)) is not None} | {"role": key.role.value}


def key_of(item: Item) -> ApiKey:
    """The key in a stored item."""
    values = {name: item[name] for name in _FIELDS if item.get(name) is not None}
    return ApiKey(**values | {"role": Role(values["role"])})


def new_key_id(draw: bytes) -> str:
    """A key's public name, of ten bytes of chance."""
    return _base62(draw[:ID_BYTES], ID_DIGITS)


def key_text(env: str, key_id: str, secret: bytes) -> str:
    """What the owner of a key sends: shown once, stored nowhere."""
    assert len(secret) == SECRET_BYTES, "256 bits cannot be guessed"
    start = f"sk_{env}_{key_id}_{_base62(secret, SECRET_DIGITS)}"
    return start + _checksum(start)


def id_in(text: str) -> str | None:
    """The id in a key's text; None for what cannot be a key."""
    found = _KEY.fullmatch(text) if len(text) <= MAX_KEY_CHARS else None
    if found is None or text[-CHECKSUM_DIGITS:] != _checksum(text[:-CHECKSUM_DIGITS]):
        return None
    return found["id"]


def key_hash(pepper: bytes, text: str) -> str:
    """What is stored of a key. A slow hash protects passwords that people choose, not 256 bits of chance."""
    return hmac.digest(pepper, text.encode(), "sha256").hex()


def same_hash(one: str, other: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(one, other)


def _checksum(text: str) -> str:
    return _base62(blake2b(text.encode(), digest_size=_CHECKSUM_BYTES).digest(), CHECKSUM_DIGITS)


def _base62(data: bytes, width: int) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    assert number == 0, "wide enough for its bytes"
    return "".join(reversed(digits))


_FIELDS: Final = tuple(spec.name for spec in fields(ApiKey))
