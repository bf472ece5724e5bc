"""Redrives: one request to start dead letters again, kept as an item, so that it survives whoever carries it out.

A backfill is one too: of occurrences of a job's past instead of dead letters, and without a canary.

PLANNED ──► CANARY ──► WAITING ──continue──► RUNNING ──► DONE
   │           └ one of the first failed ─► STOPPED
   └── without a canary ──────────────────────► RUNNING
PLANNED, CANARY, WAITING, RUNNING ──pause──► PAUSED ──resume──► as before
whatever has not ended ──stop──► STOPPED        … ──a bug──► FAILED
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from schedkit.model.runs import Run, RunStatus
from schedkit.model.time import Instant
from schedkit.model.writes import Item

MAX_PER_SECOND: Final = 10_000
DEFAULT_PER_SECOND: Final = 50
MAX_CANARY: Final = 100
MAX_NAMED_RUNS: Final = 500
MAX_BACKFILLED: Final = 10_000  # occurrences in the range of one backfill
MAX_OPEN: Final = 500  # runs of one redrive that have not ended: where they pile up, nothing is added


class RedriveState(StrEnum):
    PLANNED = "PLANNED"
    CANARY = "CANARY"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    DONE = "DONE"
    FAILED = "FAILED"

    @property
    def ended(self) -> bool:
        return self in (RedriveState.STOPPED, RedriveState.DONE, RedriveState.FAILED)

    @property
    def driven(self) -> bool:
        """A process has something to do for it."""
        return self in (RedriveState.PLANNED, RedriveState.CANARY, RedriveState.RUNNING)


class StopReason(StrEnum):
    """Why a redrive ended before it was done."""

    CANARY_FAILED = "CANARY_FAILED"
    STOPPED_BY_HAND = "STOPPED_BY_HAND"
    REDRIVE_BROKE = "REDRIVE_BROKE"


class Unfit(StrEnum):
    """Why a dead letter that a filter names is left where it is."""

    JOB_CANCELLED = "JOB_CANCELLED"  # a run of it would be cancelled, and the dead letter lost
    JOB_PAUSED = "JOB_PAUSED"  # likewise; resume the job first
    JOB_GONE = "JOB_GONE"  # forgotten 30 days after its end: nobody knows what to call
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"  # at most once: only where calling it again was asked for
    CHANGED = "CHANGED"  # somebody redrove, dropped or resolved it since it was listed, or gave its job other times

    # of the occurrences of a backfill
    RAN_ALREADY = "RAN_ALREADY"  # under this time and key, to a good end
    CANCELLED_ALREADY = "CANCELLED_ALREADY"  # it had been called, and somebody stopped it
    FAILED_ALREADY = "FAILED_ALREADY"  # it is or was a dead letter: that is what a redrive is for
    UNDER_WAY = "UNDER_WAY"  # it runs, or waits to
    TOO_OLD = "TOO_OLD"  # whether it ran is not known any more


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters: those that are all of what is given. Times are of the failure, both ends included.

    `team_id` is not asked for: it is the team of who asks, None for an admin, whose filter is of the whole tenant.
    """

    target_id: str | None = None
    job_id: str | None = None
    reason: str | None = None
    failed_after: Instant | None = None
    failed_before: Instant | None = None
    run_ids: tuple[str, ...] = ()
    team_id: str | None = None

    def keeps(self, run: Run) -> bool:
        failed_at = run.finished_at or 0
        return (
            (self.target_id is None or run.target_id == self.target_id)
            and (self.job_id is None or run.job_id == self.job_id)
            and (self.reason is None or run.reason == self.reason)
            and (self.failed_after is None or failed_at >= self.failed_after)
            and (self.failed_before is None or failed_at <= self.failed_before)
            and (not self.run_ids or run.run_id in self.run_ids)
            and self.team_id in (None, run.team_id)
        )


class Order(StrEnum):
    """Which of the occurrences of a backfill come first."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class PastRange:
    """Which occurrences: those of a job with since <= time < until. `team_id` is the job's.

    They are the occurrences of the schedule that the job had as this was asked for: `known_since` is that schedule's.
    """

    job_id: str
    since: Instant
    until: Instant
    team_id: str
    order: Order = Order.OLDEST
    one_by_one: bool = False  # the job's runs may not overlap
    occurrences: int = 0  # how many these were as this was asked for
    known_since: Instant | None = None


@dataclass(frozen=True, slots=True)
class Redrive:
    """One redrive as it stands in the store. `version` is raised by every write; `epoch` by every holder."""

    redrive_id: str
    tenant_id: str
    created_at: Instant  # what died after it is another redrive's
    updated_at: Instant
    filter: DeadFilter | PastRange
    max_per_second: int = DEFAULT_PER_SECOND
    canary: int = 0  # the first so many, then ask
    goes_on: bool = False  # after a good canary by itself
    include_unknown: bool = False
    limit: int | None = None
    total: int = 0  # what the filter found to start as it was planned
    state: RedriveState = RedriveState.PLANNED
    state_reason: str | None = None
    paused_from: RedriveState | None = None
    note: str | None = None
    version: int = 1

    # Who carries it out.
    epoch: int = 0
    owner: str | None = None
    lease_expires_at: Instant | None = None

    # How far it has come.
    cursor: str | None = None  # in the list of dead letters, oldest first; of a backfill the time it has come to
    walked: bool = False  # to the end of the list, or to the limit
    redriven: int = 0
    succeeded: int = 0
    failed: int = 0  # a dead letter again
    cancelled: int = 0  # … or otherwise ended without success
    skipped: Mapping[str, int] = field(default_factory=dict)  # by Unfit
    first: tuple[str, ...] = ()  # ids of the canary's runs
    open: tuple[str, ...] = ()  # ids of redriven runs that have not ended, in the order of their release
    finished_at: Instant | None = None


def redrive_attributes(redrive: Redrive) -> dict[str, Any]:
    """The redrive as item attributes: JSON values only."""
    attributes = {name: getattr(redrive, name) for name in _FIELDS}
    attributes["filter"] = {name: value for name, value in asdict(redrive.filter).items() if value not in (None, ())}
    match redrive.filter:
        case DeadFilter(run_ids=run_ids):
            attributes["filter"]["run_ids"] = list(run_ids)
        case PastRange(order=order):
            attributes["filter"]["order"] = order.value
    attributes["state"] = redrive.state.value
    attributes["paused_from"] = redrive.paused_from.value if redrive.paused_from is not None else None
    attributes["skipped"] = dict(redrive.skipped)
    attributes["first"] = list(redrive.first)
    attributes["open"] = list(redrive.open)
    return attributes


def redrive_of(item: Item) -> Redrive:
    """The redrive in a stored item."""
    values = {name: item[name] for name in _FIELDS if item.get(name) is not None}
    values["filter"] = _filter_of(values["filter"])
    values["first"], values["open"] = tuple(values["first"]), tuple(values["open"])
    values["state"] = RedriveState(values["state"])
    if "paused_from" in values:
        values["paused_from"] = RedriveState(values["paused_from"])
    return Redrive(**values)


def _filter_of(said: Mapping[str, Any]) -> DeadFilter | PastRange:
    if "since" in said:
        return PastRange(**{**said, "order": Order(said["order"])})
    return DeadFilter(**{**said, "run_ids": tuple(said["run_ids"])})


DEAD_STATUSES: Final = (RunStatus.FAILED, RunStatus.UNKNOWN)

_FIELDS: Final = tuple(spec.name for spec in fields(Redrive))
