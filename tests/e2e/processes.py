"""Real processes for end-to-end tests: `schedkit up` as a user starts it, and a target that remembers every call."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx

PATIENCE_S = 30.0
LOOK_EVERY_S = 0.01

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """What `look` gives as soon as it gives something; fails after the patience, saying what it waited for."""
    deadline = time.monotonic() + patience_s
    pause = threading.Event()
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"no {what} within {patience_s} s"
        pause.wait(LOOK_EVERY_S)
    return found


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Received:
    """One call as the target saw it; times in seconds of the machine's wall clock."""

    key: str
    token: int
    attempt: int
    path: str
    body: bytes
    headers: dict[str, str]
    started_at: float
    ended_at: float


def _at_once(key: str, seen: int) -> tuple[int, float]:
    return 200, 0.0


@dataclass
class Target:
    """A real HTTP server. `answers` maps a path to a function of (key, how often seen) → (status, seconds to take)."""

    answers: dict[str, Callable[[str, int], tuple[int, float]]] = field(default_factory=dict)
    calls: list[Received] = field(default_factory=list)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[str, int] = field(default_factory=dict)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def of(self, key: str) -> list[Received]:
        with self._lock:
            return [call for call in self.calls if call.key == key]

    def wait_for(self, count: int, patience_s: float = PATIENCE_S) -> None:
        """Return once this many calls have begun."""
        with self.arrived:
            enough = self.arrived.wait_for(lambda: sum(self._seen.values()) >= count, timeout=patience_s)
        assert enough, f"{sum(self._seen.values())} of {count} calls came within {patience_s} s"

    def wait_for_keys(self, count: int, patience_s: float = PATIENCE_S) -> None:
        """Return once calls with this many different keys have begun."""
        with self.arrived:
            enough = self.arrived.wait_for(lambda: len(self._seen) >= count, timeout=patience_s)
        assert enough, f"{len(self._seen)} of {count} runs were called within {patience_s} s"

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        started_at = time.time()
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        key = request.headers.get("Idempotency-Key", "")
        with self.arrived:
            self._seen[key] = self._seen.get(key, 0) + 1
            seen = self._seen[key]
            self.arrived.notify_all()
        status, takes_s = self.answers.get(request.path, _at_once)(key, seen)
        if takes_s:
            threading.Event().wait(takes_s)
        with contextlib.suppress(OSError):  # the caller may be dead by now: that is what some tests are about
            request.send_response(status)
            request.send_header("Content-Length", "0")
            request.end_headers()
        headers = {name.lower(): value for name, value in request.headers.items()}
        token, attempt = int(headers.get("x-fencing-token", 0)), int(headers.get("x-attempt", 0))
        with self._lock:
            self.calls.append(Received(key, token, attempt, request.path, body, headers, started_at, time.time()))


@contextlib.contextmanager
def target() -> Iterator[Target]:
    there = Target()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            there.handle(self)

        do_GET = do_PUT = do_DELETE = do_POST

        def log_message(self, format: str, *args: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        request_queue_size = 1_024
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None: ...

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    there.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Up:
    """`schedkit up` in a process of its own, on a folder and a port of its own."""

    def __init__(self, folder: Path, *flags: str, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.flags = flags
        self.env = environment(folder) | (env or {})
        self.log = folder / "up.out"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Up:
        command = [
            sys.executable,
            "-m",
            "schedkit",
            "up",
            "--port",
            str(self.port),
            "--data",
            str(self.folder / "data"),
        ]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*command, *self.flags], stdout=out, stderr=subprocess.STDOUT, env=self.env, cwd=self.folder
            )
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        def ready() -> bool | None:
            assert self.process is not None
            assert self.process.poll() is None, f"it ended:\n{self.log.read_text()}"
            try:
                return httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200 or None
            except httpx.HTTPError:
                return None

        until(ready, "readiness")

    def kill(self) -> float:
        """kill -9, now; returns when."""
        assert self.process is not None
        at = time.time()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return at

    def stop(self, patience_s: float = PATIENCE_S) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(patience_s)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=10)


@contextlib.contextmanager
def up(folder: Path, *flags: str, env: dict[str, str] | None = None) -> Iterator[Up]:
    scheduler = Up(folder, *flags, env=env).start()
    try:
        yield scheduler
    finally:
        if scheduler.process is not None and scheduler.process.poll() is None:
            scheduler.process.kill()
            scheduler.process.wait()


def environment(home: Path) -> dict[str, str]:
    """An environment without the user's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCHEDKIT_", "XDG_"))}
    return kept | {"HOME": str(home), "NO_COLOR": "1"}


def clock_at(at: int) -> dict[str, str]:
    """The environment of a process that is started now and believes that it is `at`, in ms."""
    return {"SCHEDKIT_CLOCK_OFFSET_MS": str(at - int(time.time() * 1_000))}


def schedkit(folder: Path, *args: str, url: str | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """One command line, as a user types it."""
    env = environment(folder) | ({"SCHEDKIT_URL": url} if url else {})
    return subprocess.run(
        [sys.executable, "-m", "schedkit", *args],
        capture_output=True, text=True, env=env, cwd=folder, input=stdin, timeout=60, check=False,
    )  # fmt: skip
