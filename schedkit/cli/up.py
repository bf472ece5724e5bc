"""`schedkit up` and `schedkit down`: the dev server, everything in one process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schedkit import __version__
from schedkit.cli import front, settings_edit, show, values
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.frame import Change
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.cli.settings import load
from schedkit.errors import Conflict

if TYPE_CHECKING:
    from schedkit.embedded import Embedded, Settings
    from schedkit.model.runs import Run

AUTHS: Final = ("none", "api-key")
DEFAULT_DATA: Final = Path(".schedkit")
LOG_NAME: Final = "up.log"
START_WITHIN_S: Final = 20.0
STOP_WITHIN_S: Final = 30.0
LOOK_EVERY_S: Final = 0.05
HINTS_AFTER: Final = 5  # run lines, so that something has happened before the newcomer's turn

HINTS: Final = """
  your turn
    schedkit job create --name tea --in 30s --target demo-echo --payload '{"say":"tea is ready"}'
    schedkit cron next "30 1 * * *" --tz America/New_York      what happens when the clocks change
    schedkit status                                            how it is doing
"""


def up(
    me: Invocation,
    port: Annotated[int, typer.Option("--port", metavar="N", min=1, max=65_535, help="Where the API listens.")] = 8700,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDR", help="A loopback address; any, with --auth api-key.")
    ] = "127.0.0.1",
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where jobs are kept.")] = DEFAULT_DATA,
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Keep nothing.")] = False,
    no_demo: Annotated[bool, typer.Option("--no-demo", help="Start empty.")] = False,
    auth: Annotated[str, typer.Option("--auth", metavar="A", help="Ask callers for a key: none, api-key.")] = "none",
    detach: Annotated[bool, typer.Option("--detach", help="Go on in the background.")] = False,
) -> None:
    """Start everything on this machine.

    Examples:
      schedkit up
      schedkit up --no-demo --data /var/lib/schedkit --port 8701
    """
    values.choice(auth, AUTHS, "--auth")
    if detach:
        return _detached(me, port, host, data, ephemeral, no_demo, auth)
    began = time.monotonic()  # before the imports: they are most of the start
    from schedkit.embedded import settings_of

    settings = replace(
        settings_of(None if ephemeral else data, os.environ, auth),
        host=host,
        port=port,
        demo=not no_demo,
        clock_offset_ms=_clock_offset_ms(),
    )
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s.%(msecs)03d  %(levelname)s  %(message)s", datefmt="%H:%M:%S"
    )
    logging.getLogger("schedkit").setLevel(logging.DEBUG if me.given.get("verbose") else logging.WARNING)
    _raise_file_limit()
    asyncio.run(_serve(me, settings, began))


def down(
    me: Invocation,
    change: Change,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="The data folder it was started with.")
    ] = DEFAULT_DATA,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete the data folder too: every job in it.")] = False,
) -> None:
    """Stop the dev server.

    Examples:
      schedkit down
      schedkit down --data /var/lib/schedkit
    """
    from schedkit.adapters.sqlite.folder import holder

    facts = holder(data)
    pid = facts.get("pid") if facts is not None else None
    if facts is None and not wipe:
        lines, elsewhere = [f"nothing runs on {data}"], None
        with contextlib.suppress(Refusal):  # a broken settings file: then there is nowhere else to look
            elsewhere = _data_elsewhere(me.context.url)
        if elsewhere is not None:
            lines.append(f"{me.context.url} answers; stop it with: schedkit down --data {elsewhere}")
        return me.show(One("schedkit.down/v1", {"stopped": None, "elsewhere": elsewhere}, lines))
    said = f"stop pid {pid} ({facts.get('url', '?')})" if facts is not None else "nothing runs"
    if wipe:
        said += f" and delete {data} with every job in it"
    if change.dry_run:
        me.show(One("schedkit.down/v1", {"would_stop": pid, "would_wipe": wipe}, [f"would {said}"]))
        return
    if wipe and not change.yes:
        me.confirm(f"{said}?")
    if isinstance(pid, int):
        _end(pid, data)
    if wipe:
        _wipe(data)
    lines = [
        f"stopped pid {pid}" if pid else "nothing was running",
        f"{data} deleted" if wipe else f"data kept in {data}",
    ]
    me.show(One("schedkit.down/v1", {"stopped": pid, "wiped": wipe}, lines))


async def _serve(me: Invocation, settings: Settings, began: float) -> None:
    """Run until asked to stop."""
    from schedkit import embedded
    from schedkit.adapters.sqlite.folder import DataFolder
    from schedkit.demo import seed

    stop = asyncio.Event()
    _on_signals(stop)
    embedded.check(settings)
    with contextlib.ExitStack() as held:
        folder = None
        if settings.data is not None:
            try:
                folder = DataFolder(settings.data)
            except Conflict as taken:
                taken.fix = (f"schedkit down --data {settings.data}   stops it", *taken.fix[1:])
                raise
            held.callback(folder.release)
        listener = held.enter_context(contextlib.closing(embedded.listen(settings)))
        if folder is not None:
            folder.note(url=settings.url, version=__version__)
        async with embedded.running(settings, folder) as scheduler:
            if settings.shows_demo:
                await seed(scheduler.world)
            server = embedded.server_of(scheduler)
            serving = asyncio.create_task(server.serve([listener]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.001)
            _write_context(settings)
            _banner(settings, time.monotonic() - began)
            printing = asyncio.create_task(_print_runs(me, scheduler))
            await _first(stop, serving)
            in_flight = sum(pool.running for pool in scheduler.pools.values())
            grace = show.span(settings.grace_ms)
            print(f"stopping: {show.count(in_flight, 'run')} in flight, up to {grace} ... ", end="", flush=True)
            printing.cancel()
            scheduler.feed.close()  # a stream, or a worker that waits for a task, would keep the server for its grace
            scheduler.workers.close()
            server.should_exit = True
            await serving
        kept = f"data kept in {_shown(settings.data)}" if settings.data is not None else "nothing was kept"
        left = f", {scheduler.stopped_in_flight} handed on to the next start" if scheduler.stopped_in_flight else ""
        print(f"done{left}. {kept}", flush=True)


def _raise_file_limit() -> None:
    """Every call in flight is an open file, and the usual limit is below what four pools may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _on_signals(stop: asyncio.Event) -> None:
    def asked() -> None:
        if stop.is_set():
            os._exit(ExitCode.INTERRUPTED)  # a second signal ends at once (F10); a kill loses nothing
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)


async def _first(stop: asyncio.Event, serving: asyncio.Task[None]) -> None:
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait((waiting, serving), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if serving.done():
        await serving  # it ended by itself: say why


async def _print_runs(me: Invocation, scheduler: Embedded) -> None:
    """Print what ends. In a thread: a terminal that was stopped (ctrl+s) must not stop the scheduler."""
    from schedkit.cli.runlines import FULL_LINES, RunLines

    lines = RunLines(me.settings.zone)
    ended: asyncio.Queue[Run] = asyncio.Queue()

    def heard(run: Run) -> None:
        lines.count(run)
        if lines.printed + ended.qsize() < FULL_LINES:
            ended.put_nowait(run)

    scheduler.listeners.append(heard)
    clock = scheduler.world.clock
    while True:
        texts: list[str] = []
        with contextlib.suppress(TimeoutError):
            run = await asyncio.wait_for(ended.get(), timeout=1.0)
            texts.append(lines.line(run, await scheduler.job_behind(run), clock.now()))
            if lines.printed == HINTS_AFTER and scheduler.settings.shows_demo:
                texts.append(HINTS)
        if (summary := lines.summary(clock.now())) is not None:
            texts.append(summary)
        if texts:
            await asyncio.to_thread(print, "\n".join(texts), flush=True)


def _banner(settings: Settings, took_s: float) -> None:
    from schedkit.demo import JOBS, PATHS

    kept = "kept between runs (--ephemeral forgets)" if settings.data is not None else "nothing is kept (--ephemeral)"
    place = f"{_shown(settings.data)}/dev.db" if settings.data is not None else "memory"
    demo = f"{len(JOBS)} jobs, {len(PATHS)} targets    (--no-demo starts empty)" if settings.shows_demo else "none"
    keys = "" if settings.open_to_all else f"\n  keys        {'every call needs one':<30} {_first_key(settings)}"
    print(
        f"""schedkit {__version__}  dev server: everything runs in this process, nothing leaves this machine

  API         {settings.url:<30} try it: {settings.url}/docs
  status      {"schedkit status":<30} in another terminal
  data        {place:<30} {kept}{keys}
  running     api, loader, dispatcher, 4 pools, clock watch
  demo        {demo}

ready in {took_s:.1f} s   ctrl+c stops
""",
        flush=True,
    )


def _write_context(settings: Settings) -> None:
    """`up` writes the context dev, and makes it the current one where there is none."""
    import tomlkit

    def edit(document: tomlkit.TOMLDocument) -> None:
        table = settings_edit.table(document, "context", "dev")
        table["url"] = settings.url
        if settings.open_to_all or table.get("auth") is None:
            table["auth"] = "none"
        document.setdefault("current", "dev")

    try:
        known = load({}).contexts.get("dev")
        if known is not None and known.url != settings.url and front.answers(known.url):
            return  # another scheduler of this user's answers there; this one is reached by SCHEDKIT_URL
        settings_edit.change(settings_edit.place(project=False), edit)
    except Refusal as problem:  # a home that cannot be written must not keep the scheduler from starting
        logging.getLogger(__name__).warning("the context dev was not written: %s", problem)


def _first_key(settings: Settings) -> str:
    where = "" if settings.data == DEFAULT_DATA else f" --data {settings.data}"
    return f"the first: schedkit key bootstrap{where} --out admin.key"


def _detached(me: Invocation, port: int, host: str, data: Path, ephemeral: bool, no_demo: bool, auth: str) -> None:
    from schedkit import embedded
    from schedkit.adapters.sqlite.folder import DataFolder, holder

    if ephemeral:
        raise Refusal(
            Code.USAGE, ExitCode.USAGE, "--detach needs a data folder, or nothing could tell what to stop",
            fix=("schedkit up --detach --data DIR",),
        )  # fmt: skip
    checked = replace(embedded.settings_of(data, os.environ, auth), host=host, port=port)
    embedded.check(checked)
    DataFolder(data).release()  # refuses here, in its own words, what would be refused in the background
    embedded.listen(checked).close()
    log = data / LOG_NAME
    command = [
        sys.executable,
        "-m",
        "schedkit",
        "up",
        "--port",
        str(port),
        "--host",
        host,
        "--data",
        str(data),
        "--auth",
        auth,
    ]
    with log.open("ab") as out:
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and our own flags
            [*command, *(["--no-demo"] if no_demo else [])],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_WITHIN_S
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    while time.monotonic() < deadline:
        facts = holder(data)
        if facts is not None and facts.get("pid") == child.pid and _ready(url):
            where = "" if data == DEFAULT_DATA else f" --data {data}"
            lines = [f"running at {url} (pid {child.pid})", f"log   {log}", f"stop  schedkit down{where}"]
            return me.show(One("schedkit.up/v1", {"url": url, "pid": child.pid, "log": str(log)}, lines))
        if child.poll() is not None:
            break
        time.sleep(LOOK_EVERY_S)
    tail = log.read_text(errors="replace").strip().splitlines()[-6:]
    code = child.poll()
    raise Refusal(
        Code.NOT_IN_TIME,
        ExitCode(code) if code in set(ExitCode) else ExitCode.NOT_IN_TIME,
        "the dev server did not start; the end of its log:\n    " + "\n    ".join(tail),
        fix=(f"read {log}",),
    )


def _data_elsewhere(url: str) -> str | None:
    """The data folder of a scheduler that answers on this machine, as it says itself."""
    import json
    import urllib.request

    if not front.answers(url):
        return None
    try:
        with urllib.request.urlopen(f"{url}/v1/ops/snapshot", timeout=1) as answer:  # noqa: S310 - a loopback URL
            return str(Path(json.load(answer)["data"]).parent)
    except (OSError, ValueError, KeyError):
        return None


def _ready(url: str) -> bool:
    import urllib.request

    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=1) as answer:  # noqa: S310 - our own loopback URL
            return bool(answer.status == 200)
    except OSError:
        return False


def _end(pid: int, data: Path) -> None:
    from schedkit.adapters.sqlite.folder import holder

    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_S
    while holder(data) is not None:
        if time.monotonic() > deadline:
            raise Refusal(
                Code.NOT_IN_TIME, ExitCode.NOT_IN_TIME, f"pid {pid} has not stopped within {STOP_WITHIN_S:.0f} s",
                fix=(f"kill -9 {pid}   loses nothing: runs in progress start again",),
            )  # fmt: skip
        time.sleep(LOOK_EVERY_S)


def _wipe(data: Path) -> str:
    """Delete what schedkit made in the folder, and the folder if nothing else is in it; says what was done."""
    ours = [data / name for name in ("dev.db", "dev.db-wal", "dev.db-shm", "pepper", "lock", LOG_NAME)]
    there = [file for file in ours if file.exists()]
    for file in there:
        file.unlink(missing_ok=True)
    if not there:
        return f"nothing of schedkit's was in {data}"
    try:
        data.rmdir()
    except OSError:
        return f"deleted {', '.join(file.name for file in there)}; {data} stays, there are other files in it"
    return f"{data} deleted"


def _clock_offset_ms() -> int:
    text = os.environ.get("SCHEDKIT_CLOCK_OFFSET_MS", "0")
    try:
        return int(text)
    except ValueError:
        raise Refusal(
            Code.USAGE, ExitCode.USAGE, f"SCHEDKIT_CLOCK_OFFSET_MS is {text!r}, not a number of milliseconds"
        ) from None


def _shown(path: Path | None) -> str:
    text = str(path)
    return text if path is not None and path.is_absolute() else f"./{text}"
