"""Embedded figures: adds per second, lag of a burst and of a steady stream, memory. Real process, real HTTP target.

    python -m benchmarks.embedded [--jobs 1000] [--json]

Machines differ and are noisy, so each figure also stands as a ratio to a yardstick measured in the same run: how many
JSON round trips of one job's document the machine does in that time, for each job.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import httpx
from aiohttp import web

from schedkit.model.time import rfc3339
from tests.e2e.processes import Up, until, up

BATCH: Final = 250
LEAD_MS: Final = 2_500  # jobs are created this long before they are due
STREAM_PER_SECOND: Final = 100
STREAM_SECONDS: Final = 5
YARDSTICK_S: Final = 1.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--jobs", type=int, default=1_000, help="jobs of the burst, due in one second and at one instant"
    )
    options.add_argument("--json", action="store_true", help="print one JSON document")
    chosen = options.parse_args()
    figures = measure(chosen.jobs)
    if chosen.json:
        json.dump(figures, sys.stdout, indent=2)
        return
    for name, value in figures.items():
        print(f"{name:<44} {value}")


def measure(jobs: int) -> dict[str, Any]:
    """Every figure, in the order it was taken."""
    load = os.getloadavg()[0]
    commit_ms = durable_commit_ms()
    loops = loops_per_second()
    figures: dict[str, Any] = {
        "load average before": round(load, 2),
        "yardstick: one durable commit, ms": round(commit_ms, 3),
        "yardstick: JSON round trips/s": round(loops),
    }
    with tempfile.TemporaryDirectory() as folder, target() as (url, calls), up(Path(folder), "--no-demo") as scheduler:
        figures["memory at rest, MiB"] = memory_mib(scheduler)
        with scheduler.client() as client:
            far = [job(url, 3_600_000 + 10 * number) for number in range(10 * BATCH)]
            adds = add(client, far)
            figures["durable adds/s (batchCreate)"] = round(adds)
            figures["adds per JSON round trip"] = round(adds / loops, 4)
            for name, gap_ms in (("in one second", 1_000 / jobs), ("at one instant", 0.0)):
                start = LEAD_MS + 2 * jobs
                expected = calls() + jobs
                add(client, [job(url, start + round(gap_ms * number), name) for number in range(jobs)])
                until(partial(reached, calls, expected), f"{jobs} calls", patience_s=120)
                lags = started(client, jobs, name)
                figures |= spread(f"{jobs} jobs due {name}", lags, loops / jobs)
            count = STREAM_PER_SECOND * STREAM_SECONDS
            gap_ms = 1_000 / STREAM_PER_SECOND
            expected = calls() + count
            add(client, [job(url, LEAD_MS + round(gap_ms * number), "steady") for number in range(count)])
            until(partial(reached, calls, expected), f"{count} calls", patience_s=120)
            figures |= spread(f"{STREAM_PER_SECOND}/s", started(client, count, "steady"), loops)
        figures["memory afterwards, MiB"] = memory_mib(scheduler)
        figures["calls the target saw"] = calls()
    return figures


def spread(name: str, lags: list[int], loops_per_second: float) -> dict[str, Any]:
    ordered = sorted(lags)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return {
        f"{name}: started": len(ordered),
        f"{name}: lag p50 / p99 / max, ms": f"{p50} / {p99} / {ordered[-1]}",
        f"{name}: p99 in JSON round trips (per job)": round(p99 / 1_000 * loops_per_second),
        f"{name}: early": sum(lag < 0 for lag in ordered),
    }


def job(url: str, in_ms: int, label: str = "far") -> dict[str, Any]:
    run_at = rfc3339(int(time.time() * 1_000) + in_ms)
    return {
        "schedule": {"type": "ONCE", "run_at": run_at},
        "target": {"url": url},
        "payload": {"n": 1},
        "labels": {"bench": label},
    }


def add(client: httpx.Client, jobs: list[dict[str, Any]]) -> float:
    """Create jobs in batches; returns jobs acknowledged per second."""
    began = time.perf_counter()
    for first in range(0, len(jobs), BATCH):
        answer = client.post("/v1/jobs:batchCreate", json={"jobs": jobs[first : first + BATCH]}, timeout=60)
        assert all(result["status"] == 201 for result in answer.json()["results"]), answer.text[:500]
    return len(jobs) / (time.perf_counter() - began)


def reached(calls: Callable[[], int], expected: int) -> bool | None:
    return calls() >= expected or None


def started(client: httpx.Client, count: int, label: str) -> list[int]:
    """Dispatch lag of every run of the jobs with this label. Asked after all were called: asking costs the server."""

    def look() -> list[int] | None:
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {"limit": "500", "label": f"bench={label}"} | ({"cursor": cursor} if cursor else {})
            page = client.get("/v1/jobs", params=query, timeout=30).json()
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None or len(items) >= count:
                break
        if len(items) < count or any(item["status"] == "SCHEDULED" for item in items):
            return None
        runs = [client.get(f"/v1/jobs/{item['job_id']}/runs").json()["items"][0] for item in items]
        return [run["lag_ms"] for run in runs]

    return until(look, f"{count} runs", patience_s=120)


def durable_commit_ms() -> float:
    """What writing 4 KiB and having it on disk takes here, now."""
    with tempfile.NamedTemporaryFile() as file:
        began, commits = time.perf_counter(), 0
        while time.perf_counter() - began < YARDSTICK_S:
            file.write(b"x" * 4_096)
            file.flush()
            os.fdatasync(file.fileno())
            commits += 1
        return 1_000 * (time.perf_counter() - began) / commits


def loops_per_second() -> float:
    document = job("http://127.0.0.1/", 0)
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < YARDSTICK_S:
        for _ in range(100):
            json.loads(json.dumps(document))
        rounds += 100
    return rounds / (time.perf_counter() - began)


def memory_mib(scheduler: Up) -> float:
    assert scheduler.process is not None
    status = Path(f"/proc/{scheduler.process.pid}/status").read_text()
    kib = int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])
    return round(kib / 1_024, 1)


@contextmanager
def target() -> Iterator[tuple[str, Any]]:
    """A fast target in a process of its own; gives its URL, and a function that says how many calls it saw."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    port = ours.recv()

    def calls() -> int:
        ours.send("calls")
        return int(ours.recv())

    try:
        yield f"http://127.0.0.1:{port}/work", calls
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection) -> None:
    async def serve() -> None:
        seen = 0

        async def work(request: web.Request) -> web.Response:
            nonlocal seen
            await request.read()
            seen += 1
            return web.Response()

        app = web.Application()
        app.router.add_post("/work", work)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2_048)
        await site.start()
        pipe.send(runner.addresses[0][1])
        while True:
            if pipe.poll():
                pipe.recv()
                pipe.send(seen)
            await asyncio.sleep(0.05)

    asyncio.run(serve())


if __name__ == "__main__":
    main()
