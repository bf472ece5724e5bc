"""The station: the courier in a thread of its own, and an orderly end. What a task is, `perform` knows.

the caller's thread   waits for the word to stop, and for the courier to end
courier's thread      polls, heartbeats, reports; calls `perform` for each task
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from schedkit.client import AsyncClient
from schedkit.client.asking import system_draw
from schedkit.worker.courier import Courier, Limits, Perform, Told
from schedkit.worker.held import Held

LAST_WORD_S: Final = 1.0  # for the courier to end after what was in hand was given back


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A worker at its queue. `perform` does a task in the courier's loop and never raises; `limits_of` bounds it.

    `beat_every_s`: heartbeats at least this often, in seconds; None is as often as the scheduler asks for.
    """

    queue: str
    worker_id: str
    concurrency: int
    drain_timeout_s: float
    client: Callable[[], AsyncClient]
    perform: Perform
    limits_of: Callable[[Held], Limits]
    told: Told
    beat_every_s: float | None = None

    async def serve(self, stop: asyncio.Event) -> int:
        """Work until `stop` is set, then drain; returns how many tasks were given back.

        Raises what the scheduler refuses for good.
        """
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
            perform=self.perform,
            monotonic=time.monotonic,
            sleep=asyncio.sleep,
            draw=system_draw,
            limits_of=self.limits_of,
            told=self.told,
            beat_every_s=self.beat_every_s,
        )


def end_on_signals(stop: asyncio.Event, asked: Callable[[], None] = lambda: None) -> None:
    """Set `stop` at the first SIGTERM or SIGINT, after calling `asked`; a second one ends the process at once.

    To be called on a loop of the main thread; on another one it does nothing, since signals do not come there.
    """

    def signalled(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)  # the leases end by themselves
        stop.set()
        asked()

    if threading.current_thread() is threading.main_thread():
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signalled, number)


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
