"""What the checker finds: single violations, and all of them with the figures of the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schedkit.model.time import Instant


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not happen, and did. `key` is a run id or a job id, `check` a short name that stays."""

    invariant: str
    check: str
    t: Instant
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every violation by time (the first of each check only, the rest is counted), and what the history amounts to."""

    violations: tuple[Violation, ...]
    figures: dict[str, Any]
