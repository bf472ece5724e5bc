"""The feed: the last events of this process, for those who follow it. Nobody who follows holds it up.

    writes that landed ─┐
                        ├─► a ring of the last events ◄── each reader asks for what comes after its last one
    warnings in the log ┘

A reader keeps a number and nothing else, so a slow one costs no memory: what it did not fetch in time is gone, and it
is told how many there were. Events have numbers from 1 on; `boot` tells this process's numbers from those of another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from schedkit.engine.telling import event_of
from schedkit.model.events import Event, EventKind
from schedkit.model.time import Instant
from schedkit.model.writes import Item, Write
from schedkit.ports import Clock

KEPT: Final = 10_000  # some megabytes, and about ten seconds of the busiest scheduler
LONGEST_TEXT: Final = 500


class Feed:
    """Hears, numbers and keeps. Used from one event loop."""

    def __init__(self, clock: Clock, boot: str, kept: int = KEPT) -> None:
        self.boot = boot
        self.last = 0
        self.closed = False
        self._clock = clock
        self._ring: list[Event | None] = [None] * kept
        self._news = asyncio.Event()

    def heard(self, writes: Sequence[Write], items: Sequence[Item]) -> None:
        """These writes have landed; the items are as they stand after them."""
        now = self._clock.now()
        for write, item in zip(writes, items, strict=True):
            if (event := event_of(write, item, now)) is not None:
                self.add(event)

    def add(self, event: Event) -> None:
        """One more event; the oldest one goes."""
        self.last += 1
        self._ring[self.last % len(self._ring)] = event
        self._tell()

    def after(self, number: int, limit: int) -> tuple[int, list[tuple[int, Event]]]:
        """(how many after this number are lost, up to `limit` of those that are not)."""
        oldest = max(1, self.last - len(self._ring) + 1)
        first = max(number + 1, oldest)
        found = [(at, self._ring[at % len(self._ring)]) for at in range(first, min(self.last, first + limit - 1) + 1)]
        return first - number - 1, [(at, event) for at, event in found if event is not None]

    def since(self, at: Instant) -> int:
        """The number after which the events of this time and later come."""
        number = self.last
        while number > max(0, self.last - len(self._ring)):
            event = self._ring[number % len(self._ring)]
            if event is None or event.at < at:
                break
            number -= 1
        return number

    async def wait(self, number: int, at_most_s: float) -> None:
        """Return when there is something after this number, when the feed is closed, or after a while."""
        if self.last > number or self.closed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._news.wait()

    def close(self) -> None:
        """Whoever reads comes to the end: the process is about to stop."""
        self.closed = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Alerts(logging.Handler):
    """Warnings of the log as events. What it is given may come from any thread."""

    def __init__(self, feed: Feed, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self._feed, self._clock = feed, clock
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()[:LONGEST_TEXT]
        place = record.name.rpartition(".")[2]
        event = Event(EventKind.ALERT, record.levelname, self._clock.now(), place, facts={"text": text})
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._feed.add, event)
