"""The shapes of keys, audit records, and what those who operate it look at, as they go out."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from schedkit.api.shapes import Time, exact, open_ended, word
from schedkit.model.access import Role
from schedkit.model.audit import Recorded
from schedkit.model.jobs import JobStatus

Means = Annotated[str, word(Role)]


class KeyState(StrEnum):
    """What a key opens: everything its role may, or nothing any more, and why."""

    LIVE = "LIVE"
    EXPIRED = "EXPIRED"
    REVOKED = "REVOKED"


@exact
class WhoamiOut(TypedDict):
    auth: str
    tenant_id: str
    team_id: str
    role: Means
    key_id: str | None
    key_name: str | None
    expires_at: Time | None


@exact
class KeyOut(TypedDict):
    """An API key: neither its text nor its hash."""

    key_id: str
    name: str
    tenant_id: str
    team_id: str
    role: Means
    state: Annotated[str, word(KeyState)]
    created_at: Time
    created_by: str | None
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None
    version: int


@exact
class NewKeyOut(KeyOut):
    """The key with its text, which no other answer has."""

    secret: str


@exact
class RotatedKeyOut(NewKeyOut):
    """… and of the key that it replaces, until when that one is good."""

    replaces: str
    old_key_ends_at: Time


@exact
class KeysOut(TypedDict):
    items: list[KeyOut]
    next_cursor: str | None


@exact
class RecordOut(TypedDict):
    """An audit record: everything that its hash covers, and the hash as it is stored."""

    tenant_id: str
    team_id: str
    role: Means
    action: str
    resource: str
    outcome: Annotated[str, word(Recorded)]
    request_id: str
    address: str
    key_id: str | None
    before: str | None
    after: str | None
    resources: list[str]
    given: str | None
    chain: int
    seq: int
    at: Time
    previous: str
    hash: str


@exact
class RecordsOut(TypedDict):
    items: list[RecordOut]
    next_cursor: str | None


@exact
class StatusOut(TypedDict):
    """`reason` says why it is not ready."""

    status: str
    reason: NotRequired[str]


@exact
class VersionOut(TypedDict):
    version: str
    tzdata: str


class StoreOut(TypedDict):
    ok: bool
    detail: str | None


class AlertOut(TypedDict):
    level: Literal["WARN", "CRIT"]
    text: str


class LagOut(TypedDict):
    """How late first attempts started in the last minutes; null where none did."""

    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    runs: int
    window_seconds: int


class ReaperOut(TypedDict):
    live: int
    expired: int
    reclaimed: int
    suspended: str | None


class QueueOut(TypedDict):
    ready: int
    running: int
    slots: int


@open_ended
class SnapshotOut(TypedDict):
    """One document for dashboards; more may stand in it than is named here."""

    schema: Literal["schedkit.snapshot/v1"]
    version: str
    tzdata: str
    profile: str
    node: str
    now: Time
    uptime_seconds: int
    data: str
    store: StoreOut
    jobs: dict[Annotated[str, word(JobStatus)], int]
    dead_letters: int
    alerts: list[AlertOut]
    lag: NotRequired[LagOut]
    reaper: NotRequired[ReaperOut]
    queues: NotRequired[dict[str, QueueOut]]
    runs_per_minute: NotRequired[dict[str, int]]
