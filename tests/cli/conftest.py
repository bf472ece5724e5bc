"""A tiny server in a thread that answers canned JSON and remembers what it was asked, and a command line to ask it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from typer.testing import CliRunner, Result

from tests.cli.samples import (
    API_KEY,
    BACKFILL,
    BACKFILL_ID,
    BACKFILL_PLAN,
    DEAD,
    EVENTS,
    JOB,
    JOB_ID,
    KEY_ID,
    LEDGER,
    OCCURRENCES,
    PLAN,
    REDRIVE,
    REDRIVE_ID,
    RUN,
    RUN_ID,
    SECRET,
    SNAPSHOT,
    TASK,
    WORKER,
    page,
    problem,
    records,
)


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]


@dataclass
class FakeServer:
    """`answers` maps `METHOD /path` to a reply, a list of them to give in turn, or a function of the request."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def answer(self, call: str, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self.answers[call] = (status, body, headers or {})

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    def of(self, method: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == method]

    def reply(self, asked: Asked) -> Reply | None:
        self.asked.append(asked)
        known = self.answers.get(f"{asked.method} {asked.path}")
        if isinstance(known, list):
            known = known.pop(0) if len(known) > 1 else known[0]
        if callable(known):
            known = known(asked)
        return known if known is not None else (404, problem(404, "ROUTE_NOT_FOUND"))


def _of_backfills() -> dict[str, Any]:
    found: dict[str, Any] = {"GET /v1/backfills": (200, page(BACKFILL))}
    found[f"GET /v1/backfills/{BACKFILL_ID}"] = (200, BACKFILL)
    return found | {f"POST /v1/backfills/{BACKFILL_ID}:{verb}": (200, BACKFILL) for verb in ("pause", "resume", "stop")}


def _standard() -> dict[str, Any]:
    """A server with one job and one run, whose every call succeeds."""
    job, run = copy.deepcopy(JOB), copy.deepcopy(RUN)
    found: dict[str, Any] = {
        "POST /v1/jobs": (201, job),
        "GET /v1/jobs": (200, page(job)),
        "GET /v1/runs": (200, page(run)),
        f"GET /v1/runs/{RUN_ID}": (200, run),
        f"POST /v1/runs/{RUN_ID}:cancel": (200, run),
        f"POST /v1/runs/{RUN_ID}:retry": (200, run | {"status": "RETRY_WAIT", "series": 2}),
        f"POST /v1/runs/{RUN_ID}:resolve": lambda asked: (200, run | {"status": asked.body["as"]}),
        "GET /v1/dlq": (200, page(DEAD)),
        f"GET /v1/dlq/{RUN_ID}": (200, run | DEAD),
        "POST /v1/dlq:redrive": lambda asked: (200, PLAN) if asked.body.get("dry_run") else (202, REDRIVE),
        "POST /v1/dlq:drop": lambda asked: (
            (200, {"total": 2, "dropped": 0, "more": False, "archive": True, "causes": []})
            if asked.body.get("dry_run")
            else (200, {"dropped": 2, "more": False, "archive": True})
        ),
        "GET /v1/redrives": (200, page(REDRIVE)),
        f"GET /v1/redrives/{REDRIVE_ID}": (200, REDRIVE),
        **{
            f"POST /v1/redrives/{REDRIVE_ID}:{verb}": (200, REDRIVE) for verb in ("pause", "resume", "continue", "stop")
        },
        **_of_backfills(),
        f"POST /v1/runs/{RUN_ID}:heartbeat": (
            200,
            {"lease_expires_at": "2026-09-28T12:01:00Z", "cancel_requested": False},
        ),
        f"POST /v1/runs/{RUN_ID}:complete": (200, run),
        f"POST /v1/runs/{RUN_ID}:release": (200, {**run, "status": "RETRY_WAIT"}),
        "POST /v1/task-queues/ledger/tasks:poll": (200, TASK),
        "GET /v1/workers": (200, page(WORKER)),
        "GET /v1/keys": (200, page(API_KEY)),
        f"GET /v1/keys/{KEY_ID}": (200, API_KEY),
        "POST /v1/keys": (201, {**API_KEY, "secret": SECRET}),
        f"POST /v1/keys/{KEY_ID}:rotate": (
            201,
            {**API_KEY, "secret": SECRET, "replaces": KEY_ID, "old_key_ends_at": "2026-09-29T00:00:00Z"},
        ),
        f"DELETE /v1/keys/{KEY_ID}": (200, {**API_KEY, "state": "REVOKED", "revoked_at": "2026-09-28T00:00:00Z"}),
        "GET /v1/audit": (200, page(*records())),
        "GET /v1/whoami": (200, {"tenant_id": "default", "team_id": "payments", "role": "operator", "key_id": KEY_ID}),
        "POST /v1/schedules:preview": (200, OCCURRENCES),
        "GET /v1/ops/snapshot": (200, SNAPSHOT),
        "GET /v1/ops/stream": lambda asked: (
            (200, EVENTS) if asked.query["topics"] == ["events"] else (404, problem(404, "ROUTE_NOT_FOUND"))
        ),
        "GET /v1/version": (200, {"version": "0.1.0", "tzdata": "2026f"}),
        "GET /healthz": (200, {"ok": True}),
        "GET /readyz": (200, {"ready": True}),
    }
    for name in ("digest", JOB_ID):
        found |= {
            f"GET /v1/jobs/{name}": (200, {**job, "recent_runs": [run]}),
            f"PATCH /v1/jobs/{name}": lambda asked: (200, {**job, **asked.body, "version": 8}),
            f"DELETE /v1/jobs/{name}": (200, {**job, "status": "CANCELLED", "next_run_at": None}),
            f"POST /v1/jobs/{name}:pause": (200, {**job, "status": "PAUSED"}),
            f"POST /v1/jobs/{name}:resume": (200, job),
            f"POST /v1/jobs/{name}:trigger": (200, run),
            f"POST /v1/jobs/{name}:backfill": lambda asked: (
                (200, BACKFILL_PLAN) if asked.body.get("dry_run") else (202, BACKFILL)
            ),
            f"POST /v1/jobs/{name}:skipNext": (200, {**job, "skipped": ["2026-09-29T12:00:00Z"], "version": 8}),
            f"GET /v1/jobs/{name}/runs": (200, page(run)),
            f"GET /v1/jobs/{name}/next": (200, OCCURRENCES),
            f"GET /v1/jobs/{name}/ledger": (200, LEDGER),
        }
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeServer

    def _serve(self) -> None:
        place = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        sent = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(sent) if sent else None
        asked = Asked(self.command, unquote(place.path), parse_qs(place.query), headers, body)
        reply = self.fake.reply(asked)
        if reply is None or reply[0] == 0:  # hang up without a word
            self.close_connection = True
            return
        status, doc, *rest = reply
        content = doc.encode() if isinstance(doc, str) else json.dumps(doc).encode()
        self.send_response(status)
        for name, value in (rest[0] if rest else {}).items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = do_HEAD = do_PUT = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer(_standard())
    handler = type("Handler", (_Handler,), {"fake": fake})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    httpd.daemon_threads = True
    fake.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield fake
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, a working directory and an environment of their own."""
    for name in list(os.environ):
        if name.startswith("SCHEDKIT_") or name in ("NO_COLOR", "PYTHONIOENCODING", "COLUMNS", "EDITOR", "VISUAL"):
            monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    return tmp_path


Cli = Callable[..., Result]


@pytest.fixture
def offline() -> Cli:
    """Run a command line in this process, with no server configured."""
    from schedkit.cli.app import app

    def call(*args: str, input: str | None = None, env: Mapping[str, str] | None = None) -> Result:
        return CliRunner().invoke(app, list(args), input=input, env=dict(env or {}), catch_exceptions=False)

    return call


@pytest.fixture
def cli(server: FakeServer, offline: Cli) -> Cli:
    """Run a command line in this process, against the fake server."""

    def call(*args: str, input: str | None = None, env: Mapping[str, str] | None = None) -> Result:
        return offline(*args, input=input, env={"SCHEDKIT_URL": server.url, **(env or {})})

    return call


def environment(**over: str) -> dict[str, str]:
    return {**os.environ, **over}


def process(*args: str, **over: str) -> subprocess.CompletedProcess[str]:
    """Run a command line as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "schedkit", *args],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(**over),
        timeout=60,
        check=False,
    )
