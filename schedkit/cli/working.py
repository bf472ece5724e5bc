"""Working until told to stop: what `worker run` and `worker exec` share; how a module is found and reloaded.

ctrl+c, SIGTERM   no more tasks, those in hand may end, the rest is given back, exit 0
again             ends at once: exit 130, 143
--reload          a file of the module changed: the same orderly end, and then this command anew in the same process
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from schedkit.cli.failures import Code, ExitCode, Refusal, report
from schedkit.cli.invocation import Invocation
from schedkit.cli.show import compact, count
from schedkit.cli.tasklines import TaskLines
from schedkit.model.time import SECOND_MS

if TYPE_CHECKING:
    from schedkit.worker import Worker
    from schedkit.worker.program import Program

LOOK_EVERY_S: Final = 0.3
MOST_FILES: Final = 2_000

Serve = Callable[[asyncio.Event], Awaitable[int]]


def functions(me: Invocation, worker: Worker, *, reload: bool) -> None:
    """Do the tasks of a queue by a worker's functions."""
    doing = ", ".join(worker.functions)
    _greet(me, worker.worker_id, worker.queue, worker.url or "", doing, worker.concurrency)
    lines = TaskLines(me)
    try:
        changed = _work(me, lambda stop: worker.serve(stop, told=lines.told), worker.drain_timeout_s, reload=reload)
    finally:
        lines.close()
    if changed is not None:
        again(me, changed)


def programs(
    me: Invocation,
    queue: str,
    program: Callable[..., Program],
    *,
    doing: str,
    concurrency: int,
    drain_timeout_s: float,
    beat_every_s: float | None,
) -> None:
    """Do the tasks of a queue by a program, made with the warden and the output that it is given."""
    from schedkit.client import AsyncClient
    from schedkit.worker import default_worker_id, warden
    from schedkit.worker.courier import PATIENCE_S
    from schedkit.worker.station import Station

    url, token, worker_id = me.context.url, me.token, default_worker_id()
    _greet(me, worker_id, queue, url, doing, concurrency)
    lines, guard = TaskLines(me), warden.start()
    made = program(warden=guard, output=lines.output)
    station = Station(
        queue=queue,
        worker_id=worker_id,
        concurrency=concurrency,
        drain_timeout_s=drain_timeout_s,
        client=lambda: AsyncClient(url, token, timeout_s=PATIENCE_S),
        perform=made.perform,
        limits_of=made.limits_of,
        told=lines.told,
        beat_every_s=beat_every_s,
    )
    try:
        _work(me, station.serve, drain_timeout_s)
    finally:
        lines.close()
        guard.close()


def _greet(me: Invocation, worker_id: str, queue: str, url: str, doing: str, concurrency: int) -> None:
    me.say(f"{worker_id} waiting on {queue} at {url}: {doing} ({concurrency} at once)   ctrl+c stops")


def _work(me: Invocation, serve: Serve, drain_timeout_s: float, *, reload: bool = False) -> Path | None:
    """Serve until a signal, or until a file changes; returns that file, or None."""
    return asyncio.run(_until_told(me, serve, drain_timeout_s, reload=reload))


async def _until_told(me: Invocation, serve: Serve, drain_timeout_s: float, *, reload: bool) -> Path | None:
    from schedkit.worker.station import end_on_signals

    stop = asyncio.Event()
    patience = compact(drain_timeout_s * SECOND_MS)
    end_on_signals(stop, lambda: me.say(f"stopping: tasks in hand have {patience} to end; once more ends at once"))
    watcher = asyncio.ensure_future(_changed(imported, stop)) if reload else None
    with _logging(me):
        released = await serve(stop)
    if released:
        me.say(f"{count(released, 'task')} given back for other workers")
    if watcher is None:
        return None
    watcher.cancel()
    await asyncio.wait((watcher,))
    return None if watcher.cancelled() else watcher.result()


@contextlib.contextmanager
def _logging(me: Invocation) -> Iterator[None]:
    """Warnings on stderr, written by a thread: a terminal that was stopped must not stop heartbeats."""
    records: SimpleQueue[Any] = SimpleQueue()
    screen = logging.StreamHandler(sys.stderr)
    screen.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d  %(levelname)s  %(message)s", datefmt="%H:%M:%S"))
    handler, listener = QueueHandler(records), QueueListener(records, screen)
    log = logging.getLogger("schedkit")
    log.addHandler(handler)
    log.propagate = False
    listener.start()
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = True
        listener.stop()


# Modules


def load(named: str) -> Worker:
    """The worker that MODULE:APP names, its module found from the working directory. Raises Refusal."""
    from schedkit.worker import Worker

    module, colon, attribute = named.partition(":")
    if not (module and colon and attribute):
        raise _invalid(f"{named!r} names no worker: write MODULE:APP, such as worker:w for `w` in worker.py")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _broken(module, error) from error
        raise _invalid(f"there is no module {module} in {os.getcwd()}, or installed") from error
    except (Exception, SystemExit) as error:
        raise _broken(module, error) from error
    for name in attribute.split("."):
        found = getattr(found, name, None)
    if not isinstance(found, Worker):
        known = [name for name, value in vars(sys.modules[module]).items() if isinstance(value, Worker)]
        fix = [f"schedkit worker run {module}:{name}" for name in known]
        raise _invalid(f"{attribute} in {module} is no schedkit.worker.Worker", fix)
    if not found.functions:
        raise _invalid(f"worker {named} has no functions: put @{attribute}.task over one")
    return found


def _invalid(message: str, fix: list[str] | None = None) -> Refusal:
    return Refusal(Code.WORKER_INVALID, ExitCode.INVALID, message, fix=fix or ["schedkit worker run -h"])


def _broken(module: str, error: BaseException) -> Refusal:
    """The module's own error, and the line of the user's file where it happened."""
    place = ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(os.getcwd())]
    if isinstance(error, SyntaxError) and error.filename:
        place = f" ({os.path.relpath(error.filename)}, line {error.lineno})"
    elif frames:
        place = f" ({os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno})"
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return _invalid(f"{module} cannot be imported: {type(error).__name__}: {said}{place}")


# Reloading


def imported() -> set[Path]:
    """The files of modules that were imported from under the working directory."""
    here = Path.cwd()
    files = {
        Path(file).resolve() for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))
    }
    return {file for file in files if file.is_relative_to(here) and _is_source(file.relative_to(here))}


def lying_about() -> set[Path]:
    """Every source file under the working directory: where an import failed, any of them may be the remedy."""
    here = Path.cwd()
    found: set[Path] = set()
    for file in here.rglob("*.py"):
        if len(found) >= MOST_FILES:
            break
        if _is_source(file.relative_to(here)):
            found.add(file.resolve())
    return found


def wait_for_a_remedy(me: Invocation, refusal: Refusal) -> None:
    """The module cannot be loaded: say so, and start anew once a file has changed."""
    report(refusal, as_json=False, color=False)
    again(me, asyncio.run(_changed(lying_about, asyncio.Event())))


def again(me: Invocation, changed: Path) -> None:
    """This command line once more, in this process."""
    me.say(f"{changed} changed: starting anew")
    me.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "schedkit", *me.line])  # noqa: S606 - this program


def _is_source(path: Path) -> bool:
    return not any(part.startswith(".") or part in ("site-packages", "node_modules") for part in path.parts)


async def _changed(watching: Callable[[], set[Path]], stop: asyncio.Event) -> Path:
    """The first of these files that changes, is made or goes, by its path from here; `stop` is set then."""
    began_ns = time.time_ns()
    before = {file: _age(file) for file in watching()}
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now = {file: _age(file) for file in before.keys() | watching()}
        for file, age in sorted(now.items()):
            if age != before[file] if file in before else (age or 0) > began_ns:  # an old one was only imported late
                stop.set()
                return Path(os.path.relpath(file))
        before = now


def _age(file: Path) -> int | None:
    with contextlib.suppress(OSError):
        return file.stat().st_mtime_ns
    return None
