"""The loader: copies near timers from the store into the buckets, and sweeps up what was left behind.

    store: timers by partition ── load: the next `horizon` ──► buckets
                               ── sweep: due 1, 2, 4, 8 … minutes ago and still there ──► queue   (W11)

Losing every bucket costs lateness only: a mark among the timers is gone with them, and then everything is loaded again.
What else was lost on its way is swept up, at ages that double up to a day.
"""

from __future__ import annotations

import logging
from typing import Final

from schedkit.errors import QueueUnavailable, StoreUnavailable
from schedkit.model.keys import TimerKind
from schedkit.model.time import DAY_MS, MINUTE_MS, Instant
from schedkit.model.timers import Timer
from schedkit.ports import World

PAGE: Final = 1_000
PASSES_PER_HORIZON: Final = 4  # a pass that fails can be made up for before its timers are due
STORE_PAUSE_MS: Final = 1_000
MARK_LOOKED_AT_MS: Final = 10_000  # I13: everything is back 45 s after a total loss, the load itself included
SWEEP_AGES_MS: Final = tuple(MINUTE_MS << doublings for doublings in range(11) if MINUTE_MS << doublings <= DAY_MS)

CARRIED: Final = tuple(kind for kind in TimerKind if kind is not TimerKind.HELD)  # the reaper looks at those itself

log = logging.getLogger(__name__)


class Loader:
    """One loader for all shards of its world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loaded_until: Instant = 0  # everything that was due before is loaded too, so a start is a recovery
        self._swept_at: Instant = world.clock.now()

    async def poll(self) -> int:
        """Copy the timers that came near since the last pass, or all where the buckets were lost; returns how many."""
        world = self._world
        if not await world.buckets.marked():
            self._loaded_until = 0
            await world.buckets.mark()  # before the load: should they be lost during it, that will be seen
        now = world.clock.now()
        until = now + world.horizon_ms
        since = min(now, self._loaded_until)  # a clock that was set back leaves no gap: what is there twice counts once
        loaded = 0
        for partition in self._partitions():
            last: Timer | None = None
            while page := await world.store.timers(partition, since=since, until=until, limit=PAGE, after=last):
                await world.buckets.add(page)
                loaded += len(page)
                last = page[-1]
                await world.clock.sleep(0)  # others have their turn between two pages
        self._loaded_until = until
        return loaded

    async def sweep(self) -> int:
        """Send again what is still due one minute, two, four … after its time; returns how many (stragglers).

        The first of these ages reaches back to the last sweep that succeeded: one that came late or failed half way
        leaves no gap.
        """
        world = self._world
        now = world.clock.now()
        found = 0
        for partition in self._partitions():
            for age_ms in SWEEP_AGES_MS:
                last: Timer | None = None
                since = now - age_ms - MINUTE_MS
                if age_ms == SWEEP_AGES_MS[0]:
                    since = min(since, self._swept_at - age_ms)
                while page := await world.store.timers(
                    partition, since=max(0, since), until=now - age_ms, limit=PAGE, after=last
                ):
                    await world.queue.send(page)
                    found += sum(timer.kind is not TimerKind.TASK for timer in page)  # a task may wait for its worker
                    last = page[-1]
        self._swept_at = now
        return found

    async def serve(self) -> None:
        """Load and sweep for ever."""
        world = self._world
        while True:
            try:
                await self.poll()
                due = abs(world.clock.now() - self._swept_at) >= MINUTE_MS
                if due and (found := await self.sweep()):
                    log.warning("%d timers were found after their time and sent again", found)
            except (StoreUnavailable, QueueUnavailable) as error:
                log.error("loading timers: %s", error)
                await world.clock.sleep(STORE_PAUSE_MS)
                continue
            await self._rest(min(world.horizon_ms // PASSES_PER_HORIZON, MINUTE_MS))

    async def _rest(self, rest_ms: int) -> None:
        """Until the next pass, or until the buckets are seen to be lost."""
        world = self._world
        while rest_ms > 0:
            step_ms = min(rest_ms, MARK_LOOKED_AT_MS)
            await world.clock.sleep(step_ms)
            rest_ms -= step_ms
            try:
                if not await world.buckets.marked():
                    return
            except QueueUnavailable:
                continue

    def _partitions(self) -> list[str]:
        return [f"{kind}#{shard}" for kind in CARRIED for shard in range(self._world.shards)]
