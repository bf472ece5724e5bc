"""A task in hand, and the ways in which it can end before its function is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from schedkit.api import strict_json
from schedkit.errors import InvalidInput
from schedkit.model.runs import MAX_PROGRESS_BYTES

Doc = Mapping[str, Any]  # a JSON object, its fields named as in the HTTP API


class Stop(StrEnum):
    """Why a task is to stop."""

    SUPERSEDED = "SUPERSEDED"  # another worker has the run, or it has ended: nothing more may be written for it
    CANCELLED = "CANCELLED"  # its cancellation was asked for
    TIMED_OUT = "TIMED_OUT"  # it is not done in the time it was given
    STALLED = "STALLED"  # it has not been heard of for too long
    DRAINED = "DRAINED"  # its worker ends; the run goes to another one


@dataclass(frozen=True, slots=True)
class Done:
    """The function returned; `result` is JSON, of which the scheduler keeps 4 KiB."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The function did not do it."""

    error: str
    retryable: bool = True
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The function stopped when it was told to."""


Outcome = Done | Failure | Stopped


@dataclass(slots=True, eq=False)
class Held:
    """One task, as its worker's threads see it. Times are of the worker's monotonic clock, in seconds."""

    doc: Doc
    began_at: float
    beat_at: float  # when its next heartbeat is due
    seen_at: float  # when its function last said that it lives
    stop: Stop | None = None
    progress: Any = None
    unsent: bool = False  # progress that no heartbeat has carried yet
    released: bool = False
    stopped: asyncio.Event = field(default_factory=asyncio.Event)  # set in the courier's loop
    on_stop: Callable[[Stop], None] | None = None

    @property
    def run_id(self) -> str:
        return str(self.doc["run_id"])

    @property
    def epoch(self) -> int:
        return int(self.doc["epoch"])

    @property
    def every_s(self) -> float:
        return float(self.doc["heartbeat_every_seconds"])

    def end(self, why: Stop) -> None:
        """Tell the function to stop. The first reason stands, but for one: what is superseded is over."""
        if self.stop is not None and why is not Stop.SUPERSEDED:
            return
        self.stop = why
        self.stopped.set()
        if self.on_stop is not None:
            self.on_stop(why)

    def report(self, progress: Any) -> None:
        """Let the next heartbeat carry this. Raises ValueError where no scheduler would take it."""
        sendable(progress, MAX_PROGRESS_BYTES)
        self.progress = progress
        self.unsent = True


def sendable(value: Any, most_bytes: int | None = None) -> None:
    """Raise ValueError where a scheduler would refuse the value: no JSON, no exact JSON, too long."""
    try:
        text = strict_json.dumps(value).encode()
        strict_json.loads(text)
    except (TypeError, ValueError, RecursionError, InvalidInput) as error:
        raise ValueError(f"it is no JSON that can be sent: {error}") from error
    if most_bytes is not None and len(text) > most_bytes:
        raise ValueError(f"it has {len(text):,} bytes as JSON; {most_bytes:,} at most")
