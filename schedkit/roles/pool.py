"""A pool: takes the messages of one priority, runs up to `slots` handles at once, and never waits for another pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

from schedkit.errors import QueueUnavailable, StoreUnavailable
from schedkit.model.jobs import Priority
from schedkit.model.timers import Timer
from schedkit.ports import World

DEFAULT_SLOTS: Final = 500  # F5: calls in flight of one executor
STORE_PAUSE_MS: Final = 1_000
QUEUE_PAUSE_MS: Final = 250
BUG_PAUSE_MS: Final = 30_000  # a message whose handling raises is looked at again, but not in a tight loop

log = logging.getLogger(__name__)


class Pool:
    def __init__(
        self,
        world: World,
        priority: Priority,
        handle: Callable[[Timer], Awaitable[int | None]],
        slots: int = DEFAULT_SLOTS,
    ) -> None:
        """`handle` does what a message asks for, or says in how many ms it should come again."""
        self._world = world
        self._priority = priority
        self._handle = handle
        self._slots = slots
        self._received = count()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._freed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        return len(self._tasks)

    @property
    def slots(self) -> int:
        return self._slots

    async def serve(self) -> None:
        """Receive for ever; cancel this to stop receiving, then `drain`."""
        while True:
            while (free := self._slots - len(self._tasks)) <= 0:
                self._freed.clear()
                await self._freed.wait()
            for timer in await self._received_up_to(free):
                self._idle.clear()
                number = next(self._received)
                self._tasks[number] = asyncio.create_task(self._work(number, timer))

    async def _received_up_to(self, free: int) -> tuple[Timer, ...]:
        try:
            return await self._world.queue.receive(self._priority, free)
        except QueueUnavailable as error:
            log.error("receiving: %s", error)
            await self._world.clock.sleep(QUEUE_PAUSE_MS)
            return ()

    async def drain(self, grace_ms: int) -> int:
        """Let what is in flight end within the grace, then stop it; returns how many had to be stopped (F10)."""
        try:
            async with asyncio.timeout(grace_ms / 1_000):
                await self._idle.wait()
        except TimeoutError:
            left = list(self._tasks.values())
            for task in left:
                task.cancel()
            await self._idle.wait()
            return len(left)
        return 0

    async def _work(self, number: int, timer: Timer) -> None:
        try:
            await self._handled(timer)
        except QueueUnavailable as error:  # the message comes again by itself, and what is done is seen to be done
            log.error("%s: %s", timer.key.partition, error)
        finally:
            del self._tasks[number]
            self._freed.set()
            if not self._tasks:
                self._idle.set()

    async def _handled(self, timer: Timer) -> None:
        queue = self._world.queue
        try:
            wait_ms = await self._handle(timer)
        except StoreUnavailable as error:
            log.error("%s: %s", timer.key.partition, error)
            await queue.again(timer, STORE_PAUSE_MS)
        except Exception:
            log.exception("handling %s %s failed; it will be tried again", timer.kind, timer.key)
            await queue.again(timer, BUG_PAUSE_MS)
        else:
            await (queue.done(timer) if wait_ms is None else queue.again(timer, wait_ms))
