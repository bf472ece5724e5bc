"""A scheduler to be fuzzed: the real one on a free loopback port over a fresh folder, whose calls go nowhere.

Jobs may name any target, so what is called answers from memory: no fuzzed URL is ever looked up or connected to.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit
from zlib import crc32

import httpx

from schedkit import profiles
from schedkit.api.access import Auth
from schedkit.api.keys import make_key
from schedkit.embedded import Embedded, Settings, keyring_of, listen, running, server_of
from schedkit.model.access import Caller, Role
from schedkit.model.calls import Answered, Call, NoAnswer, Reply
from tests.e2e.processes import until

REPLIES: tuple[Reply, ...] = (
    Answered(200, "{}"),
    Answered(503),
    Answered(404),
    NoAnswer("no answer within the timeout"),
)


class Nowhere:
    """Targets that are not there. What comes back follows from the path, or else from the run."""

    def __init__(self, **_: Any) -> None: ...

    async def call(self, call: Call) -> Reply:
        named = {"/done": REPLIES[0], "/broken": REPLIES[2], "/lost": REPLIES[3]}
        key = call.headers["Idempotency-Key"].encode()
        return named.get(urlsplit(call.url).path, REPLIES[crc32(key) % len(REPLIES)])


@dataclass(frozen=True, slots=True)
class Served:
    """Where it listens, the headers of an admin, and for each path parameter what really has such a name."""

    url: str
    headers: dict[str, str]
    names: dict[str, list[str]]


@contextmanager
def served(folder: Path, auth: Auth) -> Iterator[Served]:
    """It runs in a thread of this process, and is gone afterwards."""
    ready, stop = threading.Event(), threading.Event()
    found: list[Any] = []

    async def serve() -> None:
        listener = listen(Settings(port=0))
        settings = Settings(
            data=folder, port=listener.getsockname()[1], demo=False, auth=auth, grace_ms=1_000, trusted_proxies="*"
        )
        async with running(settings) as scheduler:
            server = server_of(scheduler)
            serving = asyncio.create_task(server.serve([listener]))
            found.append((settings.url, await _admin(scheduler) if auth is not Auth.NONE else {}))
            ready.set()
            await asyncio.to_thread(stop.wait)
            scheduler.workers.close()
            server.should_exit = True
            await serving

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            found.append(error)
        ready.set()

    with patch.object(profiles, "HttpTargets", Nowhere):
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        ready.wait()
        if isinstance(found[0], BaseException):
            raise found[0]
        url, headers = found[0]
        try:
            with httpx.Client(base_url=url, headers=headers) as client:
                yield Served(url, headers, _made(client, auth))
        finally:
            stop.set()
            thread.join()


async def _admin(scheduler: Embedded) -> dict[str, str]:
    keyring = keyring_of(scheduler.settings)
    _, text = await make_key(scheduler.world, keyring, Caller(), "fuzz", "default", Role.ADMIN, None)
    return {"Authorization": f"Bearer {text}"}


def _made(client: httpx.Client, auth: Auth) -> dict[str, list[str]]:
    """A world in which something has happened: runs of every kind, dead letters, a redrive, a worker's run, a key."""

    def ask(method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = client.request(method, path, json=body or None)
        assert answer.is_success, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def ended(run_id: str) -> str | None:
        return run_id if ask("GET", f"/v1/runs/{run_id}")["finished_at"] else None

    daily = {"type": "CRON", "cron": "0 8 * * *", "time_zone": "Europe/Berlin"}
    runs = []
    for name, path, more in (
        ("digest", "/done", {}),
        ("broken", "/broken", {}),
        ("lost", "/lost", {"delivery": "AT_MOST_ONCE"}),
    ):
        ask("POST", "/v1/jobs", name=name, schedule=daily, target={"url": f"https://email.example{path}"}, **more)
        for _ in range(2):
            run_id = ask("POST", f"/v1/jobs/{name}:trigger")["run_id"]
            runs.append(until(partial(ended, run_id), "end of a run"))
    ask("POST", "/v1/jobs", name="rebuild", schedule=daily, target={"task_queue": "ledgers", "lease_seconds": 3_600})
    ask("POST", "/v1/jobs/rebuild:trigger")
    held = ask("POST", "/v1/task-queues/ledgers/tasks:poll", worker_id="ledgers-1")
    redrive = ask("POST", "/v1/dlq:redrive", filter={"run_ids": runs[2:3]}, canary=1)
    keys = [ask("POST", "/v1/keys", name="spare", role="viewer")["key_id"]] if auth is not Auth.NONE else []
    return {
        "ref": ["digest", "broken", "lost", "rebuild", held["job_id"]],
        "run_id": [*runs, held["run_id"]],
        "redrive_id": [redrive["redrive_id"]],
        "key_id": keys,
    }
