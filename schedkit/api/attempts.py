"""Failed tries to get in, counted for each address: who fails too often is told to wait, and costs no more than that.

Only those who fail are held back. A right key opens whatever its address has done, since many callers may share one
(a proxy's), and 256 bits are not guessed however often one tries.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from schedkit.model.time import MINUTE_MS, SECOND_MS, Instant

ALLOWED: Final = 10  # in a window: a person who mistypes, or a program that is being set up
WINDOW_MS: Final = MINUTE_MS
REMEMBERED: Final = 4_096  # addresses; the one that failed longest ago is forgotten first


class Attempts:
    """Failures by address, in memory: each process counts for itself."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[Instant, int]] = OrderedDict()

    def failed(self, address: str, now: Instant) -> int | None:
        """Count a failure. Returns for how many seconds this address is to wait; None where it may try again."""
        since, times = self._failed.pop(address, (now, 0))
        if not since <= now < since + WINDOW_MS:
            since, times = now, 0
        self._failed[address] = since, times + 1
        if len(self._failed) > REMEMBERED:
            self._failed.popitem(last=False)
        return None if times < ALLOWED else -(-(since + WINDOW_MS - now) // SECOND_MS)
