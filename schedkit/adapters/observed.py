"""A store that lets somebody hear of every write that landed: after it is on disk, and before its caller goes on.

Who listens must be quick, and must not fail: the write has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedkit.model.writes import Applied, Item, Outcome, Write
from schedkit.ports import Store

Heard = Callable[[Sequence[Write], Sequence[Item]], None]


class ObservedStore:
    """A `Store`; what it does not listen to goes straight to the one inside."""

    def __init__(self, inner: Store, heard: Heard) -> None:
        self.inner: Any = inner
        self._heard = heard
        self.get = inner.get
        self.timers = inner.timers
        self.page = inner.page
        self.expire = inner.expire

    async def apply(self, write: Write) -> Outcome:
        outcome = await self.inner.apply(write)
        return self._told((write,), outcome)

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        outcome = await self.inner.apply_all(writes)
        return self._told(writes, outcome)

    def _told(self, writes: Sequence[Write], outcome: Outcome) -> Outcome:
        if isinstance(outcome, Applied):
            self._heard(writes, outcome.items)
        return outcome
