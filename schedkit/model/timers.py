"""Timers: the one next thing each waiting item waits for, as the timer index, the buckets and the queues carry it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
    task_queue: str | None = None  # TASK: the tenant's queue in which it waits for a worker

    @property
    def carried(self) -> bool:
        """It goes through buckets and queues; a worker's lease is looked at by the reaper, in the store."""
        return self.kind is not TimerKind.HELD

    @property
    def order(self) -> tuple[Instant, Key]:
        return self.at, self.key


def timer_of(key: Key, item: Item) -> Timer | None:
    """The next timer of an item, or None where it waits for nothing."""
    partition = item.get("timer_partition")
    if partition is None:
        return None
    kind = TimerKind(partition.partition("#")[0])
    line = item.get("task_line") if kind is TimerKind.TASK else None
    return Timer(item["timer_at"], key, kind, priority_of(item.get("priority")), line)


def priority_of(text: str | None) -> Priority:
    """The priority that an item names. One that this version does not know must not stop the others: it is DEFAULT."""
    return Priority(text) if text in _PRIORITIES else Priority.DEFAULT


_PRIORITIES: Final = frozenset(Priority)
