"""Short ways to write down items and writes."""

from __future__ import annotations

from typing import Any, Final

from schedkit.model.keys import TimerKind
from schedkit.model.timers import Timer
from schedkit.model.writes import Absent, Condition, Equals, Key, Write

A: Final = Key("P", "a")
B: Final = Key("P", "b")
C: Final = Key("Q", "c")


def put(key: Key, *conditions: Condition, **changes: Any) -> Write:
    return Write(key, "test", conditions, changes)


def create(key: Key, **changes: Any) -> Write:
    return put(key, Absent(), **changes)


def if_is(attribute: str, value: Any) -> Equals:
    return Equals(attribute, value)


def due(at: int | None, partition: str = "D#0") -> dict[str, Any]:
    return {"timer_partition": partition if at is not None else None, "timer_at": at}


def listed(place: str, partition: str = "LIST") -> dict[str, Any]:
    return {"listed_partition": partition, "listed_at": place}


def dead(place: str | None, partition: str = "DEAD") -> dict[str, Any]:
    return {"dead_partition": partition if place is not None else None, "dead_at": place}


def timer(at: int, key: Key, kind: TimerKind = TimerKind.DUE, task_queue: str | None = None) -> Timer:
    return Timer(at, key, kind, task_queue=task_queue)
