"""Retention: forgets what ended long ago, a little at a time, so that a store does not grow for ever.

Runs that ended, and jobs that ended, are kept for 30 days (see `kept_until`); a store with a TTL of its own does this
by itself and expires nothing here.
"""

from __future__ import annotations

import logging
from typing import Final

from schedkit.errors import StoreUnavailable
from schedkit.model.time import MINUTE_MS
from schedkit.ports import World

BATCH: Final = 1_000  # deletes in one transaction: a few ms, so that nobody waits behind it
PASS_EVERY_MS: Final = 10 * MINUTE_MS

log = logging.getLogger(__name__)


class Retention:
    def __init__(self, world: World) -> None:
        self._world = world

    async def poll(self) -> int:
        """Forget one batch; returns how many items it had."""
        return await self._world.store.expire(self._world.clock.now(), BATCH)

    async def serve(self) -> None:
        while True:
            try:
                while await self.poll() == BATCH:
                    pass
            except StoreUnavailable as error:
                log.error("forgetting old runs: %s", error)
            await self._world.clock.sleep(PASS_EVERY_MS)
