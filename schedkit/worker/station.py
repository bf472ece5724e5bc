"""The station: the courier in a thread of its own, the functions in others, and an orderly end.

the caller's thread   coroutine functions
courier's thread      polls, heartbeats, reports
one thread a task     functions that block
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from schedkit.client import AsyncClient
from schedkit.client.asking import system_draw
from schedkit.worker.courier import Courier, Limits, Told
from schedkit.worker.functions import Function
from schedkit.worker.held import Done, Failure, Held, Outcome, Stop, Stopped
from schedkit.worker.task import Fail, Retry, Task, TaskStopped

LAST_WORD_S: Final = 1.0  # for the courier to end after what was in hand was given back

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Station:
    """Runs a worker's functions for one `serve`."""

    functions: Mapping[str, Function]
    queue: str
    worker_id: str
    concurrency: int
    drain_timeout_s: float
    client: Callable[[], AsyncClient]
    told: Told
    _home: asyncio.AbstractEventLoop | None = None  # where coroutine functions run
    _turns: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    async def serve(self, stop: asyncio.Event) -> int:
        """Work until `stop` is set, then drain; returns how many tasks were given back."""
        self._home = asyncio.get_running_loop()
        line = _Line(self._courier)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((stopping, line.ended), return_when=asyncio.FIRST_COMPLETED)
            if line.ended.done():
                line.ended.result()
                return 0
            line.do(lambda courier: courier.drain())
            await asyncio.wait((line.ended,), timeout=self.drain_timeout_s)
            released = 0 if line.ended.done() else await line.ask(lambda courier: courier.release())
            await asyncio.wait((line.ended,), timeout=LAST_WORD_S)
            if line.ended.done():
                line.ended.result()
            return released
        finally:
            stopping.cancel()

    def _courier(self) -> Courier:
        """Made in the courier's thread: its clients and events belong to that thread's loop."""
        return Courier(
            client=self.client(),
            queue=self.queue,
            worker_id=self.worker_id,
            slots=self.concurrency,
            perform=self._perform,
            monotonic=time.monotonic,
            sleep=asyncio.sleep,
            draw=system_draw,
            limits_of=self._limits,
            told=self.told,
        )

    def _limits(self, held: Held) -> Limits:
        function = self._function(held)
        return function.limits if isinstance(function, Function) else Limits()

    def _function(self, held: Held) -> Function | Failure:
        kind = held.doc["task_type"]
        if kind is None and len(self.functions) == 1:
            return next(iter(self.functions.values()))
        if kind in self.functions:
            return self.functions[kind]
        known = ", ".join(sorted(self.functions)) or "none"
        what = "the task names no type" if kind is None else f"there is no function for {kind!r}"
        return Failure(f"{what}; functions of worker {self.worker_id}: {known}")

    async def _perform(self, held: Held) -> Outcome:
        """In the courier's loop: run the function where it belongs, and say how it ended."""
        function = self._function(held)
        if isinstance(function, Failure):
            return function
        arguments = function.arguments(held.doc["payload"])
        if isinstance(arguments, Failure):
            return arguments
        turn = self._turns.setdefault(function.name, asyncio.Semaphore(function.concurrency or self.concurrency))
        async with turn:
            task = Task(held, time.monotonic, function.is_async)
            if function.is_async:
                return await self._at_home(held, task, function, arguments)
            return await _in_thread(_blocking(held, task, function, arguments))

    async def _at_home(self, held: Held, task: Task, function: Function, arguments: Mapping[str, Any]) -> Outcome:
        home = self._home
        assert home is not None, "serving"
        running: list[asyncio.Task[Any]] = []

        def stop(why: Stop) -> None:
            home.call_soon_threadsafe(lambda: [task.cancel() for task in running])

        async def call() -> Outcome:
            running.append(asyncio.ensure_future(_awaited(held, task, function, arguments)))
            if held.stop is not None:
                running[0].cancel()
            try:
                outcome: Outcome = await running[0]
                return outcome
            except asyncio.CancelledError:
                return Stopped()

        held.on_stop = stop
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), home))


class _Line:
    """The courier's thread. `ended` is done when the courier is, in the loop of whoever made this."""

    def __init__(self, make: Callable[[], Courier]) -> None:
        self._make = make
        self._home = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._courier: Courier | None = None
        self._ready = threading.Event()
        self.ended: asyncio.Future[None] = self._home.create_future()
        threading.Thread(target=self._run, name="schedkit-courier", daemon=True).start()
        self._ready.wait()

    def do(self, what: Callable[[Courier], None]) -> None:
        """Do this in the courier's loop."""
        if self._loop is not None and self._courier is not None:
            self._loop.call_soon_threadsafe(what, self._courier)

    async def ask(self, what: Callable[[Courier], Awaitable[int]]) -> int:
        """The answer of what is done in the courier's loop."""
        courier, loop = self._courier, self._loop
        assert courier is not None, "ready"
        assert loop is not None, "ready"

        async def answer() -> int:
            return await what(courier)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer(), loop))

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except BaseException as raised:
            error = raised
        self._ready.set()  # whoever waits finds that it has ended
        with contextlib.suppress(RuntimeError):  # nobody waits any more
            self._home.call_soon_threadsafe(self._end, error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._courier = self._make()
        self._ready.set()
        async with self._courier.client:
            await self._courier.serve()

    def _end(self, error: BaseException | None) -> None:
        if self.ended.done():
            return
        if error is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)


async def _in_thread(call: Callable[[], Outcome]) -> Outcome:
    """What the call gives, from a thread of its own: one that never ends must not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()

    def answer(outcome: Outcome) -> None:
        if not future.done():
            future.set_result(outcome)

    def run() -> None:
        outcome = call()
        with contextlib.suppress(RuntimeError):  # the loop has ended without it
            loop.call_soon_threadsafe(answer, outcome)

    threading.Thread(target=run, name="schedkit-task", daemon=True).start()
    return await future


def _blocking(held: Held, task: Task, function: Function, arguments: Mapping[str, Any]) -> Callable[[], Outcome]:
    def call() -> Outcome:
        try:
            return _done(function.call(task, **arguments), task)
        except BaseException as error:
            return _ended(error, held)
        finally:
            task.close()

    return call


async def _awaited(held: Held, task: Task, function: Function, arguments: Mapping[str, Any]) -> Outcome:
    try:
        return _done(await function.call(task, **arguments), task)
    except asyncio.CancelledError:
        return Stopped()
    except BaseException as error:
        return _ended(error, held)
    finally:
        await task.aclose()


def _done(result: Any, task: Task) -> Outcome:
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError) as error:
        log.error("%s is done; what it returned is no JSON and is not kept: %s", task.run_id, error)
        return Done()
    return Done(result)


def _ended(error: BaseException, held: Held) -> Outcome:
    match error:
        case Retry():
            return Failure(str(error), retry_after_s=error.after_s)
        case Fail():
            return Failure(str(error), retryable=False)
        case TaskStopped():
            return Stopped()
    log.error("%s failed", held.run_id, exc_info=error)
    return Failure(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
