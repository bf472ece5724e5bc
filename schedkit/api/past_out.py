"""The shapes of ledgers and backfills, and of a job whose next occurrences were skipped, as they go out."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from schedkit.api.jobs_out import JobOut
from schedkit.api.shapes import Time, exact, word
from schedkit.model.redrives import Order, RedriveState


@exact
class SkippedOut(JobOut):
    """The job as it goes on, and the times that were skipped; or as it would, and those that would be."""

    skipped: list[Time]


@exact
class LedgerOut(TypedDict):
    job_id: str
    name: str | None
    since: Time
    until: Time
    known_from: Time
    expected: int
    ran: int
    late: int
    cancelled: int
    skipped: dict[str, int]
    missed: dict[str, int]
    waiting: int
    unaccounted: int
    unaccounted_times: list[Time]
    beside: int
    balanced: bool
    notes: list[str]


RangeOut = TypedDict("RangeOut", {"from": Time, "to": Time})  # `from` can be no name in a class


class AskedOut(RangeOut):
    """What a backfill is of: the occurrences of its range, how many of them are to run, how many are left, and why."""

    job_id: str
    job_name: str | None
    order: Annotated[str, word(Order)]
    one_by_one: bool
    max_per_second: int
    occurrences: int
    total: int
    left: dict[str, int]


@exact
class BackfillPlanOut(AskedOut):
    """What a backfill would do: what would be started, by what its records say. Notes say why the range is another."""

    starts: dict[str, int]
    seconds: int
    notes: list[str]


@exact
class BackfillOut(AskedOut):
    """A backfill: what was asked for, and how far it has come. At its end occurrences = started + left."""

    backfill_id: str
    tenant_id: str
    team_id: str
    state: Annotated[str, word(RedriveState)]
    state_reason: str | None
    started: int
    open: int
    succeeded: int
    failed: int
    cancelled: int
    owner: str | None
    note: str | None
    created_at: Time
    updated_at: Time
    finished_at: Time | None


@exact
class BackfillsOut(TypedDict):
    items: list[BackfillOut]
    next_cursor: str | None
