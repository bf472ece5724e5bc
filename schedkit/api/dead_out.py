"""The shapes of dead letters and redrives as they go out."""

from __future__ import annotations

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from schedkit.api.runs_out import RunOut
from schedkit.api.shapes import RunState, Time, exact, word, word_or_null
from schedkit.model.redrives import RedriveState


@exact
class DeadLetterOut(TypedDict):
    run_id: str
    job_id: str
    job_name: str | None
    target_id: str | None
    tenant_id: str
    team_id: str
    scheduled_for: Time
    status: RunState
    reason: str | None
    error: str | None
    http_status: int | None
    attempt: int
    attempts_made: int
    series: int
    epoch: int
    redrive_id: str | None
    failed_at: Time | None


@exact
class DeadRunOut(RunOut):
    """The run, and of how it ended what a list shows."""

    error: str | None
    http_status: int | None
    attempts_made: int
    failed_at: Time | None


@exact
class DeadLettersOut(TypedDict):
    items: list[DeadLetterOut]
    next_cursor: str | None


@exact
class DeadGroupOut(TypedDict):
    """Of what was asked for in `group_by`, the values that these dead letters share."""

    target_id: NotRequired[str | None]
    job_name: NotRequired[str | None]
    reason: NotRequired[str | None]
    error: NotRequired[str | None]
    count: int
    oldest: Time | None
    newest: Time | None


@exact
class DeadGroupsOut(TypedDict):
    items: list[DeadGroupOut]
    counted: int
    complete: bool


@exact
class CauseOut(TypedDict):
    error: str
    count: int


class SpanOut(TypedDict):
    count: int
    oldest: Time | None
    newest: Time | None


class PlanOut(TypedDict):
    total: int
    oldest: Time | None
    newest: Time | None
    causes: list[CauseOut]
    unknown: int
    skipped: dict[str, int]
    complete: bool
    notes: list[str]


@exact
class RedrivePlanOut(PlanOut):
    """What a redrive would do; `complete` is false where there were too many to look at."""

    max_per_second: int
    canary: int
    include_unknown: bool
    limit: int | None
    seconds: int


@exact
class DroppedOut(TypedDict):
    """How many were given up; of a `dry_run`, how many would be, and why they had failed."""

    dropped: int
    more: bool
    archive: bool
    total: NotRequired[int]
    causes: NotRequired[list[CauseOut]]


@exact
class DeadFilterOut(TypedDict):
    target_id: str | None
    job_id: str | None
    reason: str | None
    failed_after: Time | None
    failed_before: Time | None
    run_ids: list[str]


@exact
class RedriveOut(TypedDict):
    """A redrive: what was asked for, and how far it has come. Without a team it is of them all."""

    redrive_id: str
    tenant_id: str
    team_id: str | None
    state: Annotated[str, word(RedriveState)]
    state_reason: str | None
    paused_from: Annotated[str | None, word_or_null(RedriveState)]
    filter: DeadFilterOut
    max_per_second: int
    canary: int
    canary_runs: list[str]
    goes_on: bool
    include_unknown: bool
    limit: int | None
    total: int
    redriven: int
    open: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: dict[str, int]
    owner: str | None
    note: str | None
    created_at: Time
    updated_at: Time
    finished_at: Time | None


@exact
class RedrivesOut(TypedDict):
    items: list[RedriveOut]
    next_cursor: str | None
