"""Jobs: what to call, when, with what payload, and what to do on failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from schedkit.model.schedules import Cron, DayRule, GapPolicy, Interval, Once, RepeatPolicy, Schedule
from schedkit.model.time import DAY_MS, SECOND_MS, Instant
from schedkit.model.writes import Item

DEFAULT_TENANT: Final = "default"
DEFAULT_TEAM: Final = "default"
MAX_PAYLOAD_BYTES: Final = 64 * 1_024
MAX_ATTEMPTS: Final = 100
MAX_BACKOFF_MS: Final = 900 * SECOND_MS  # a retry fits in one queue delay of 15 minutes
MAX_TIMEOUT_MS: Final = 300 * SECOND_MS
MIN_LEASE_MS: Final = 5 * SECOND_MS  # shorter, and one lost heartbeat would cost the lease
MAX_LEASE_MS: Final = 3_600 * SECOND_MS
MAX_TASK_TIMEOUT_MS: Final = 7 * DAY_MS
MAX_WINDOW_MS: Final = 86_400 * SECOND_MS
MAX_PAUSES: Final = 50  # that are remembered; before them nothing is known
MAX_SKIPPED: Final = 90  # occurrences by one skip-next: one write, and a transaction holds 100 items at most


class JobStatus(StrEnum):
    SCHEDULED = "SCHEDULED"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)


class Priority(StrEnum):
    """Which pool runs a job; pools never wait for each other."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    DEFAULT = "DEFAULT"
    LOW = "LOW"


class MisfirePolicy(StrEnum):
    """What happens to occurrences noticed later than the grace after their time (W12)."""

    RUN_ONCE = "RUN_ONCE"
    SKIP = "SKIP"
    RUN_ALL = "RUN_ALL"


class OverlapPolicy(StrEnum):
    """What happens when the previous run has no final state yet (W13)."""

    ALLOW = "ALLOW"
    SKIP = "SKIP"
    BUFFER_ONE = "BUFFER_ONE"


class Delivery(StrEnum):
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    AT_MOST_ONCE = "AT_MOST_ONCE"


class RegionPolicy(StrEnum):
    SINGLE_REGION = "SINGLE_REGION"
    HOME_ASYNC = "HOME_ASYNC"
    STRICT = "STRICT"


@dataclass(frozen=True, slots=True)
class HmacAuth:
    """Calls are signed with the secret behind this reference; while it is rotated, with the one before it too (F8)."""

    secret_ref: str
    previous_secret_ref: str | None = None

    @property
    def refs(self) -> tuple[str, ...]:
        """What a call is signed with, the newest first."""
        return (self.secret_ref, *([self.previous_secret_ref] if self.previous_secret_ref is not None else []))


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where the call goes: a URL, or a path under the base URL of a registered target, looked up at each call."""

    url: str | None = None
    target_id: str | None = None
    path: str = ""
    method: str = "POST"
    timeout_ms: int = 30 * SECOND_MS
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: HmacAuth | None = None

    def url_under(self, registered: Mapping[str, str]) -> str | None:
        """The URL to call, given the base URLs of registered targets; None where this one is not registered (now)."""
        if self.target_id is None:
            return self.url
        base = registered.get(self.target_id)
        return base.rstrip("/") + self.path if base is not None else None


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """A task queue that workers poll (H4). `task_type` says which of a worker's functions it is for.

    A worker holds a run for `lease_ms` from its last heartbeat, and for `timeout_ms` in all where that is given.
    """

    task_queue: str
    task_type: str | None = None
    lease_ms: int = 30 * SECOND_MS
    timeout_ms: int | None = None


Target = HttpTarget | TaskTarget


def target_id_of(target: Target) -> str | None:
    """The registered target that is called; None for a URL, and for a task queue."""
    return target.target_id if isinstance(target, HttpTarget) else None


def task_queue_of(target: Target) -> str | None:
    """The queue in which its runs wait for a worker; None where they are called."""
    return target.task_queue if isinstance(target, TaskTarget) else None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how far apart a run is tried (F2). Times in ms."""

    max_attempts: int = 5
    initial_backoff_ms: int = 10 * SECOND_MS
    max_backoff_ms: int = 600 * SECOND_MS


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it stands in the store. Instants and durations are in ms, `payload` is JSON text or None."""

    job_id: str
    schedule: Schedule
    target: Target
    created_at: Instant
    updated_at: Instant
    tenant_id: str = DEFAULT_TENANT
    team_id: str = DEFAULT_TEAM  # the owner: who made it
    name: str | None = None
    description: str | None = None
    status: JobStatus = JobStatus.SCHEDULED
    status_reason: str | None = None
    payload: str | None = None
    priority: Priority = Priority.DEFAULT
    window_ms: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    misfire: MisfirePolicy = MisfirePolicy.RUN_ONCE
    misfire_grace_ms: int = 60 * SECOND_MS
    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    region_policy: RegionPolicy = RegionPolicy.HOME_ASYNC
    labels: Mapping[str, str] = field(default_factory=dict)
    max_runs: int | None = None
    expires_after_ms: int | None = None
    version: int = 1  # raised by every edit and operator's verb; what If-Match compares
    managed_by: str | None = None  # the job file that keeps this job, as `jobs.yaml@owner/repository`
    applied_version: int | None = None  # `version` as that file's last apply left it; another one means a hand was here
    notes: tuple[str, ...] = ()  # what was adjusted when the schedule was accepted
    zone_data: str | None = None  # the tz database version next_run_at was computed with (W2)

    # Where the schedule stands.
    counted_from: Instant = 0  # next_run_at is the first occurrence after this
    next_run_at: Instant | None = None  # scheduled_for of the next occurrence
    last_run: Instant | None = None  # scheduled_for of the occurrence started last
    last_triggered: Instant | None = None  # scheduled_for of the run that was last asked for by hand
    run_count: int = 0
    held: Instant | None = None  # BUFFER_ONE: the occurrence waiting for the previous run to end
    missed_run: int = 0  # RUN_ALL: how many missed occurrences have run in this catch-up
    catch_up: MisfirePolicy | None = None  # said by resume: replaces `misfire` until the job has caught up
    paused_until: Instant | None = None
    pause_reason: str | None = None
    paused_at: Instant | None = None

    # What the ledger must know of the past (W16).
    known_since: Instant | None = None  # what is due after it is due by the schedule as it stands now
    pauses: tuple[tuple[Instant, Instant], ...] = ()  # (after, through): what was due there was passed over at resume


def job_attributes(job: Job) -> dict[str, Any]:
    """The job as item attributes: JSON values only, `None` where there is nothing."""
    return {name: _encoded(name, getattr(job, name)) for name in _FIELDS}


def changed_attributes(before: Job, after: Job) -> dict[str, Any]:
    """The attributes in which two states of a job differ, as they are afterwards."""
    changes = {}
    for name in _FIELDS:
        was, becomes = getattr(before, name), getattr(after, name)
        if was is not becomes and was != becomes:
            changes[name] = _encoded(name, becomes)
    return changes


def job_of(item: Item) -> Job:
    """The job in a stored item."""
    values = {name: item[name] for name in _FIELDS if item.get(name) is not None}
    for name, decode in _DECODE.items():
        if name in values:
            values[name] = decode(values[name])
    return Job(**values)


def _encoded(name: str, value: Any) -> Any:
    encode = _ENCODE.get(name)
    return value if encode is None or value is None else encode(value)


def schedule_attributes(schedule: Schedule) -> dict[str, Any]:
    """A schedule as JSON values, `type` first."""
    plain = _attributes_of(_SCHEDULE_FIELDS[type(schedule)], schedule)
    return {"type": _SCHEDULE_TYPES[type(schedule)]} | {
        name: value.value if isinstance(value, StrEnum) else value for name, value in plain.items() if value is not None
    }


def schedule_of(attributes: Mapping[str, Any]) -> Schedule:
    values = {name: value for name, value in attributes.items() if name != "type"}
    match attributes["type"]:
        case "ONCE":
            return Once(**values | _policies(values))
        case "CRON":
            return Cron(**values | _policies(values) | {"day_rule": DayRule(values["day_rule"])})
        case "INTERVAL":
            return Interval(**values)
        case other:
            raise AssertionError(f"no such schedule type: {other}")


def _policies(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"gap": GapPolicy(values["gap"]), "repeat": RepeatPolicy(values["repeat"])}


def _target_attributes(target: Target) -> dict[str, Any]:
    found = {"type": _TARGET_TYPES[type(target)]} | _attributes_of(_TARGET_FIELDS[type(target)], target)
    if isinstance(target, HttpTarget) and target.auth is not None:
        found["auth"] = _attributes_of(_AUTH_FIELDS, target.auth)
    return found


def _target_of(attributes: Mapping[str, Any]) -> Target:
    kind = TaskTarget if attributes["type"] == _TARGET_TYPES[TaskTarget] else HttpTarget
    values = {name: value for name, value in attributes.items() if name != "type"}
    if values.get("auth") is not None:
        values["auth"] = HmacAuth(**values["auth"])
    return kind(**values)


def _attributes_of(names: tuple[str, ...], value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(spec.name for spec in fields(kind))


# Looked up once: a scheduler encodes and decodes jobs several times for each run.
_FIELDS: Final = _names(Job)
_TARGET_TYPES: Final[dict[type[Any], str]] = {HttpTarget: "HTTP", TaskTarget: "TASK_QUEUE"}
_TARGET_FIELDS: Final = {kind: _names(kind) for kind in _TARGET_TYPES}
_AUTH_FIELDS: Final = _names(HmacAuth)
_RETRY_FIELDS: Final = _names(RetryPolicy)
_SCHEDULE_TYPES: Final[dict[type[Any], str]] = {Once: "ONCE", Cron: "CRON", Interval: "INTERVAL"}
_SCHEDULE_FIELDS: Final = {kind: _names(kind) for kind in _SCHEDULE_TYPES}
_ENUMS: Final[dict[str, type[StrEnum]]] = {
    "status": JobStatus,
    "priority": Priority,
    "misfire": MisfirePolicy,
    "overlap": OverlapPolicy,
    "delivery": Delivery,
    "region_policy": RegionPolicy,
    "catch_up": MisfirePolicy,
}
_ENCODE: Final[dict[str, Callable[[Any], Any]]] = {
    "schedule": schedule_attributes,
    "target": _target_attributes,
    "retry": lambda retry: _attributes_of(_RETRY_FIELDS, retry),
    "labels": lambda labels: dict(labels) or None,
    "notes": lambda notes: list(notes) or None,
    "pauses": lambda pauses: [list(pause) for pause in pauses] or None,
    **dict.fromkeys(_ENUMS, attrgetter("value")),
}
_DECODE: Final[dict[str, Callable[[Any], Any]]] = {
    "schedule": schedule_of,
    "target": _target_of,
    "retry": lambda attributes: RetryPolicy(**attributes),
    "notes": tuple,
    "pauses": lambda pauses: tuple((after, through) for after, through in pauses),
    **_ENUMS,
}
