"""The pace of a redrive: how many runs may be released at once, and how long to wait before the next ones.

One who paces does two things. Before each batch it waits for `gap_ms`, counted from the moment at which it heard that
the last batch had landed; a clock that is set, or a process that stands still, can only make that longer. And it does
not release while more than `unstarted` of what it released wait to be started: what piles up before executors that
stand still would all be called at once when they go on.

    releases in a sliding second <= per_second     starts in a sliding second <= per_second + 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schedkit.model.redrives import MAX_PER_SECOND
from schedkit.model.time import SECOND_MS

MAX_BATCH: Final = 40  # releases in one write: with their jobs and the redrive itself, what one transaction may hold
BATCHES_PER_SECOND: Final = 50  # more, smaller batches would only cost more writes
UNSTARTED_MS: Final = 100  # of releases may wait to be started: what a queue takes to carry them
EARLY_MS: Final = 1  # event loops wake up to this much too early (uvloop does)


@dataclass(frozen=True, slots=True)
class Pace:
    """`batch` runs at most, after `gap_ms`, while at most `unstarted` would wait."""

    batch: int
    gap_ms: int
    unstarted: int

    @property
    def per_second(self) -> float:
        """How many it comes to, where nothing else takes time."""
        return self.batch * SECOND_MS / self.gap_ms


def pace_of(per_second: int) -> Pace:
    """The pace that keeps this cap.

    The runs started within a second waited at its beginning or were released in it, so both together are to be at most
    one more than the cap. What is released in it are `batches` batches, since one more needs `batches` gaps.
    """
    assert 1 <= per_second <= MAX_PER_SECOND, "refused at the door"
    unstarted = max(1, per_second * UNSTARTED_MS // SECOND_MS)
    batch = min(unstarted, MAX_BATCH, max(1, per_second // BATCHES_PER_SECOND))
    batches = (per_second + 1 - unstarted) // batch
    return Pace(batch, -(-SECOND_MS // batches) + EARLY_MS, unstarted)
