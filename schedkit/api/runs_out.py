"""The shapes of runs, and of what workers are told of them, as they go out."""

from __future__ import annotations

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from schedkit.api.shapes import JSON, Problem, Rank, RunState, Time, exact, word_or_null
from schedkit.model.runs import AttemptOutcome


@exact
class AttemptOut(TypedDict):
    attempt: int
    epoch: int
    started_at: Time
    finished_at: Time | None
    outcome: Annotated[str | None, word_or_null(AttemptOutcome)]
    http_status: int | None
    error: str | None
    lag_ms: int


@exact
class RunOut(TypedDict):
    """A run. `lag_ms` is the first attempt's: its start - (scheduled_for + its place in the window)."""

    run_id: str
    job_id: str
    job_name: str | None
    target_id: str | None
    task_queue: str | None
    task_type: str | None
    tenant_id: str
    team_id: str
    scheduled_for: Time
    status: RunState
    reason: str | None
    epoch: int
    attempt: int
    priority: Rank
    lease_owner: str | None
    lease_expires_at: Time | None
    not_before: Time | None
    cancel_requested: bool
    triggered: bool
    backfilled: bool
    misfired: bool
    attempts: list[AttemptOut]
    progress: JSON
    result: str | None
    started_at: Time | None
    finished_at: Time | None
    lag_ms: int | None
    series: int
    redrive_id: str | None
    dropped_at: Time | None
    resolved_at: Time | None
    note: str | None


@exact
class RunsOut(TypedDict):
    items: list[RunOut]
    next_cursor: str | None


@exact
class RecentRunOut(TypedDict):
    run_id: str
    scheduled_for: Time
    status: RunState
    outcome: RunState
    reason: str | None
    attempt: int
    epoch: int
    http_status: int | None
    error: str | None
    finished_at: Time | None


@exact
class TaskOut(TypedDict):
    """A run that a worker was handed. `deadline` null: as long as it sends heartbeats."""

    run_id: str
    job_id: str
    job_name: str | None
    task_queue: str | None
    task_type: str | None
    scheduled_for: Time
    epoch: int
    attempt: int
    lease_expires_at: Time | None
    heartbeat_every_seconds: float
    deadline: Time | None
    payload: JSON
    previous_progress: JSON
    idempotency_key: str


@exact
class TasksOut(TypedDict):
    tasks: list[TaskOut]


@exact
class HeldOut(TypedDict):
    """Until when the run is held, and whether it is to be stopped."""

    lease_expires_at: Time | None
    cancel_requested: bool


@exact
class HeldEachOut(TypedDict):
    status: int
    lease_expires_at: NotRequired[Time | None]
    cancel_requested: NotRequired[bool]
    error: NotRequired[Problem]


@exact
class BatchHeldOut(TypedDict):
    results: list[HeldEachOut]


@exact
class EndedEachOut(TypedDict):
    status: int
    run_id: NotRequired[str]
    run_status: NotRequired[RunState]
    attempt: NotRequired[int]
    error: NotRequired[Problem]


@exact
class BatchEndedOut(TypedDict):
    results: list[EndedEachOut]


@exact
class WorkerOut(TypedDict):
    worker_id: str
    task_queues: list[str]
    held: int
    first_seen_at: Time
    last_seen_at: Time


@exact
class WorkersOut(TypedDict):
    items: list[WorkerOut]
    next_cursor: str | None
