"""The dispatcher: moves timers whose time has come from the buckets to the queue of their priority (W10).

It sleeps until the next timer is due, not on a fixed tick, and never calls a target. After waking it looks at the
clock again: a sleep may end early, and nothing starts before its time (C2, H3).
"""

from __future__ import annotations

import logging
from typing import Final

from schedkit.errors import QueueUnavailable
from schedkit.ports import World

BATCH: Final = 1_000
LONGEST_SLEEP_MS: Final = 1_000  # a wall clock that was set forward is noticed within this
PAUSE_MS: Final = 250  # while buckets or queue are away

log = logging.getLogger(__name__)


class Dispatcher:
    def __init__(self, world: World) -> None:
        self._world = world

    async def poll(self) -> int:
        """Send what is due; a timer leaves its bucket only after the send. Returns how many."""
        world = self._world
        due = await world.buckets.due(world.clock.now(), BATCH)
        if due:
            await world.queue.send(due)
            await world.buckets.remove(due)
        return len(due)

    async def serve(self) -> None:
        while True:
            try:
                if not await self.poll():
                    await self._world.buckets.wait(self._world.clock.now(), LONGEST_SLEEP_MS)
            except QueueUnavailable as error:
                log.error("dispatching: %s", error)
                await self._world.clock.sleep(PAUSE_MS)
