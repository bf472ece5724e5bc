"""What becomes of a run whose holder let its lease end.

lease not ended, or by less than the margin   Wait
at most once                                  Unknown: it may have been called, so it is never called again (C7)
the 10th holder lost in a row                 Dead: a run that keeps killing its executor stops (F7)
otherwise                                     Reclaim, under the next epoch
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schedkit.model.calls import Dead, Unknown
from schedkit.model.jobs import Delivery
from schedkit.model.runs import RECLAIM_MARGIN_MS, Run
from schedkit.model.time import Instant

MAX_RECLAIMS: Final = 9  # with the first claim: ten holders, as a queue's receive count would allow
REASON_POISON: Final = "POISON"


@dataclass(frozen=True, slots=True)
class Wait:
    """The lease may be alive: look again then."""

    until: Instant


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Another holder may take it."""


def reap(run: Run, delivery: Delivery, now: Instant) -> Wait | Reclaim | Unknown | Dead:
    """Decide by our own clock; a lease has ended when it ended strictly more than the margin ago."""
    assert run.lease_expires_at is not None, "a running run has a lease"
    first_chance = run.lease_expires_at + RECLAIM_MARGIN_MS + 1
    if now < first_chance:
        return Wait(first_chance)
    if delivery is Delivery.AT_MOST_ONCE:
        return Unknown("its executor was lost after the run had started; whether the target did it cannot be known")
    if run.reclaims >= MAX_RECLAIMS:
        return Dead(f"{run.reclaims + 1} executors in a row were lost while they held it", REASON_POISON)
    return Reclaim()
