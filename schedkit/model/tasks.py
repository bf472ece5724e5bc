"""Tasks: what a worker is handed of a run, and its word for how it went."""

from __future__ import annotations

from dataclasses import dataclass, field

from schedkit.model.jobs import Job
from schedkit.model.runs import Run
from schedkit.model.time import Instant


@dataclass(frozen=True, slots=True)
class Task:
    """A run that a worker has claimed, with the job that says what to do. `deadline` None: as long as it heartbeats."""

    run: Run
    job: Job
    deadline: Instant | None


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker asks for up to `limit` tasks of a queue, and waits up to `wait_ms` for the first one."""

    worker_id: str
    task_queue: str
    limit: int
    wait_ms: int


@dataclass(slots=True)
class WorkerSeen:
    """What a process knows of a worker: the queues it polls, the runs it has in hand, when it was last heard of."""

    worker_id: str
    tenant_id: str
    team_id: str
    first_at: Instant
    last_at: Instant
    queues: set[str] = field(default_factory=set)
    held: set[tuple[str, Instant]] = field(default_factory=set)  # (job_id, scheduled_for)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """It is done; `result` is JSON text, of which 4 KiB are kept."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It is not done: to be tried again after `after_ms` at least, or, not retryable, never."""

    error: str
    retryable: bool = True
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was stopped because its cancellation had been asked for."""


Report = Succeeded | Failed
Ending = Succeeded | Failed | Stopped
