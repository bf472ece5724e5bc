"""A backup of a scheduler under load, put back on a new folder: nothing acknowledged is lost, and tokens only rise."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from schedkit.model.time import parse_rfc3339, rfc3339
from tests.e2e.processes import Up, schedkit, target, until, up
from tests.e2e.test_keys import first_admin, run
from tests.e2e.test_kill import JOBS, all_ended, create_jobs

SPREAD_S = 4


def keep_creating(scheduler: Up, url: str, acknowledged: dict[str, float], stop: threading.Event) -> None:
    """Create jobs one after the other, due within seconds; remember when each was acknowledged."""
    chance = random.Random(5)
    with scheduler.client() as client, contextlib.suppress(httpx.HTTPError):  # until it is killed
        while not stop.is_set():
            at = int(time.time() * 1_000) + chance.randrange(500, SPREAD_S * 1_000)
            body = {"schedule": {"type": "ONCE", "run_at": rfc3339(at)}, "target": {"url": f"{url}/work"}}
            answer = client.post("/v1/jobs", json=body)
            assert answer.status_code == 201, answer.text
            acknowledged[answer.json()["job_id"]] = time.time()


def test_a_backup_under_load_restored_elsewhere_loses_nothing_and_repeats_under_higher_tokens(tmp_path: Path) -> None:
    """C1, C4: what was acknowledged before the backup is there, runs, and no target sees a token twice or fall."""
    acknowledged: dict[str, float] = {}
    stop = threading.Event()
    with target() as there:
        there.answers["/work"] = lambda key, seen: (200, 0.05)
        with up(tmp_path, "--no-demo") as scheduler:
            create_jobs(scheduler, there.url, random.Random(3))
            load = threading.Thread(target=keep_creating, args=(scheduler, there.url, acknowledged, stop))
            load.start()
            there.wait_for_keys(100)
            began = time.time()
            taken = schedkit(tmp_path, "backup", "b.db", "--data", "data", "-o", "json")
            assert taken.returncode == 0, taken.stderr
            there.wait_for_keys(300)  # it goes on, and what it does now the backup knows nothing of
            scheduler.kill()
            stop.set()
            load.join()
        found = json.loads(taken.stdout)
        assert found["jobs"] >= JOBS
        done = schedkit(tmp_path, "restore", "b.db", "--data", "second/data", "-o", "json")
        assert done.returncode == 0, done.stderr
        with up(tmp_path / "second", "--no-demo") as second:
            ended = until(lambda: all_ended(second), "end of every job", patience_s=90)
        calls = list(there.calls)

    names = {job["job_id"] for job in ended}
    assert {job_id for job_id, at in acknowledged.items() if at < began} <= names
    assert {job["status"] for job in ended} == {"COMPLETED"}
    floor = json.loads(done.stdout)["epoch_floor"]
    by_key: dict[str, list[Any]] = {}
    for call in sorted(calls, key=lambda call: call.started_at):
        by_key.setdefault(call.key, []).append(call)
    assert {key.partition(":")[0] for key in by_key} >= names
    repeated = 0
    for key, series in by_key.items():
        tokens = [call.token for call in series]
        assert tokens == sorted(set(tokens)), key
        repeated += any(token <= floor for token in tokens) and any(token > floor for token in tokens)
    assert repeated, "some ran in both worlds, under one key"


def test_keys_and_the_audit_log_go_on_after_a_restore_on_another_machine(tmp_path: Path) -> None:
    with up(tmp_path, "--auth", "api-key", "--no-demo") as keyed:
        first_admin(keyed)
        taken = run(keyed, "backup", "b.db", "--data", "data")
        assert "their pepper is in it" in taken.stdout
        assert run(keyed, "key", "create", "late", "--out", "late.key").returncode == 0
        ends = json.loads(run(keyed, "audit", "verify", "-o", "json").stdout)["ends"]
    second = tmp_path / "second"
    done = schedkit(tmp_path, "restore", "b.db", "--data", "second/data", "--reason", "disk died", "-o", "json")
    assert done.returncode == 0, done.stderr
    with up(second, "--auth", "api-key", "--no-demo") as there:
        run(there, "context", "add", "here", "--url", there.url, "--token-file", str(tmp_path / "admin.key"))
        run(there, "context", "use", "here")
        verified = run(there, "audit", "verify", "-o", "json")
        assert verified.returncode == 0, verified.stderr + verified.stdout
        said = json.loads(verified.stdout)
        assert [restore["taken_at"] for restore in said["restores"]] == [json.loads(done.stdout)["taken_at"]]
        assert parse_rfc3339(said["restores"][0]["at"]) >= parse_rfc3339(said["restores"][0]["taken_at"])
        listed = json.loads(run(there, "audit", "list", "-o", "json").stdout)["items"]
        assert [(record["action"], record["given"]) for record in listed] == [
            ("restore", "disk died"),
            ("bootstrap_key", None),
        ]
        cut = run(there, "audit", "verify", "--expect", ends[0])
        assert cut.returncode == 10
        assert "it may have been lost in a restore" in cut.stdout
        assert run(there, "-c", "here", "job", "list").returncode == 0
        run(there, "context", "add", "late", "--url", there.url, "--token-file", str(tmp_path / "late.key"))
        assert run(there, "-c", "late", "job", "list").returncode == 5, "made after the backup: it is not known"
