"""Timers: the one next thing each waiting item waits for, as the timer index, the buckets and the queues carry it."""

from __future__ import annotations

from dataclasses import dataclass

from schedkit.model.jobs import Priority
from schedkit.model.keys import TimerKind
from schedkit.model.time import Instant
from schedkit.model.writes import Item, Key


@dataclass(frozen=True, slots=True)
class Timer:
    """`key` is to be looked at when `at` comes. A hint: the conditional write decides what is true."""

    at: Instant
    key: Key
    kind: TimerKind
    priority: Priority = Priority.DEFAULT

    @property
    def order(self) -> tuple[Instant, Key]:
        return self.at, self.key


def timer_of(key: Key, item: Item) -> Timer | None:
    """The next timer of an item, or None where it waits for nothing."""
    partition = item.get("timer_partition")
    if partition is None:
        return None
    kind = TimerKind(partition.partition("#")[0])
    return Timer(item["timer_at"], key, kind, Priority(item.get("priority", Priority.DEFAULT)))
