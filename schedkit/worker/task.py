"""The task as its function sees it, and the ways out of a function besides returning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from schedkit.model.spans import span_ms
from schedkit.model.time import SECOND_MS
from schedkit.worker.held import Held, Stop

Duration = float | str  # seconds, or text such as "90s", "3h", "1h30m"


class Retry(Exception):
    """Try this task again, after `after` at the earliest, as its job's retry policy allows."""

    def __init__(self, reason: str = "the worker asked for a retry", *, after: Duration = 0) -> None:
        super().__init__(reason)
        self.after_s = seconds(after)


class Fail(Exception):
    """This task cannot succeed: no retry, it becomes a dead letter."""


class TaskStopped(Exception):
    """Stop now, and write nothing more for this task."""


class Cancelled(TaskStopped):
    """Somebody asked for the run to be cancelled."""


class Superseded(TaskStopped):
    """The run is no longer this worker's: another one has it, or it has ended. What is returned is dropped."""


class TimedOut(TaskStopped):
    """The function took longer than it may."""


class Drained(TaskStopped):
    """The worker ends; another one gets the run."""


_RAISED: Final[Mapping[Stop, type[TaskStopped]]] = {
    Stop.CANCELLED: Cancelled,
    Stop.SUPERSEDED: Superseded,
    Stop.TIMED_OUT: TimedOut,
    Stop.STALLED: TimedOut,
    Stop.DRAINED: Drained,
}


@dataclass(slots=True)
class Task:
    """One task, for the function that does it. Its methods may be called from any thread."""

    _held: Held
    _monotonic: Callable[[], float]
    _is_async: bool = False
    _http: httpx.AsyncClient | httpx.Client | None = None

    @property
    def payload(self) -> Any:
        return self._held.doc["payload"]

    @property
    def idempotency_key(self) -> str:
        """The same at every attempt of this run, and of no other run: pass it on to whatever can take it."""
        return str(self._held.doc["idempotency_key"])

    @property
    def epoch(self) -> int:
        """The fencing token: it grows with every claim, so whoever keeps the highest can refuse a stale worker."""
        return self._held.epoch

    @property
    def attempt(self) -> int:
        return int(self._held.doc["attempt"])

    @property
    def run_id(self) -> str:
        return self._held.run_id

    @property
    def job_id(self) -> str:
        return str(self._held.doc["job_id"])

    @property
    def job_name(self) -> str | None:
        return self._held.doc["job_name"]  # type: ignore[no-any-return]

    @property
    def scheduled_for(self) -> str:
        """RFC 3339, UTC."""
        return str(self._held.doc["scheduled_for"])

    @property
    def deadline(self) -> str | None:
        """RFC 3339, UTC; None where the task may take as long as it lives."""
        return self._held.doc["deadline"]  # type: ignore[no-any-return]

    @property
    def previous_progress(self) -> dict[str, Any]:
        """What an earlier attempt reported last: where to go on."""
        return dict(self._held.doc["previous_progress"] or {})

    @property
    def stopping(self) -> bool:
        """Whether `check` would raise."""
        return self._held.stop is not None

    def check(self) -> None:
        """Say that the function lives. Raises Cancelled, Superseded, TimedOut or Drained when it is to stop."""
        self._held.seen_at = self._monotonic()
        if self._held.stop is not None:
            raise _RAISED[self._held.stop](f"{self.run_id}: {self._held.stop.lower()}")

    def progress(self, **done: Any) -> None:
        """Report how far the function has come; it rides on the next heartbeat. 4 KiB of JSON at most (ValueError)."""
        self._held.report({**(self._held.progress or {}), **done})
        self.check()

    @property
    def http(self) -> Any:
        """An HTTP client whose calls carry the key and the fencing token: async in a coroutine function."""
        if self._http is None:
            kind = httpx.AsyncClient if self._is_async else httpx.Client
            self._http = kind(headers={"Idempotency-Key": self.idempotency_key, "X-Fencing-Token": str(self.epoch)})
        return self._http

    def close(self) -> None:
        """Close the HTTP client of a function that blocks."""
        http, self._http = self._http, None
        if isinstance(http, httpx.Client):
            http.close()

    async def aclose(self) -> None:
        """Close the HTTP client of a coroutine function."""
        http, self._http = self._http, None
        if isinstance(http, httpx.AsyncClient):
            await http.aclose()


def seconds(duration: Duration) -> float:
    """Seconds of a number, or of text such as 500ms, 90s, 3h, 1h30m. Raises ValueError."""
    value = span_ms(duration) / SECOND_MS if isinstance(duration, str) else float(duration)
    if not 0 <= value < float("inf"):
        raise ValueError(f"{duration!r} is no duration")
    return value
