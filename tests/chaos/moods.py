"""A real target with moods, which writes down every call, what it did, and what it answered.

/ok      200 within some milliseconds
/flaky   one in four fails: 503 (now and then with Retry-After), 500 after it was done, a connection that breaks
/slow    up to four seconds: more than most callers wait
/wrong   now and then 400: permanent
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from schedkit.model.keys import parse_run_id
from schedkit.sim.history import History

PATHS = ("/ok", "/flaky", "/slow", "/wrong")
TIMEOUT_HEADER = "X-Timeout-Ms"  # a job sends its own, so that the log has it
USUAL_S = (0.001, 0.04)
SLOW_S = (0.1, 4.0)


@dataclass(frozen=True, slots=True)
class Mood:
    """How one call is answered; `status` None: not at all."""

    status: int | None
    takes_s: float
    does: bool = True
    retry_after_s: int | None = None


def mood(path: str, chance: random.Random) -> Mood:
    """The mood of one call."""
    roll, takes_s = chance.random(), chance.uniform(*USUAL_S)
    if path == "/flaky" and roll < 0.15:
        return Mood(503, takes_s, does=False, retry_after_s=chance.randrange(1, 3) if roll < 0.05 else None)
    if path == "/flaky" and roll < 0.25:
        return Mood(500 if roll < 0.2 else None, takes_s)
    if path == "/slow":
        return Mood(200, chance.uniform(*SLOW_S))
    if path == "/wrong" and roll < 0.2:
        return Mood(400, takes_s, does=False)
    return Mood(200, takes_s)


@contextlib.contextmanager
def target(history: History, seed: str) -> Iterator[str]:
    """A target on a loopback port of its own; gives its URL."""
    calls = count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            number = next(calls)
            key, token = self.headers["Idempotency-Key"], int(self.headers["X-Fencing-Token"])
            job, scheduled_for = parse_run_id(key)
            history.add(
                "world", "target.call", call=number, key=key, job=job, scheduled_for=scheduled_for, token=token,
                attempt=int(self.headers["X-Attempt"]), timeout_ms=int(self.headers.get(TIMEOUT_HEADER, 0)),
                own=None, url=self.path,
            )  # fmt: skip
            name = self.path.strip("/")
            way = mood(self.path, random.Random(f"{seed}/{key}/{token}"))
            if way.does:
                history.add(name, "target.effect", call=number)
            threading.Event().wait(way.takes_s)
            asked = {} if way.retry_after_s is None else {"retry_after_ms": way.retry_after_s * 1_000}
            history.add(name, "target.reply", call=number, status=way.status, **asked)
            self._answer(way)

        def _answer(self, way: Mood) -> None:
            if way.status is None:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            with contextlib.suppress(OSError):  # the caller may have given up, or be dead
                self.send_response(way.status)
                if way.retry_after_s is not None:
                    self.send_header("Retry-After", str(way.retry_after_s))
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    class Listener(ThreadingHTTPServer):
        request_queue_size = 1_024
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None: ...

    server = Listener(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
