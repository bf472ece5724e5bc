"""The shapes of jobs, and of when they run next, as they go out."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from schedkit.api.runs_out import RecentRunOut
from schedkit.api.shapes import JSON, Problem, Rank, Time, exact, word
from schedkit.model.jobs import Delivery, JobStatus, MisfirePolicy, OverlapPolicy, RegionPolicy
from schedkit.model.schedules import DayRule, GapPolicy, RepeatPolicy

Gap = Annotated[str, word(GapPolicy)]
Repeat = Annotated[str, word(RepeatPolicy)]


@exact
class OnceOut(TypedDict):
    type: Literal["ONCE"]
    run_at: str
    time_zone: NotRequired[str]
    dst_gap_policy: NotRequired[Gap]
    dst_overlap_policy: NotRequired[Repeat]


class BoundsOut(TypedDict, total=False):
    start_at: Time
    end_at: Time


@exact
class CronOut(BoundsOut):
    type: Literal["CRON"]
    cron: str
    time_zone: str
    dst_gap_policy: Gap
    dst_overlap_policy: Repeat
    day_rule: Annotated[str, word(DayRule)]


@exact
class IntervalOut(BoundsOut):
    type: Literal["INTERVAL"]
    every_seconds: float
    anchor_at: Time


ScheduleOut = OnceOut | CronOut | IntervalOut


@exact
class AuthOut(TypedDict):
    type: Literal["HMAC_SHA256"]
    secret_ref: str
    previous_secret_ref: NotRequired[str]


@exact
class HttpTargetOut(TypedDict):
    """`url` is where the call goes now; null where its target is not registered any more."""

    type: Literal["HTTP"]
    target_id: NotRequired[str]
    path: NotRequired[str]
    url: str | None
    method: str
    timeout_seconds: float
    headers: dict[str, str]
    auth: NotRequired[AuthOut]


@exact
class TaskTargetOut(TypedDict):
    type: Literal["TASK_QUEUE"]
    task_queue: str
    task_type: str | None
    lease_seconds: float
    timeout_seconds: float | None


TargetOut = HttpTargetOut | TaskTargetOut


@exact
class RetryOut(TypedDict):
    max_attempts: int
    initial_backoff_seconds: float
    max_backoff_seconds: float


@exact
class JobOut(TypedDict):
    """A job. One that is paused or has ended has no next run."""

    job_id: str
    tenant_id: str
    team_id: str
    name: str | None
    description: str | None
    status: Annotated[str, word(JobStatus)]
    status_reason: str | None
    schedule: ScheduleOut
    target: TargetOut
    payload: JSON
    priority: Rank
    dispatch_window_seconds: float
    retry_policy: RetryOut
    misfire_policy: Annotated[str, word(MisfirePolicy)]
    misfire_grace_seconds: float
    overlap_policy: Annotated[str, word(OverlapPolicy)]
    delivery: Annotated[str, word(Delivery)]
    region_policy: Annotated[str, word(RegionPolicy)]
    labels: dict[str, str]
    max_runs: int | None
    expires_after_seconds: float | None
    next_run_at: Time | None
    next_run_local: str | None
    dispatch_at: Time | None
    adjusted: bool
    notes: list[str]
    run_count: int
    last_run_at: Time | None
    held_run_at: Time | None
    paused_until: Time | None
    pause_reason: str | None
    created_at: Time
    updated_at: Time
    version: int
    managed_by: str | None
    applied_version: int | None
    recent_runs: NotRequired[list[RecentRunOut]]


@exact
class JobsOut(TypedDict):
    items: list[JobOut]
    next_cursor: str | None


@exact
class CreatedOut(TypedDict):
    """`job` where it was made, or was there already (200); `error` where it was refused."""

    status: int
    job: NotRequired[JobOut]
    error: NotRequired[Problem]


@exact
class BatchCreatedOut(TypedDict):
    results: list[CreatedOut]


@exact
class OccurrenceOut(TypedDict):
    scheduled_for: Time
    local: str
    dispatch_at: Time
    notes: list[str]


@exact
class PreviewOut(TypedDict):
    occurrences: list[OccurrenceOut]


@exact
class NextOut(TypedDict):
    job_id: str
    occurrences: list[OccurrenceOut]
