"""The worker SDK: Python functions that do the runs of a task queue.

    from schedkit.worker import Worker, Task, Retry, Fail

    w = Worker("ledger-rebuild")

    @w.task(concurrency=4, timeout="3h")
    def rebuild(task: Task, ledger: str) -> dict:       # the payload's keys become checked arguments
        done = task.previous_progress.get("rows", 0)    # an attempt goes on where the one before had come to
        for batch in read_rows(ledger, after=done):
            task.check()                                # raises Cancelled or Superseded: stop, write nothing more
            write(batch, key=task.idempotency_key, fence=task.epoch)
            done += len(batch)
            task.progress(rows=done)                    # rides on the next heartbeat
        return {"rows": done}

    if __name__ == "__main__":
        w.run()                                         # or: schedkit worker run module:w

Heartbeats come from a thread of their own, so neither a function that blocks nor a busy event loop loses its lease.
Functions run in threads, coroutine functions on the event loop of the thread that called `run`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from schedkit.client import AsyncClient
from schedkit.client.connection import DEFAULT_URL, Token
from schedkit.worker.calling import Calling
from schedkit.worker.courier import PATIENCE_S, Limits, Told
from schedkit.worker.functions import Function, function_of
from schedkit.worker.station import Station, end_on_signals
from schedkit.worker.task import (
    Cancelled,
    Drained,
    Duration,
    Fail,
    Retry,
    Superseded,
    Task,
    TaskStopped,
    TimedOut,
    seconds,
)

__all__ = ["Cancelled", "Drained", "Fail", "Retry", "Superseded", "Task", "TaskStopped", "TimedOut", "Worker"]

DEFAULT_CONCURRENCY: Final = 10
DEFAULT_DRAIN: Final = "30s"
WORKER_ID_BYTES: Final = 3

Fn = TypeVar("Fn", bound=Callable[..., Any])


class Worker:
    """The functions for one task queue, and what runs them.

    `concurrency` is how many tasks it has in hand at most. `url` and `token` are those of `schedkit.client.Client`;
    without them SCHEDKIT_URL and the file that SCHEDKIT_TOKEN_FILE names are used. When it is told to end it takes no
    more tasks, waits up to `drain_timeout` for those in hand, and gives the rest back.
    """

    def __init__(
        self,
        queue: str,
        *,
        url: str | None = None,
        token: Token = None,
        worker_id: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        drain_timeout: Duration = DEFAULT_DRAIN,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"a worker has room for 1 task at least, not for {concurrency}")
        self.queue = queue
        self.url = url
        self.token = token
        self.worker_id = worker_id or default_worker_id()
        self.concurrency = concurrency
        self.drain_timeout_s = seconds(drain_timeout)
        self.functions: dict[str, Function] = {}

    @overload
    def task(self, name: Fn) -> Fn: ...

    @overload
    def task(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        stall_after: Duration | None = None,
    ) -> Callable[[Fn], Fn]: ...

    def task(
        self,
        name: Any = None,
        *,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        stall_after: Duration | None = None,
    ) -> Any:
        """Make a function do the tasks of a type: `name`, or the function's own name.

        `concurrency`: so many of them at once at most. `timeout`: how long one may take. `stall_after`: it has failed
        when it has not called `check` or `progress` for this long. The function itself stays as it is.
        Raises TypeError for a signature that cannot be called, ValueError for a name that is taken.
        """

        def register(call: Fn) -> Fn:
            limits = Limits(
                seconds(timeout) if timeout is not None else None,
                seconds(stall_after) if stall_after is not None else None,
            )
            known = name if isinstance(name, str) else call.__name__
            if known in self.functions:
                raise ValueError(f"{self.queue} has a function for {known!r} already")
            self.functions[known] = function_of(call, known, limits, concurrency)
            return call

        return register(name) if callable(name) else register

    def run(self, *, told: Told | None = None) -> None:
        """Work until SIGTERM or SIGINT; a second one ends at once. Call it from the main thread.

        `told` hears what happens, from the courier's thread. Raises what the scheduler refuses for good.
        """
        asyncio.run(self._until_signalled(told))

    async def serve(self, stop: asyncio.Event, *, told: Told | None = None) -> int:
        """Work on this event loop until `stop` is set; returns how many tasks were given back at the end."""
        calling = Calling(
            functions=self.functions,
            worker_id=self.worker_id,
            concurrency=self.concurrency,
            home=asyncio.get_running_loop(),
        )
        url = self.url or os.environ.get("SCHEDKIT_URL") or DEFAULT_URL
        station = Station(
            queue=self.queue,
            worker_id=self.worker_id,
            concurrency=self.concurrency,
            drain_timeout_s=self.drain_timeout_s,
            client=lambda: AsyncClient(url, self._token(), timeout_s=PATIENCE_S),
            perform=calling.perform,
            limits_of=calling.limits_of,
            told=told or (lambda what, held, detail: None),
        )
        return await station.serve(stop)

    async def _until_signalled(self, told: Told | None) -> None:
        stop = asyncio.Event()
        end_on_signals(stop)
        await self.serve(stop, told=told)

    def _token(self) -> Token:
        if self.token is not None:
            return self.token
        path = os.environ.get("SCHEDKIT_TOKEN_FILE")
        return (lambda: Path(path).read_text(encoding="utf-8").strip()) if path else None


def default_worker_id() -> str:
    """Where this process runs, and which one it is."""
    host = "".join(letter for letter in socket.gethostname() if letter.isalnum() or letter in "-._") or "worker"
    return f"{host[:80]}-{os.getpid()}-{secrets.token_hex(WORKER_ID_BYTES)}"
