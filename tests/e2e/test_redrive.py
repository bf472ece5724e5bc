"""A real scheduler starts dead letters again at its cap, is killed in the middle of it, and goes on where it was."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from schedkit.model.time import rfc3339
from tests.e2e.processes import target, until, up

LETTERS = 14
CAP = 4
WITHIN_S = 60


def test_a_redrive_outlives_its_process_and_keeps_its_cap(tmp_path: Path) -> None:
    """F6, I19, C1: killed with SIGKILL after the first few; each run is called once more, none faster than the cap."""
    with target() as there, up(tmp_path, "--no-demo") as scheduler:
        there.answers["/work"] = lambda key, seen: (400 if seen == 1 else 200, 0.0)
        with scheduler.client() as api:
            due = rfc3339(int(time.time() * 1_000) + 300)
            for _ in range(LETTERS):
                body = {"schedule": {"type": "ONCE", "run_at": due}, "target": {"url": f"{there.url}/work"}}
                assert api.post("/v1/jobs", json=body).status_code == 201

            def dead() -> list[Any] | None:
                items: list[Any] = api.get("/v1/dlq").json()["items"]
                return items if len(items) == LETTERS else None

            until(dead, f"{LETTERS} dead letters")
            asked = {"filter": {}, "max_per_second": CAP, "canary": 1, "goes_on": True}
            begun = api.post("/v1/dlq:redrive", json=asked)
            assert begun.status_code == 202, begun.text
            there.wait_for(LETTERS + 5)
        scheduler.kill()
        scheduler.start()
        with scheduler.client() as api:

            def done() -> dict[str, Any] | None:
                found: dict[str, Any] = api.get(begun.headers["location"]).json()
                return found if found["state"] == "DONE" else None

            redrive = until(done, "the end of the redrive", WITHIN_S)
        assert redrive["redriven"] == redrive["succeeded"] == LETTERS
        again = sorted(call.started_at for call in there.calls if call.token > 1)
        assert len({call.key for call in there.calls if call.token > 1}) == LETTERS
        assert LETTERS <= len(again) <= LETTERS + 1  # one may have been out as the process was killed
        assert max(sum(at <= other < at + 1 for other in again) for at in again) <= CAP + 1
