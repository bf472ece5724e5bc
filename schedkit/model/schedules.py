"""Schedules: when a job is due. One of three shapes, all frozen, all times in UTC milliseconds.

Once      one instant
Cron      a Unix cron expression, read on the wall clock of a named zone
Interval  anchor + k x every, in elapsed time: no zone, no clock change
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from schedkit.model.time import DAY_MS, Instant

MAX_EXPRESSION_CHARS: Final = 256
LONGEST_EVERY_MS: Final = 3_660 * DAY_MS  # ten years


class GapPolicy(StrEnum):
    """What an occurrence does whose wall time is missing, because clocks go forward over it (W3)."""

    FIRST_VALID = "FIRST_VALID"  # 02:30 runs at 03:00, the first instant after the jump
    SHIFT_FORWARD = "SHIFT_FORWARD"  # 02:30 runs at 03:30, as much later as the gap is long
    SKIP = "SKIP"


class RepeatPolicy(StrEnum):
    """Which of two equal wall times an occurrence takes, when clocks go back over it (W3)."""

    FIRST = "FIRST"
    SECOND = "SECOND"
    BOTH = "BOTH"


class DayRule(StrEnum):
    """How day-of-month and day-of-week combine when both are restricted (W1)."""

    OR = "OR"  # Vixie cron's
    AND = "AND"


@dataclass(frozen=True, slots=True)
class Once:
    """One instant. `run_at` is resolved UTC; `text`, `time_zone` and the policies keep what was asked for."""

    run_at: Instant
    text: str
    time_zone: str | None = None
    gap: GapPolicy = GapPolicy.FIRST_VALID
    repeat: RepeatPolicy = RepeatPolicy.FIRST


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a zone, within optional bounds: start_at <= occurrence < end_at (W15)."""

    expression: str
    time_zone: str = "UTC"
    gap: GapPolicy = GapPolicy.FIRST_VALID
    repeat: RepeatPolicy = RepeatPolicy.FIRST
    day_rule: DayRule = DayRule.OR
    start_at: Instant | None = None
    end_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """anchor_at + k * every_ms for whole k >= 0, within optional bounds: start_at <= occurrence < end_at."""

    every_ms: int
    anchor_at: Instant
    start_at: Instant | None = None
    end_at: Instant | None = None


Schedule = Once | Cron | Interval


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant at which a schedule is due.

    `local` is the wall time with its offset, `2026-11-01T01:30:00-04:00`; `notes` has a sentence for each clock
    change that moved this occurrence or makes it look odd (W5).
    """

    scheduled_for: Instant
    local: str
    notes: tuple[str, ...] = ()
