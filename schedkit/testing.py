"""For the tests of those who use schedkit: a scheduler inside the test's process, and a function run twice on purpose.

from schedkit.testing import FakeServer, run_twice

with FakeServer() as server:                      # a real scheduler, in memory, on a port of its own
    server.client.create_job({...})
    worker = Worker("ledger", url=server.url)

twice = run_twice(rebuild, {"ledger": "EU-2"}, observe=lambda: db.rows())
assert twice.same, twice                          # a second run of the same key changed nothing
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from schedkit.client import Client
from schedkit.embedded import Settings, listen, running, server_of
from schedkit.worker.courier import Limits
from schedkit.worker.functions import function_of
from schedkit.worker.held import Failure, Held
from schedkit.worker.task import Task

START_WITHIN_S: Final = 30.0


class FakeServer:
    """A scheduler in a thread of this process: the real one, over a store in memory, on a free loopback port.

    A context manager; `url` is where it listens and `client` a client of it. Nothing of it is left afterwards.
    """

    def __init__(self) -> None:
        self.url = ""
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="schedkit-fake-server", daemon=True)

    @property
    def client(self) -> Client:
        assert self._client is not None, "inside `with FakeServer() as server`"
        return self._client

    def __enter__(self) -> Self:
        self._thread.start()
        started = self._ready.wait(START_WITHIN_S)
        if self._error is not None:
            raise self._error
        assert started, f"no scheduler within {START_WITHIN_S} s"
        self._client = Client(self.url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close()
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
        self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        listener = listen(Settings(data=None, port=0))
        settings = Settings(data=None, port=listener.getsockname()[1], demo=False, grace_ms=1_000)
        async with running(settings) as scheduler:
            server = server_of(scheduler)
            serving = asyncio.ensure_future(server.serve([listener]))
            self.url = settings.url
            while not server.started and not serving.done():
                await asyncio.sleep(0)
            self._ready.set()
            await self._stop.wait()
            scheduler.workers.close()
            server.should_exit = True
            await serving


@dataclass(frozen=True, slots=True)
class Twice:
    """What two runs of one key returned, and what `observe` saw after each of them."""

    results: tuple[Any, Any]
    seen: tuple[Any, Any]

    @property
    def same(self) -> bool:
        """The second run changed nothing and returned the same."""
        return bool(self.seen[0] == self.seen[1] and self.results[0] == self.results[1])

    def __str__(self) -> str:
        if self.same:
            return "the second run changed nothing"
        lines = ["the second run of the same key made a difference:"]
        for what, (first, second) in (("returned", self.results), ("observed", self.seen)):
            if first != second:
                lines += [f"  {what} first   {first!r}", f"  {what} second  {second!r}"]
        return "\n".join(lines)


def run_twice(
    function: Callable[..., Any],
    payload: Mapping[str, Any] | None = None,
    *,
    observe: Callable[[], Any] = lambda: None,
    key: str = "job_test:2026-01-01T00:00:00Z",
) -> Twice:
    """Run a worker's function twice as the scheduler may: the same run and key, under epoch 1 and then 2.

    `observe` gives what the function changes: rows, files, calls; compared with ==. What the function raises is raised.
    Raises ValueError for a payload that the function does not take.
    """
    results, seen = [], []
    progress: Any = None
    for epoch in (1, 2):
        doc = {
            "run_id": key,
            "job_id": key.partition(":")[0],
            "job_name": None,
            "scheduled_for": key.partition(":")[2],
            "epoch": epoch,
            "attempt": 1,
            "heartbeat_every_seconds": 10.0,
            "deadline": None,
            "payload": dict(payload or {}),
            "previous_progress": progress,
            "idempotency_key": key,
        }
        held = Held(doc, began_at=0.0, beat_at=0.0, seen_at=0.0)
        known = function_of(function, function.__name__, Limits(), None)
        arguments = known.arguments(doc["payload"])
        if isinstance(arguments, Failure):
            raise ValueError(arguments.error)
        result = function(Task(held, time.monotonic, known.is_async), **arguments)
        results.append(asyncio.run(result) if inspect.iscoroutine(result) else result)
        seen.append(observe())
        progress = held.progress if held.progress is not None else progress
    return Twice((results[0], results[1]), (seen[0], seen[1]))
