"""The clock watch: notices when the wall clock was set, and says what it means.

Nothing has to be done: timers are compared with the wall clock each time, so a clock that jumps back only makes jobs
wait until their time comes again (never early), and occurrences that ran are not due a second time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from schedkit.model.time import SECOND_MS
from schedkit.ports import World

LOOK_EVERY_MS: Final = 1_000
JUMP_MS: Final = 1_000  # H3: an offset above a second is worth an alarm

log = logging.getLogger(__name__)


class ClockWatch:
    def __init__(self, world: World) -> None:
        self._world = world
        self._seen = self._pair()
        self.last_jump_ms = 0

    def look(self) -> int:
        """How far the wall clock moved beyond the time that passed since the last look, in ms."""
        wall, steady = self._pair()
        jump_ms = (wall - self._seen[0]) - (steady - self._seen[1])
        self._seen = wall, steady
        if jump_ms <= -JUMP_MS:
            log.warning(
                "the clock was set back by %.1f s: jobs wait until their time comes again", -jump_ms / SECOND_MS
            )
        elif jump_ms >= JUMP_MS:
            log.warning("the clock was set forward by %.1f s: what became due starts now", jump_ms / SECOND_MS)
        if abs(jump_ms) >= JUMP_MS:
            self.last_jump_ms = jump_ms
        return jump_ms

    async def serve(self) -> None:
        while True:
            await self._world.clock.sleep(LOOK_EVERY_MS)
            self.look()

    def _pair(self) -> tuple[int, int]:
        return self._world.clock.now(), round(asyncio.get_running_loop().time() * SECOND_MS)
