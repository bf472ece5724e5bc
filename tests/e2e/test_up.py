"""`schedkit up` as an operator meets it: what it prints, who may start, how it stops, what it says when it cannot."""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from schedkit.model.time import parse_rfc3339, rfc3339
from tests.e2e.processes import PATIENCE_S, Up, clock_at, environment, free_port, schedkit, target, until, up


def test_it_is_ready_soon_says_where_and_shows_a_first_run(tmp_path: Path) -> None:
    """First run: the banner names address, data and demo; a demo job runs within ten seconds of its time."""
    scheduler = Up(tmp_path).start()
    until(lambda: " ok " in scheduler.log.read_text() or None, "first demo run", patience_s=10)
    assert scheduler.stop() == 0
    printed = scheduler.log.read_text()
    assert "dev server: everything runs in this process, nothing leaves this machine" in printed
    assert f"API         {scheduler.url}" in printed
    assert "demo        5 jobs, 3 targets" in printed
    assert "ready in " in printed
    assert "stopping: " in printed
    assert "data kept in " in printed


def test_a_second_start_on_the_same_folder_says_who_holds_it(tmp_path: Path) -> None:
    with up(tmp_path, "--no-demo") as scheduler:
        assert scheduler.process is not None
        second = schedkit(tmp_path, "up", "--data", str(tmp_path / "data"), "--port", str(free_port()))
        assert second.returncode == 4
        assert f"already running (pid {scheduler.process.pid}) at {scheduler.url}" in second.stderr
        assert "[DATA_FOLDER_IN_USE]" in second.stderr
        assert f"schedkit down --data {tmp_path / 'data'}   stops it" in second.stderr


def test_a_taken_port_is_named_and_another_one_offered(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = schedkit(tmp_path, "up", "--data", str(tmp_path / "data"), "--port", str(port))
    assert refused.returncode == 4
    assert f"port {port}" in refused.stderr
    assert f"--port {port + 1}" in refused.stderr


def test_an_address_that_others_could_reach_is_refused(tmp_path: Path) -> None:
    """A3: without credentials the API is for this machine only."""
    refused = schedkit(tmp_path, "up", "--host", "0.0.0.0", "--data", str(tmp_path / "data"))  # noqa: S104
    assert refused.returncode == 5
    assert "nobody is asked for a key" in refused.stderr
    assert not (tmp_path / "data" / "dev.db").exists()


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"x" * 4_096], ids=["text", "a broken header"]
)
def test_a_corrupt_database_is_named_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "dev.db").write_bytes(content)
    refused = schedkit(tmp_path, "up", "--data", str(folder), "--port", str(free_port()))
    assert refused.returncode == 9
    assert "[DATABASE_CORRUPT]" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert (folder / "dev.db").read_bytes() == content


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    refused = schedkit(tmp_path, "up", "--data", str(tmp_path / "data"), "--port", str(free_port()))
    assert refused.returncode == 9
    assert "[DATA_FOLDER_UNUSABLE]" in refused.stderr


def test_a_full_disk_accepts_nothing_loses_nothing_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    """F11: 503 rather than accept what could not be stored. The disk is full for this process: a limit on file size."""
    scheduler = Up(tmp_path, "--no-demo").start()
    body = {"schedule": {"type": "INTERVAL", "every_seconds": 3_600}, "target": {"url": "http://127.0.0.1:9/"}}
    assert scheduler.process is not None
    pid = scheduler.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    with scheduler.client() as api:
        first = api.post("/v1/jobs", json=body)
        assert first.status_code == 201
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
        refused = api.post("/v1/jobs", json=body)
        assert (refused.status_code, refused.json()["reason"]) == (503, "STORE_UNAVAILABLE")
        assert int(refused.headers["Retry-After"]) > 0
        assert "nothing was accepted" in refused.json()["why"]
        assert api.get("/readyz").status_code == 503
        assert api.get(f"/v1/jobs/{first.json()['job_id']}").status_code == 200
        assert len(api.get("/v1/jobs").json()["items"]) == 1
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        assert api.post("/v1/jobs", json=body).status_code == 201
        assert api.get("/readyz").status_code == 200
    scheduler.kill()
    scheduler.start()
    with scheduler.client() as api:
        assert len(api.get("/v1/jobs").json()["items"]) == 2
    assert scheduler.stop() == 0


def test_sigterm_lets_a_call_in_flight_end(tmp_path: Path) -> None:
    """F10, shutdown: stop receiving, finish what fits, exit 0."""
    with target() as there:
        there.answers["/slow"] = lambda key, seen: (200, 1.0)
        scheduler = Up(tmp_path, "--no-demo").start()
        with scheduler.client() as api:
            soon = {"type": "ONCE", "run_at": rfc3339(int(time.time() * 1_000))}
            job = api.post("/v1/jobs", json={"schedule": soon, "target": {"url": f"{there.url}/slow"}}).json()
        there.wait_for(1)
        assert scheduler.process is not None
        scheduler.process.send_signal(signal.SIGTERM)
        assert scheduler.process.wait(20) == 0
        scheduler.start()
        with scheduler.client() as api:
            (run,) = api.get(f"/v1/jobs/{job['job_id']}/runs").json()["items"]
        assert (run["status"], run["epoch"]) == ("SUCCEEDED", 1)
        assert len(there.calls) == 1
        scheduler.stop()


def test_down_stops_a_detached_server_and_says_so_twice(tmp_path: Path) -> None:
    port = free_port()
    started = schedkit(tmp_path, "up", "--detach", "--no-demo", "--port", str(port))
    assert started.returncode == 0, started.stderr
    assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    stopped = schedkit(tmp_path, "down")
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped pid" in stopped.stdout
    again = schedkit(tmp_path, "down")
    assert (again.returncode, "nothing runs" in again.stdout) == (0, True)


@pytest.mark.parametrize(
    ("cron", "hour_before", "key", "following"),
    [
        ("30 1 * * *", "2026-11-01T04:30:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"),
        ("30 2 * * *", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"),
    ],
    ids=["the night with two 01:30s", "the night without 02:30"],
)
def test_both_clock_change_nights_in_new_york_run_once(
    tmp_path: Path, cron: str, hour_before: str, key: str, following: str
) -> None:
    """W3, in real scheduling: made an hour before, and run by a process whose clock is set to just before the time."""
    with target() as there:
        scheduler = Up(tmp_path, "--no-demo", env=clock_at(parse_rfc3339(hour_before))).start()
        with scheduler.client() as api:
            schedule = {"type": "CRON", "cron": cron, "time_zone": "America/New_York"}
            job = api.post("/v1/jobs", json={"schedule": schedule, "target": {"url": there.url + "/night"}}).json()
        assert job["next_run_at"] == key
        assert scheduler.stop() == 0
        env = clock_at(parse_rfc3339(key) - 1_500)
        scheduler.env |= env
        scheduler.start()
        until(lambda: there.calls or None, "the call")
        assert [call.key for call in there.calls] == [f"{job['job_id']}:{key}"]
        shift_ms = int(env["SCHEDKIT_CLOCK_OFFSET_MS"])
        assert there.calls[0].started_at * 1_000 + shift_ms >= parse_rfc3339(key), "never early"
        with scheduler.client() as api:
            assert api.get(f"/v1/jobs/{job['job_id']}").json()["next_run_at"] == following
        scheduler.stop()


def test_a_worker_that_waits_for_a_task_is_answered_when_the_scheduler_stops(tmp_path: Path) -> None:
    """F10: nobody is cut off, and the stop does not wait for the poll's twenty seconds."""
    with up(tmp_path, "--no-demo") as scheduler, ThreadPoolExecutor(1) as worker, scheduler.client() as api:
        asked = {"worker_id": "w1", "wait_seconds": 20, "max_tasks": 1}
        polling = worker.submit(
            httpx.post, f"{scheduler.url}/v1/task-queues/q/tasks:poll", json=asked, timeout=PATIENCE_S
        )
        until(lambda: api.get("/v1/workers").json()["items"] or None, "the poll")
        assert scheduler.stop() == 0
        assert (polling.result().status_code, polling.result().json()) == (200, {"tasks": []})


def test_a_second_signal_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    """F10: the run whose call was cut off is called again, with the same key and a higher token."""
    with target() as there:
        there.answers["/hang"] = lambda key, seen: (200, 3.0 if seen == 1 else 0.0)
        scheduler = Up(tmp_path, "--no-demo").start()
        with scheduler.client() as api:
            soon = {"type": "ONCE", "run_at": rfc3339(int(time.time() * 1_000))}
            api.post("/v1/jobs", json={"schedule": soon, "target": {"url": f"{there.url}/hang"}})
        there.wait_for(1)
        assert scheduler.process is not None
        scheduler.process.send_signal(signal.SIGINT)
        until(lambda: "stopping: 1 run in flight" in scheduler.log.read_text() or None, "the first signal's answer")
        scheduler.process.send_signal(signal.SIGINT)
        assert scheduler.process.wait(10) == 130
        scheduler.start()
        there.wait_for(2)
        until(lambda: len(there.calls) == 2 or None, "both calls to end")
        tokens = sorted(call.token for call in there.calls)
        assert tokens == [1, 2]
        assert len({call.key for call in there.calls}) == 1
        scheduler.stop()


def test_version_answers_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    script = "import sys; sys.argv=['schedkit','--version']\nfrom schedkit.__main__ import main\nmain()\n"
    script += "heavy = {'typer', 'rich', 'httpx', 'fastapi', 'pydantic'} & set(sys.modules)\nassert not heavy, heavy"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(tmp_path), check=False
    )
    assert (done.returncode, done.stdout.startswith("schedkit ")) == (0, True), done.stderr
