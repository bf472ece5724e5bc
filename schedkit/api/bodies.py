"""The bodies that requests may have, and the model values they become. pydantic ends here.

Strict: a string is no number, `true` is no 1, and a field we do not know is refused by name (A2).
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import ErrorDetails

from schedkit.errors import InvalidInput, Reason
from schedkit.model.access import NAME_PATTERN, Role
from schedkit.model.jobs import (
    MAX_ATTEMPTS,
    MAX_BACKOFF_MS,
    MAX_LEASE_MS,
    MAX_SKIPPED,
    MAX_TASK_TIMEOUT_MS,
    MAX_TIMEOUT_MS,
    MAX_WINDOW_MS,
    MIN_LEASE_MS,
    Delivery,
    MisfirePolicy,
    OverlapPolicy,
    Priority,
    RegionPolicy,
)
from schedkit.model.names import MAX_NAME_CHARS
from schedkit.model.schedules import LONGEST_EVERY_MS, MAX_EXPRESSION_CHARS, DayRule, GapPolicy, RepeatPolicy
from schedkit.model.time import DAY_MS, SECOND_MS

MAX_BODY_BYTES: Final = 256 * 1_024
MAX_LABELS: Final = 64
MAX_HEADERS: Final = 64
MAX_HEADER_CHARS: Final = 4_096
MAX_GRACE_SECONDS: Final = 365 * DAY_MS // SECOND_MS
MAX_EVERY_SECONDS: Final = LONGEST_EVERY_MS // SECOND_MS
MAX_KEY_SECONDS: Final = 3_660 * DAY_MS // SECOND_MS  # ten years
MAX_PREVIEW: Final = 1_000
MAX_BATCH: Final = 500
MAX_RUNS: Final = 1_000_000_000  # one a second for thirty years, and a number that every store can keep

Model = TypeVar("Model", bound="Body")


def _whole(value: Any) -> Any:
    """5.0 is 5, as JSON schemas say."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE: Final = BeforeValidator(_whole)
Seconds = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_RUNS), WHOLE]
Name = Annotated[str, Field(strict=True, max_length=MAX_NAME_CHARS, json_schema_extra={"minLength": 1})]
Text = Annotated[str, Field(strict=True, max_length=1_024)]
Labels = Annotated[dict[str, Text], Field(json_schema_extra={"maxProperties": MAX_LABELS})]
HeaderValue = Annotated[str, Field(strict=True, json_schema_extra={"maxLength": MAX_HEADER_CHARS})]
Zone = Annotated[str, Field(strict=True, json_schema_extra={"format": "iana-time-zone"})]
QueueName = Annotated[str, Field(strict=True, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Manager = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_NAME_CHARS)]
Label = Annotated[str, Field(strict=True, pattern=f"^{NAME_PATTERN}$", description="a-z, 0-9 and -")]
KeyLife = Annotated[Seconds, Field(ge=1, le=MAX_KEY_SECONDS)]
Time = Annotated[
    str,
    Field(
        strict=True,
        max_length=64,
        description="RFC 3339, with Z or an offset",
        json_schema_extra={"format": "date-time"},
    ),
]


def _not_null(schema: dict[str, Any]) -> None:
    """In the document: a field of a patch that may be left out, but not taken away."""
    del schema["default"]
    (kind,) = (kind for kind in schema.pop("anyOf") if kind != {"type": "null"})
    schema |= kind


KEEP: Final[Any] = Field(default=None, json_schema_extra=_not_null)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, frozen=True)


class OnceBody(Body):
    """One instant: with an offset or Z, or a wall time in `time_zone`."""

    type: Literal["ONCE"]
    run_at: Annotated[str, Field(strict=True, max_length=64, json_schema_extra={"format": "rfc3339-or-local"})]
    time_zone: Zone | None = None
    dst_gap_policy: GapPolicy = GapPolicy.FIRST_VALID
    dst_overlap_policy: RepeatPolicy = RepeatPolicy.FIRST


class CronBody(Body):
    """A Unix cron expression of five fields, or a macro, read on the wall clock of `time_zone`."""

    type: Literal["CRON"]
    cron: Annotated[str, Field(strict=True, json_schema_extra={"format": "cron", "maxLength": MAX_EXPRESSION_CHARS})]
    time_zone: Zone = "UTC"
    dst_gap_policy: GapPolicy = GapPolicy.FIRST_VALID
    dst_overlap_policy: RepeatPolicy = RepeatPolicy.FIRST
    day_rule: DayRule = DayRule.OR
    start_at: Time | None = None
    end_at: Time | None = None


class IntervalBody(Body):
    """`anchor_at` + k x `every_seconds` in elapsed time; the anchor is the moment of creation where it is not given."""

    type: Literal["INTERVAL"]
    every_seconds: Annotated[Seconds, Field(ge=1, le=MAX_EVERY_SECONDS)]
    anchor_at: Time | None = None
    start_at: Time | None = None
    end_at: Time | None = None


ScheduleBody = Annotated[OnceBody | CronBody | IntervalBody, Discriminator("type")]


class AuthBody(Body):
    """How calls are signed: with the secret behind `secret_ref`, and while it is rotated with the one before it too."""

    type: Literal["NONE", "HMAC_SHA256"]
    secret_ref: Text | None = None
    previous_secret_ref: Text | None = None


class TargetBody(Body):
    """Where the call goes: `url`, or the `target_id` of a registered target with a `path` under it."""

    type: Literal["HTTP"] = "HTTP"
    url: Annotated[str, Field(strict=True, json_schema_extra={"format": "uri"})] | None = None
    target_id: Text | None = None
    path: Annotated[str, Field(strict=True, max_length=1_024, pattern=r"^(/[!-~]*)?$")] = ""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    timeout_seconds: Annotated[Seconds, Field(ge=1, le=MAX_TIMEOUT_MS / SECOND_MS)] = 30
    headers: Annotated[dict[str, HeaderValue], Field(json_schema_extra={"maxProperties": MAX_HEADERS})] = {}
    auth: AuthBody | None = None


class TaskTargetBody(Body):
    """A task queue that workers poll. A worker's lease ends `lease_seconds` after its last heartbeat."""

    type: Literal["TASK_QUEUE"] = "TASK_QUEUE"
    task_queue: QueueName
    task_type: QueueName | None = None
    lease_seconds: Annotated[Seconds, Field(ge=MIN_LEASE_MS / SECOND_MS, le=MAX_LEASE_MS / SECOND_MS)] = 30
    timeout_seconds: Annotated[Seconds, Field(ge=1, le=MAX_TASK_TIMEOUT_MS / SECOND_MS)] | None = None


TASK_FIELDS: Final = frozenset({"task_queue", "task_type", "lease_seconds"})


def _target_kind(value: Any) -> str:
    """A target that does not name its type is called, unless it has a field that only a task queue has."""
    if isinstance(value, TargetBody | TaskTargetBody):
        return value.type
    given = value if isinstance(value, dict) else {}
    return str(given.get("type", "TASK_QUEUE" if TASK_FIELDS & given.keys() else "HTTP"))


AnyTargetBody = Annotated[
    Annotated[TargetBody, Tag("HTTP")] | Annotated[TaskTargetBody, Tag("TASK_QUEUE")], Discriminator(_target_kind)
]


class RetryPolicyBody(Body):
    max_attempts: Annotated[int, Field(strict=True, ge=1, le=MAX_ATTEMPTS), WHOLE] = 5
    initial_backoff_seconds: Annotated[Seconds, Field(ge=0, le=MAX_BACKOFF_MS / SECOND_MS)] = 10
    max_backoff_seconds: Annotated[Seconds, Field(ge=0, le=MAX_BACKOFF_MS / SECOND_MS)] = 600


class JobCreate(Body):
    schedule: ScheduleBody
    target: AnyTargetBody
    payload: Any = None
    name: Name | None = None
    description: Text | None = None
    priority: Priority = Priority.DEFAULT
    dispatch_window_seconds: Annotated[int, Field(strict=True, ge=0, le=MAX_WINDOW_MS // SECOND_MS), WHOLE] = 0
    retry_policy: RetryPolicyBody = RetryPolicyBody()
    misfire_policy: MisfirePolicy = MisfirePolicy.RUN_ONCE
    misfire_grace_seconds: Annotated[int, Field(strict=True, ge=0, le=MAX_GRACE_SECONDS), WHOLE] = 60
    overlap_policy: OverlapPolicy = OverlapPolicy.ALLOW
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    region_policy: RegionPolicy = RegionPolicy.HOME_ASYNC
    labels: Labels = {}
    max_runs: Count | None = None
    expires_after_seconds: Annotated[int, Field(strict=True, ge=1, le=MAX_GRACE_SECONDS), WHOLE] | None = None
    paused: Annotated[bool, Field(strict=True)] = False
    managed_by: Manager | None = None
    applied_version: Count | None = None


class BatchCreate(Body):
    """Up to 500 jobs; each entry is a job as POST /v1/jobs takes it, and may carry its own `idempotency_key`."""

    jobs: Annotated[list[Any], Field(min_length=1, max_length=MAX_BATCH)]


class TargetPatch(TargetBody):
    """Only what is given changes; a new `url` replaces a `target_id`, and the reverse."""


class TaskTargetPatch(TaskTargetBody):
    """Only what is given changes."""

    task_queue: QueueName | None = None  # type: ignore[assignment]


AnyTargetPatch = Annotated[
    Annotated[TargetPatch, Tag("HTTP")] | Annotated[TaskTargetPatch, Tag("TASK_QUEUE")], Discriminator(_target_kind)
]


class JobPatch(Body):
    """Only what is given changes. A schedule is given whole; `null` takes a value away where there may be none."""

    schedule: ScheduleBody | None = KEEP
    target: AnyTargetPatch | None = KEEP
    payload: Any = None
    name: Name | None = None
    description: Text | None = None
    priority: Priority | None = KEEP
    dispatch_window_seconds: Annotated[int, Field(strict=True, ge=0, le=MAX_WINDOW_MS // SECOND_MS), WHOLE] | None = (
        KEEP
    )
    retry_policy: RetryPolicyBody | None = KEEP
    misfire_policy: MisfirePolicy | None = KEEP
    misfire_grace_seconds: Annotated[int, Field(strict=True, ge=0, le=MAX_GRACE_SECONDS), WHOLE] | None = KEEP
    overlap_policy: OverlapPolicy | None = KEEP
    delivery: Delivery | None = KEEP
    region_policy: RegionPolicy | None = KEEP
    labels: Labels | None = None
    max_runs: Count | None = None
    expires_after_seconds: Annotated[int, Field(strict=True, ge=1, le=MAX_GRACE_SECONDS), WHOLE] | None = None
    managed_by: Manager | None = None
    applied_version: Count | None = None


class PauseBody(Body):
    reason: Text | None = None
    until: Time | None = None


class ResumeBody(Body):
    misfire: MisfirePolicy | None = None


class TriggerBody(Body):
    payload: Any = None
    as_of: Time | None = None


class SkipBody(Body):
    """How many of the next occurrences do not run; `first` is the next one as you know it, and no other is skipped.

    With `dry_run` only say which.
    """

    count: Annotated[int, Field(strict=True, ge=1, le=MAX_SKIPPED), WHOLE] = 1
    first: Time | None = None
    dry_run: Annotated[bool, Field(strict=True)] = False


class KeyCreate(Body):
    """`team_id` is a team of the caller's own tenant, its own where it is not given."""

    name: Label
    role: Role
    team_id: Label | None = None
    expires_in_seconds: KeyLife | None = None


class KeyRotate(Body):
    """How long the old key stays good, and how long the new one is."""

    grace_seconds: Annotated[Seconds, Field(ge=0, le=MAX_KEY_SECONDS)] = DAY_MS // SECOND_MS
    expires_in_seconds: KeyLife | None = None


class PreviewBody(Body):
    schedule: ScheduleBody
    after: Time | None = None
    count: Annotated[int, Field(strict=True, ge=1, le=MAX_PREVIEW), WHOLE] = 5
    job_id: Text | None = None
    dispatch_window_seconds: Annotated[int, Field(strict=True, ge=0, le=MAX_WINDOW_MS // SECOND_MS), WHOLE] = 0


_FIELD_REASONS: Final = {
    "schedule.cron": Reason.INVALID_CRON,
    "schedule.run_at": Reason.INVALID_RUN_AT,
    "schedule.time_zone": Reason.INVALID_TIME_ZONE,
}
_MUST: Final = {
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
}
_SHOULD: Final = re.compile(r"(?:Input|String|List|Dictionary|Value|Tuple) should (?P<what>.*)", re.DOTALL)
_TAGS: Final = frozenset({"ONCE", "CRON", "INTERVAL", "HTTP", "TASK_QUEUE"})


def read(model: type[Model], value: Any) -> Model:
    """The body as its model. Raises InvalidInput that names the field."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise refused(error) from None


def refused(error: ValidationError) -> InvalidInput:
    """The first thing that is wrong, as a person would say it."""
    first = error.errors(include_url=False, include_context=True)[0]
    path = ".".join(str(part) for part in first["loc"] if part not in _TAGS)
    reason = _FIELD_REASONS.get(path, Reason.INVALID_ARGUMENT)
    if path.startswith("target.headers"):
        reason = Reason.INVALID_HEADER
    kind = first["type"]
    if kind == "extra_forbidden":
        return InvalidInput(
            reason,
            f"there is no field {path!r}",
            field=path,
            why="a field that is not known might be one that matters, misspelled",
        )
    if kind == "missing":
        return InvalidInput(reason, f"{path!r} is missing", field=path)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path = f"{path}.type"
    given = first.get("input")
    if kind == "union_tag_invalid" and isinstance(given, dict):
        given = given.get("type")
    if path.startswith("target.auth"):
        return InvalidInput(reason, f"{path} {_must(first)}", field=path)  # it may be a secret, put where none belongs
    shown = json.dumps(given, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return InvalidInput(reason, f"{path or 'the body'} {_must(first)}, and this is {shown}", field=path or None)


def _must(first: ErrorDetails) -> str:
    """What was expected, as a person would say it."""
    kind, context = first["type"], first.get("ctx", {})
    if kind in _MUST:
        return _MUST[kind]
    if kind.startswith("union_tag"):
        return "must be HTTP or TASK_QUEUE" if "target" in first["loc"] else "must be ONCE, CRON or INTERVAL"
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected']}"
    if (said := _SHOULD.match(first["msg"])) is not None:
        return f"must {said['what']}"
    return f"is refused: {first['msg']}"
