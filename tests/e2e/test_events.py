"""The stream of a real process: events as they happen, readers that do not read, the end of the process."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from schedkit import embedded
from schedkit.model.events import Event, EventKind
from schedkit.model.time import rfc3339
from schedkit.roles.feed import Feed
from tests.e2e.processes import Up, free_port, schedkit, target, until, up
from tests.e2e.test_keys import first_admin, run


def create(scheduler: Up, url: str, count: int, after_ms: int = 300, **fields: Any) -> None:
    at = rfc3339(int(time.time() * 1_000) + after_ms)
    body = {"schedule": {"type": "ONCE", "run_at": at}, "target": {"url": f"{url}/work"}, **fields}
    with scheduler.client() as client:
        for first in range(0, count, 500):
            answer = client.post("/v1/jobs:batchCreate", json={"jobs": [body] * min(500, count - first)})
            assert answer.status_code == 200, answer.text


def test_events_and_a_tail_follow_a_scheduler_through_a_restart(tmp_path: Path) -> None:
    with target() as there, up(tmp_path, "--no-demo") as scheduler:
        lines = tmp_path / "events.jsonl"
        with lines.open("wb") as out:
            following = subprocess.Popen(
                [sys.executable, "-m", "schedkit", "events", "--kind", "run,audit", "--since", "1m"],
                stdout=out, stderr=subprocess.STDOUT, env=scheduler.env | {"SCHEDKIT_URL": scheduler.url},
            )  # fmt: skip
            tail = subprocess.Popen(
                [sys.executable, "-m", "schedkit", "run", "tail", "-o", "jsonl", "--interval", "60s", "--limit", "1"],
                stdout=subprocess.PIPE, env=scheduler.env | {"SCHEDKIT_URL": scheduler.url},
            )  # fmt: skip

            def settled(count: int) -> bool | None:
                return lines.read_text().count('"settle SUCCEEDED"') >= count or None

            create(scheduler, there.url, 3, after_ms=2_000)
            until(lambda: settled(3), "events")
            out_of_tail, _ = tail.communicate(timeout=30)
            assert json.loads(out_of_tail.splitlines()[0])["status"] == "SUCCEEDED", "long before its interval"
            began = time.monotonic()
            scheduler.stop()
            assert time.monotonic() - began < 5, "a stream does not keep the process"
            scheduler.start()
            create(scheduler, there.url, 2)
            until(lambda: settled(5), "events after the restart")
            following.send_signal(signal.SIGINT)
            assert following.wait(20) == 130
        told = [json.loads(line) for line in lines.read_text().splitlines() if line.startswith("{")]
        assert {event["kind"] for event in told} == {"run", "audit"}
        assert "some events were lost: the scheduler was started anew" in lines.read_text()
        listed = schedkit(tmp_path, "events", "--no-follow", "-o", "json", url=scheduler.url)
        assert {"lease", "run"} <= {event["kind"] for event in json.loads(listed.stdout)["items"]}


async def test_a_reader_that_does_not_read_holds_nobody_up_and_is_told_what_it_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory does not grow with it: what it has not fetched stands in the ring, or is gone."""
    monkeypatch.setattr(embedded, "Feed", partial(Feed, kept=50))
    settings = embedded.Settings(data=None, port=free_port(), demo=False, grace_ms=0)
    listener = embedded.listen(settings)
    async with embedded.running(settings) as scheduler, asyncio.timeout(60):
        server = embedded.server_of(scheduler)
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.port, limit=1_024)
        writer.write(b"GET /v1/ops/stream?topics=events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        text = "x" * 1_000
        for number in range(60_000):  # far more than the buffers of two sockets hold
            scheduler.feed.add(Event(EventKind.ALERT, "WARNING", number, "test", facts={"text": text}))
            if number % 50 == 0:
                await asyncio.sleep(0)
        assert (await asyncio.to_thread(httpx.get, f"{settings.url}/healthz")).status_code == 200
        seen = b""
        while b"event: gap" not in seen:
            piece = await reader.read(65_536)
            assert piece, "it ended without a word"
            seen = seen[-100:] + piece
        writer.close()
        scheduler.feed.close()
        server.should_exit = True
        await serving
    listener.close()


def test_a_team_hears_of_its_own_runs_only(tmp_path: Path) -> None:
    with target() as there, up(tmp_path, "--auth", "api-key", "--no-demo") as keyed:
        secret = first_admin(keyed)
        made = run(keyed, "key", "create", "them", "--role", "viewer", "--team", "payments", "--out", "them.key")
        assert made.returncode == 0, made.stderr
        theirs = (tmp_path / "them.key").read_text().strip()
        at = rfc3339(int(time.time() * 1_000) + 200)
        body = {"schedule": {"type": "ONCE", "run_at": at}, "target": {"url": f"{there.url}/work"}}
        answer = httpx.post(f"{keyed.url}/v1/jobs", json=body, headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code == 201, answer.text

        def said(token: str) -> str:
            query = {"topics": "events,runs", "since": "2026-01-01T00:00:00Z", "follow": "false"}
            found = httpx.get(f"{keyed.url}/v1/ops/stream", params=query, headers={"Authorization": f"Bearer {token}"})
            assert found.status_code == 200, found.text
            return found.text

        until(lambda: "event: run" in said(secret) or None, "end of the run")
        assert '"kind":"audit"' in said(secret)
        assert "event: event" not in said(theirs)
        assert "event: run" not in said(theirs)
        assert httpx.get(f"{keyed.url}/v1/ops/stream").status_code == 401
