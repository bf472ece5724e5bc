"""Runs: the execution of one occurrence, and the states it goes through.

                     claim                         success
      (none) ──────────────────► RUNNING ──────────────────────► SUCCEEDED, SUCCEEDED_AFTER_CANCEL
        │                        │  ▲  │ retryable failure
        │ misfire, overlap,      │  │  ▼
        │ expired                │ RETRY_WAIT ─── job cancelled, paused or moved away ──► CANCELLED
        ▼                        │
      SKIPPED                    ├── permanent failure, attempts exhausted ──► FAILED
                                 ├── lease ended, at most once ─────────────► UNKNOWN
                                 └── reclaim: lease ended > 5 s ago ────────► RUNNING

      (none) ── due, triggered ──► RETRY_WAIT ── a worker's claim ──► RUNNING ── lease ended, released ──► RETRY_WAIT

      FAILED, UNKNOWN ── redrive: a new series of attempts ──► RETRY_WAIT
      (none), SKIPPED ── backfill: it runs after all ──► RETRY_WAIT
      UNKNOWN ── resolve: a person knows what happened ──► SUCCEEDED, FAILED

Runs for workers wait in RETRY_WAIT for each claim, the first one too. Every arrow is one conditional write, and every
arrow into RUNNING raises the epoch. A redrive or a backfill is asked for by a person; by itself nothing leaves a final
state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from schedkit.model.jobs import DEFAULT_TEAM, DEFAULT_TENANT, Job, Priority, TaskTarget, target_id_of, task_queue_of
from schedkit.model.keys import TimerKind, run_id, runs_listing, sortable, task_queue_line, timer_partition
from schedkit.model.time import SECOND_MS, Instant
from schedkit.model.writes import Item

MAX_KEPT_ATTEMPTS: Final = 120  # 100 attempts at most, plus reclaims; the oldest go first
MAX_RESULT_BYTES: Final = 4 * 1_024
MAX_PROGRESS_BYTES: Final = 4 * 1_024
REASON_CANCEL_REQUESTED: Final = "CANCEL_REQUESTED"  # why a run is CANCELLED that was at work when it was asked to stop
RECLAIM_MARGIN_MS: Final = 5 * SECOND_MS  # a lease has ended when it ended this long ago: 5 x the offset we alarm at


class RunStatus(StrEnum):
    RUNNING = "RUNNING"
    RETRY_WAIT = "RETRY_WAIT"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SUCCEEDED_AFTER_CANCEL = "SUCCEEDED_AFTER_CANCEL"
    SKIPPED = "SKIPPED"
    UNKNOWN = "UNKNOWN"

    @property
    def final(self) -> bool:
        return self not in (RunStatus.RUNNING, RunStatus.RETRY_WAIT)


class AttemptOutcome(StrEnum):
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    RELEASED = "RELEASED"  # its worker gave it back unfinished, for another one


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a run. `lag_ms` = start of the try - the time it was to start at; never negative."""

    attempt: int
    epoch: int
    started_at: Instant
    lag_ms: int
    finished_at: Instant | None = None
    outcome: AttemptOutcome | None = None
    http_status: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run as it stands in the store."""

    job_id: str
    scheduled_for: Instant
    status: RunStatus
    tenant_id: str = DEFAULT_TENANT
    team_id: str = DEFAULT_TEAM
    job_name: str | None = None
    target_id: str | None = None  # of the registered target it was made for
    task_queue: str | None = None  # the queue in which it waits for a worker
    task_type: str | None = None
    priority: Priority = Priority.DEFAULT
    due_at: Instant = 0  # scheduled_for + offset: the earliest start (W6)
    epoch: int = 0
    attempt: int = 0
    claim_token: str | None = None  # a refused claim that finds its own token has won (H2)
    lease_owner: str | None = None
    lease_expires_at: Instant | None = None
    not_before: Instant | None = None  # RETRY_WAIT: no claim before this (F1a)
    reclaims: int = 0  # how many holders were lost in a row; a run that keeps killing them ends
    cancel_requested: bool = False
    triggered: bool = False  # asked for by hand, outside the schedule
    backfilled: bool = False  # of the schedule's past, and asked for by hand after it had gone on
    payload: str | None = None  # triggered with a payload of its own
    attempts: tuple[Attempt, ...] = ()
    progress: str | None = None  # JSON: what its worker reported last, kept for the next one
    result: str | None = None
    reason: str | None = None  # why it was SKIPPED, CANCELLED, FAILED or UNKNOWN
    misfired: bool = False
    created_at: Instant = 0
    finished_at: Instant | None = None
    series: int = 1  # of attempts: each redrive begins another, and counts its attempts from 1
    redrive_id: str | None = None  # of the redrive or backfill that began this series; None where none, or for one run
    backfill_id: str | None = None  # of the backfill that had it run, whoever began a series of it later
    dropped_at: Instant | None = None  # a person gave it up: it is among the dead letters no more
    resolved_at: Instant | None = None  # it was UNKNOWN, and a person said what had happened
    note: str | None = None  # what that person wrote beside it

    @property
    def run_id(self) -> str:
        """Its name, and the idempotency key its target gets."""
        return run_id(self.job_id, self.scheduled_for)

    @property
    def never_called(self) -> bool:
        """It ended, and nothing was called for it: it was skipped, or given up before its call, each time it was held.

        One that was stopped on request had been called, or was in a worker's hands.
        """
        given_up = {attempt.outcome for attempt in self.attempts} <= {AttemptOutcome.CANCELLED}
        stopped = self.reason == REASON_CANCEL_REQUESTED or (self.cancel_requested and self.task_queue is not None)
        return self.status is RunStatus.SKIPPED or (self.status is RunStatus.CANCELLED and given_up and not stopped)


def new_run(job: Job, scheduled_for: Instant, due_at: Instant, status: RunStatus, now: Instant) -> Run:
    """The run of an occurrence of this job, before anything has happened to it; `due_at` is its earliest start."""
    return Run(
        job_id=job.job_id,
        scheduled_for=scheduled_for,
        status=status,
        tenant_id=job.tenant_id,
        team_id=job.team_id,
        job_name=job.name,
        target_id=target_id_of(job.target),
        task_queue=task_queue_of(job.target),
        task_type=job.target.task_type if isinstance(job.target, TaskTarget) else None,
        priority=job.priority,
        due_at=due_at,
        created_at=now,
    )


def payload_of(run: Run, job: Job) -> str | None:
    """What this run is about, as JSON text: its own payload where it was given one, otherwise its job's."""
    return run.payload if run.payload is not None else job.payload


def listing(run: Run) -> dict[str, Any]:
    """Where a run stands among its tenant's runs: by its time, from its first write on."""
    return {"listed_partition": runs_listing(run.tenant_id), "listed_at": sortable(run.scheduled_for)}


def waiting_timer(run: Run, shards: int, at: Instant) -> dict[str, Any]:
    """The timer of a run in RETRY_WAIT: for an executor's next call, or for the first worker that asks its queue."""
    kind = TimerKind.RETRY if run.task_queue is None else TimerKind.TASK
    return {
        "timer_partition": timer_partition(kind, run.job_id, shards),
        "timer_at": at,
        "task_line": _line(run, run.task_queue) if run.task_queue is not None else None,
    }


def _line(run: Run, task_queue: str) -> str:
    return task_queue_line(run.tenant_id, run.team_id, task_queue)


def run_attributes(run: Run) -> dict[str, Any]:
    """The run as item attributes: JSON values only; False and zero are kept."""
    attributes: dict[str, Any] = {name: getattr(run, name) for name in _FIELDS}
    attributes["status"] = run.status.value
    attributes["priority"] = run.priority.value
    attributes["attempts"] = [attempt_attributes(attempt) for attempt in run.attempts]
    return attributes


def attempt_attributes(attempt: Attempt) -> dict[str, Any]:
    """The attempt as JSON values; what it does not have yet is left out."""
    attributes = {name: value for name in _ATTEMPT_FIELDS if (value := getattr(attempt, name)) is not None}
    if attempt.outcome is not None:
        attributes["outcome"] = attempt.outcome.value
    return attributes


def attempt_of(attributes: Mapping[str, Any]) -> Attempt:
    outcome = attributes.get("outcome")
    return Attempt(**{**attributes, "outcome": AttemptOutcome(outcome) if outcome else None})


def run_of(item: Item) -> Run:
    """The run in a stored item."""
    values = {name: item[name] for name in _FIELDS if item.get(name) is not None}
    values["status"] = RunStatus(values["status"])
    values["priority"] = Priority(values.get("priority", Priority.DEFAULT))
    values["attempts"] = tuple(attempt_of(attempt) for attempt in values.get("attempts", ()))
    return Run(**values)


# Looked up once: a scheduler encodes and decodes runs several times for each of them.
_FIELDS: Final = tuple(spec.name for spec in fields(Run))
_ATTEMPT_FIELDS: Final = tuple(spec.name for spec in fields(Attempt))
