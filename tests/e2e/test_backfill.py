"""A real scheduler makes up for what was missed, is killed in the middle of it, and goes on where it was."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from schedkit.model.time import MINUTE_MS, rfc3339
from tests.e2e.processes import target, until, up

MINUTES = 14
CAP = 4
WITHIN_S = 60


def test_a_backfill_outlives_its_process_and_runs_each_time_once(tmp_path: Path) -> None:
    """W14, C1: killed with SIGKILL after the first few; each minute is called under its own key, and none too fast."""
    with target() as there, up(tmp_path, "--no-demo") as scheduler:
        with scheduler.client() as api:
            hour = int(time.time() * 1_000) // (60 * MINUTE_MS) * 60 * MINUTE_MS
            schedule = {"type": "INTERVAL", "every_seconds": 60, "anchor_at": rfc3339(hour - 60 * MINUTE_MS)}
            body = {"name": "made-up", "schedule": schedule, "target": {"url": f"{there.url}/work"}}
            assert api.post("/v1/jobs", json=body).status_code == 201
            span = {"from": rfc3339(hour - 30 * MINUTE_MS), "to": rfc3339(hour - (30 - MINUTES) * MINUTE_MS)}
            begun = api.post("/v1/jobs/made-up:backfill", json=span | {"max_per_second": CAP})
            assert begun.status_code == 202, begun.text
            there.wait_for(5)
        scheduler.kill()
        scheduler.start()
        with scheduler.client() as api:

            def done() -> dict[str, Any] | None:
                found: dict[str, Any] = api.get(begun.headers["location"]).json()
                return found if found["state"] == "DONE" else None

            backfill = until(done, "the end of the backfill", WITHIN_S)
            runs = api.get("/v1/jobs/made-up/runs", params={"until": span["to"]}).json()["items"]
        assert (backfill["started"], backfill["succeeded"], backfill["left"]) == (MINUTES, MINUTES, {})
        assert {(run["status"], run["backfilled"]) for run in runs} == {("SUCCEEDED", True)}
        assert len(runs) == MINUTES
        past = [call for call in there.calls if call.key in {run["run_id"] for run in runs}]
        assert MINUTES <= len(past) <= MINUTES + 1  # one may have been out as the process was killed
        starts = sorted(call.started_at for call in past)
        assert max(sum(at <= other < at + 1 for other in starts) for at in starts) <= CAP + 1
