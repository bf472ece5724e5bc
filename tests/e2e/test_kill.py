"""kill -9 under load: every acknowledged job runs, none early, and a second call has a kill to explain it."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import httpx

from schedkit.model.time import parse_rfc3339, rfc3339
from tests.e2e.processes import Up, target, until, up

JOBS = 600
SPREAD_MS = 6_000
KILLS = 3
CALL_S = 0.05
SENT_S = 0.5  # what a killed process had sent may be taken up by a loaded target this much later
SETTLE_S = 0.5  # after its call ended, a run may still have waited this long for its commit on a loaded machine


def test_600_jobs_survive_three_kills_at_random_moments(tmp_path: Path) -> None:
    """C1, C2, C3, C4: all run, none early, second calls only for calls in flight at a kill, with the same key."""
    chance = random.Random(20261101)
    with target() as there, up(tmp_path, "--no-demo") as scheduler:
        there.answers["/work"] = lambda key, seen: (200, CALL_S)
        acknowledged = create_jobs(scheduler, there.url, chance)
        kills = []
        for number in range(KILLS):  # each at a random moment of its own third of the work
            share = JOBS * (number + chance.uniform(0.2, 0.9)) / KILLS
            there.wait_for_keys(round(share))
            kills.append(scheduler.kill())
            scheduler.start()
        final = until(lambda: all_ended(scheduler), "end of every job", patience_s=90)
        assert scheduler.stop() == 0
        calls = list(there.calls)

    assert {job["job_id"] for job in final} == set(acknowledged)
    assert {job["status"] for job in final} == {"COMPLETED"}
    by_key: dict[str, list[Any]] = {}
    for call in sorted(calls, key=lambda call: call.started_at):
        by_key.setdefault(call.key, []).append(call)
    assert set(by_key) == {f"{job_id}:{run_at}" for job_id, run_at in acknowledged.items()}
    for key, series in by_key.items():
        assert series[0].started_at * 1_000 >= parse_rfc3339(key.partition(":")[2]), "never early"
        tokens = [call.token for call in series]
        assert tokens == sorted(set(tokens)), "each call has a higher fencing token than the one before"
        for earlier in series[:-1]:
            in_flight = [at for at in kills if earlier.started_at - SENT_S <= at <= earlier.ended_at + SETTLE_S]
            assert in_flight, f"{key} was called again, and no kill explains it"


def create_jobs(scheduler: Up, url: str, chance: random.Random) -> dict[str, str]:
    """job_id → run_at of every create that was acknowledged, due from one second on."""
    start = int(time.time() * 1_000) + 1_500
    jobs = [
        {
            "schedule": {"type": "ONCE", "run_at": rfc3339(start + chance.randrange(SPREAD_MS))},
            "target": {"url": f"{url}/work"},
            "payload": {"number": number},
        }
        for number in range(JOBS)
    ]
    acknowledged = {}
    with scheduler.client() as client:
        for first in range(0, JOBS, 200):
            answer = client.post("/v1/jobs:batchCreate", json={"jobs": jobs[first : first + 200]})
            for result in answer.json()["results"]:
                assert result["status"] == 201, result
                acknowledged[result["job"]["job_id"]] = result["job"]["next_run_at"]
    return acknowledged


def all_ended(scheduler: Up) -> list[dict[str, Any]] | None:
    """Every job, once none of them is SCHEDULED any more."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    with scheduler.client() as client:
        while True:
            parameters = httpx.QueryParams({"limit": "500"} | ({"cursor": cursor} if cursor else {}))
            page = client.get("/v1/jobs", params=parameters).json()
            found += page["items"]
            cursor = page["next_cursor"]
            if any(job["status"] == "SCHEDULED" for job in page["items"]):
                return None
            if cursor is None:
                return found
