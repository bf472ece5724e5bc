"""Calling functions: how a task reaches the function that does it, in the thread where that one belongs.

coroutine functions       on the event loop of the thread that serves
functions that block      one thread a task
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedkit.worker.courier import Limits
from schedkit.worker.functions import Function
from schedkit.worker.held import Done, Failure, Held, Outcome, Stop, Stopped, sendable
from schedkit.worker.task import Fail, Retry, Task, TaskStopped

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Calling:
    """What a worker's functions are called through, for one `serve`. `home` is where coroutine functions run."""

    functions: Mapping[str, Function]
    worker_id: str
    concurrency: int
    home: asyncio.AbstractEventLoop
    _turns: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    def limits_of(self, held: Held) -> Limits:
        """What the function for this task may take."""
        function = self._function(held)
        return function.limits if isinstance(function, Function) else Limits()

    async def perform(self, held: Held) -> Outcome:
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

    def _function(self, held: Held) -> Function | Failure:
        kind = held.doc["task_type"]
        if kind is None and len(self.functions) == 1:
            return next(iter(self.functions.values()))
        if kind in self.functions:
            return self.functions[kind]
        known = ", ".join(sorted(self.functions)) or "none"
        what = "the task names no type" if kind is None else f"there is no function for {kind!r}"
        return Failure(f"{what}; functions of worker {self.worker_id}: {known}")

    async def _at_home(self, held: Held, task: Task, function: Function, arguments: Mapping[str, Any]) -> Outcome:
        running: list[asyncio.Task[Any]] = []

        def stop(why: Stop) -> None:
            self.home.call_soon_threadsafe(lambda: [task.cancel() for task in running])

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
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), self.home))


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
        sendable(result)
    except ValueError as error:
        log.error("%s is done; what it returned is not kept: %s", task.run_id, error)
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
