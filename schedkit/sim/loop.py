"""The loop: asyncio on virtual time, with processes that can be killed, stopped and let go on.

    ready, by process   A: ▢▢▢   B: ▢   C: ▢▢     one of A, B, C is drawn, and its oldest callback runs
    nothing is ready    time jumps to the next timer

Within a process callbacks run in the order in which they became ready, as asyncio promises; the order between processes
is drawn from the seed. A process is a context variable that every callback inherits: kill -9 drops its callbacks, so no
`finally` of it runs; SIGSTOP keeps them until SIGCONT. Threads do not exist here.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from itertools import count
from random import Random
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

MAX_CALLBACKS_AT_ONCE: Final = 2_000_000  # callbacks without time passing: somebody spins


class Stuck(Exception):
    """Nothing will ever happen again, or callbacks run for ever without time passing."""


class State(Enum):
    UP = auto()
    STOPPED = auto()  # SIGSTOP
    DEAD = auto()


class Process:
    """One simulated process, from its start to its death: a restart is another Process of the same name."""

    __slots__ = ("context", "name", "ready", "runnable", "state")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.UP
        self.ready: deque[asyncio.Handle] = deque()
        self.runnable = False
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.name}>"


_PROCESS: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


class _Callback(asyncio.TimerHandle):
    """A handle without what asyncio's own does for its debug mode: there are a million of them in a simulated hour."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., Any], args: Any, loop: SimLoop, context: Context | None
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = self._scheduled = False
        self._source_traceback = self._repr = None

    def cancel(self) -> None:
        """It is passed over when its time comes."""
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


class SimLoop(asyncio.BaseEventLoop):
    """`loop.time()` is virtual seconds from 0. What runs outside any process runs in `world`."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._draw = chance.random
        self._at = 0.0
        self._order = count()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._runnable: list[Process] = []
        self._graves: list[Any] = []
        self._processes: dict[Process, None] = {}  # as they were started
        self.world = Process("world")
        self.callbacks = 0  # run so far
        self.set_exception_handler(lambda loop, told: self._troubles.append(told))
        self._troubles: list[dict[str, Any]] = []

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in a process."""
        self._processes[process] = None
        return cast("asyncio.Task[T]", self.create_task(work, context=process.context.copy()))

    def kill(self, process: Process) -> None:
        """kill -9: nothing of it runs any more, not even its `finally` clauses."""
        # A task that nobody holds would be collected, which closes its coroutine and so runs its cleanup.
        self._graves.append((asyncio.all_tasks(self), tuple(process.ready)))
        process.state = State.DEAD
        process.ready.clear()

    def stop_process(self, process: Process) -> None:
        """SIGSTOP: its callbacks and timers are kept."""
        if process.state is State.UP:
            process.state = State.STOPPED

    def continue_process(self, process: Process) -> None:
        """SIGCONT: what came meanwhile runs now."""
        if process.state is State.STOPPED:
            process.state = State.UP
            if process.ready and not process.runnable:
                process.runnable = True
                self._runnable.append(process)

    # ── what asyncio asks of a loop ──────────────────────────────────────────────────────────────────────────────

    def time(self) -> float:
        return self._at

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Callback(self._at, callback, args, self, context)
        self._make_ready(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._at + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Callback(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> asyncio.Handle:  # type: ignore[override]
        raise RuntimeError("there are no threads in a simulation")

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        self._graves.append(agen)  # when it is collected depends on the machine; what it would do then must not

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("there are no threads in a simulation")

    def _process_events(self, event_list: Any) -> None: ...

    def _write_to_self(self) -> None: ...

    def _run_once(self) -> None:
        """Run what is ready now, or let time pass until something is."""
        runnable, draw = self._runnable, self._draw
        if not runnable:
            self._pass_time()
        ran = 0
        while runnable and not self._stopping:  # type: ignore[attr-defined]
            place = int(draw() * len(runnable)) if len(runnable) > 1 else 0
            process = runnable[place]
            ready = process.ready
            if process.state is not State.UP or not ready:
                process.runnable = False
                runnable[place] = runnable[-1]
                runnable.pop()
                continue
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self._troubles.append({"exception": error})
            ran += 1
            if ran > MAX_CALLBACKS_AT_ONCE:
                raise Stuck(f"{process.name} spins: {ran:,} callbacks and no time has passed")
        self.callbacks += ran

    def _pass_time(self) -> None:
        timers = self._timers
        while timers:
            when, _, handle = heapq.heappop(timers)
            if not handle._cancelled:
                self._at = max(self._at, when)
                self._make_ready(handle)
                while timers and timers[0][0] <= self._at:
                    handle = heapq.heappop(timers)[2]
                    if not handle._cancelled:
                        self._make_ready(handle)
                return
        raise Stuck("every coroutine waits, and no timer is set")

    def _make_ready(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(_PROCESS) or self.world  # type: ignore[attr-defined]
        if process.state is State.DEAD:
            self._graves.append(handle)
            return
        process.ready.append(handle)
        if not process.runnable and process.state is State.UP:
            process.runnable = True
            self._runnable.append(process)

    def __del__(self, *_: Any) -> None:
        """There is no selector and no socket that had to be closed."""

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def bugs(self) -> list[BaseException]:
        """What callbacks and tasks raised and nobody caught."""
        return [told["exception"] for told in self._troubles if "exception" in told]

    def bury(self) -> None:
        """End everything. Coroutines that are closed now may complain; nobody is there to hear it."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        task = None  # type: ignore[assignment]  # the last one goes with the others
        hears, sys.unraisablehook = sys.unraisablehook, lambda told: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that were killed before their first step
            self._bury()
        sys.unraisablehook = hears

    def _bury(self) -> None:
        try:
            self._graves.clear()
            self._timers.clear()
            for process in [self.world, *self._processes]:
                process.ready.clear()
            self._processes.clear()
            self._runnable.clear()
            self._ready.clear()  # type: ignore[attr-defined]
            gc.collect()
        finally:
            if not self.is_closed():
                self.close()
