"""`worker run` and `worker exec` as processes of their own: signals, kill -9, reloads, a worker that was stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedkit.testing import FakeServer
from tests.e2e.processes import environment, schedkit, until
from tests.worker.jobs import ended, job
from tests.worker.pids import gone, lives, pids_in

SHORT = {"lease_seconds": 5}

MODULE = """
import pathlib, threading
from schedkit.worker import Fail, Task, Worker

w = Worker("QUEUE")

@w.task
def work(task: Task, do: str = "nothing") -> str:
    if do == "wait":
        pathlib.Path("began").touch()
        while not pathlib.Path("go").exists():
            threading.Event().wait(0.01)
    if do == "fail":
        raise Fail("no such ledger")
    return "first"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


class Process:
    """A command line at work in a folder; what it says goes to files there."""

    def __init__(self, folder: Path, url: str, *args: str) -> None:
        self.out, self.err = folder / f"{args[1]}.out", folder / f"{args[1]}.err"
        env = environment(folder) | {"SCHEDKIT_URL": url, "TZ": "UTC"}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "schedkit", *args], stdout=out, stderr=err, cwd=folder, env=env
            )

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def said(self, text: str) -> bool | None:
        """Whether it has said this on stderr."""
        return text in self.err.read_text() or None


@contextmanager
def running(folder: Path, url: str, *args: str) -> Iterator[Process]:
    process = Process(folder, url, "worker", *args)
    try:
        yield process
    finally:
        if process.popen.poll() is None:
            process.popen.send_signal(signal.SIGCONT)
            process.popen.kill()
        process.popen.wait()


def module(folder: Path, queue: str) -> None:
    (folder / "worker.py").write_text(MODULE.replace("QUEUE", queue))


def test_a_module_s_worker_does_tasks_and_prints_a_line_for_each(server: FakeServer, tmp_path: Path) -> None:
    module(tmp_path, "lines")
    good, bad = (job(server.client, "lines", {"do": do}, name=f"lines-{do}") for do in ("nothing", "fail"))
    with running(tmp_path, server.url, "run", "worker:w") as process:
        assert ended(good, "SUCCEEDED")["result"] == '"first"'
        ended(bad, "FAILED")
        until(lambda: process.out.read_text().count("\n") == 2 or None, "two lines")
        process.signal(signal.SIGTERM)
        assert process.popen.wait(10) == 0
    first, second = sorted(line.split("  ", 1)[1] for line in process.out.read_text().splitlines())
    assert first.startswith("fail   lines-fail    no such ledger, after ")
    assert second.startswith("ok     lines-nothing  in ")
    assert f" waiting on lines at {server.url}: work (10 at once)" in process.err.read_text()


def test_lines_are_documents_for_programs_and_none_at_all_when_quiet(server: FakeServer, tmp_path: Path) -> None:
    module(tmp_path, "elsewhere")
    flags = ("--queue", "documents", "--concurrency", "2")
    with running(tmp_path, server.url, "run", "worker:w", *flags, "-o", "jsonl", "-v") as process:
        run = ended(job(server.client, "documents"), "SUCCEEDED")
        until(lambda: process.out.read_text().count("\n") == 2 or None, "two documents")
    began, done = (json.loads(line) for line in process.out.read_text().splitlines())
    assert (began["event"], done["event"], done["outcome"]) == ("began", "ended", "SUCCEEDED")
    assert done["run_id"] == run["run_id"]
    with running(tmp_path, server.url, "run", "worker:w", *flags, "-q") as process:
        ended(job(server.client, "documents"), "SUCCEEDED")
        process.signal(signal.SIGINT)
        assert process.popen.wait(10) == 0
    assert process.out.read_text() + process.err.read_text() == ""


def test_a_worker_that_is_told_to_end_lets_its_task_end_and_takes_no_more(server: FakeServer, tmp_path: Path) -> None:
    module(tmp_path, "drains")
    run = job(server.client, "drains", {"do": "wait"})
    with running(tmp_path, server.url, "run", "worker:w") as process:
        until(lambda: (tmp_path / "began").exists() or None, "task")
        process.signal(signal.SIGTERM)
        until(lambda: process.said("stopping: tasks in hand have 30s to end"), "word")
        later = job(server.client, "drains")
        assert process.popen.poll() is None
        (tmp_path / "go").touch()
        assert process.popen.wait(10) == 0
    assert run()["status"] == "SUCCEEDED"
    assert later()["status"] == "RETRY_WAIT"


def test_a_second_signal_ends_a_worker_and_its_programs_at_once(server: FakeServer, tmp_path: Path) -> None:
    job(server.client, "twice")
    with running(
        tmp_path, server.url, "exec", "twice", "--", "sh", "-c", "trap '' TERM; echo $$ > pids; sleep 300; sleep 300"
    ) as process:
        pids = pids_in(tmp_path / "pids", 1)
        process.signal(signal.SIGINT)
        until(lambda: process.said("once more ends at once"), "word")
        process.signal(signal.SIGINT)
        assert process.popen.wait(10) == 130
    gone(pids)


def test_kill_9_of_a_worker_ends_its_programs_and_their_children(server: FakeServer, tmp_path: Path) -> None:
    job(server.client, "killed")
    with running(
        tmp_path, server.url, "exec", "killed", "--", "sh", "-c", "sleep 300 & echo $$ $! > pids; wait"
    ) as process:
        pids = pids_in(tmp_path / "pids", 2)
        process.popen.kill()
        gone(pids)


def test_a_worker_gives_back_a_program_that_does_not_end_in_time(server: FakeServer, tmp_path: Path) -> None:
    run = job(server.client, "in-time", name="stubborn")
    script = "trap 'echo stopped; exit 1' TERM; echo $$ > pids; sleep 300 & wait"
    with running(
        tmp_path, server.url, "exec", "in-time", "--drain-timeout", "100ms", "--", "sh", "-c", script
    ) as process:
        pids = pids_in(tmp_path / "pids", 1)
        process.signal(signal.SIGTERM)
        assert process.popen.wait(10) == 0
    assert not any(map(lives, pids))
    assert run()["attempts"][0]["outcome"] == "RELEASED"
    assert "stubborn | stopped\n" in process.out.read_text()
    assert "  back   stubborn      given back for another worker, after " in process.out.read_text()
    assert "1 task given back for other workers\n" in process.err.read_text()


def test_a_worker_that_reloads_runs_the_code_as_it_is_now(server: FakeServer, tmp_path: Path) -> None:
    module(tmp_path, "reload")
    source = tmp_path / "worker.py"
    with running(tmp_path, server.url, "run", "worker:w", "--reload") as process:
        assert ended(job(server.client, "reload"), "SUCCEEDED")["result"] == '"first"'
        code = source.read_text()
        source.write_text("def")
        until(lambda: process.said("worker cannot be imported: SyntaxError"), "refusal")
        source.write_text(code.replace("first", "second"))
        assert ended(job(server.client, "reload"), "SUCCEEDED")["result"] == '"second"'
        process.signal(signal.SIGTERM)
        assert process.popen.wait(10) == 0
    assert process.err.read_text().count("worker.py changed: starting anew") == 2


def test_a_worker_that_was_stopped_past_its_lease_loses_its_run_to_another(server: FakeServer, tmp_path: Path) -> None:
    """C5, H5, H6. Half a minute: so long have workers to be heard of before the first run is taken from one."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    script = "echo $$ >> pids; [ $SCHEDKIT_EPOCH = 2 ] && exit 0; sleep 300"
    command = ("exec", "stopped", "--kill-grace", "1s", "--", "sh", "-c", script)
    run = job(server.client, "stopped", target=SHORT)
    with running(first, server.url, *command) as holder:
        pids = pids_in(first / "pids", 1)
        holder.signal(signal.SIGSTOP)
        with running(second, server.url, *command):
            done = until(lambda: found if (found := run())["status"] == "SUCCEEDED" else None, "take-over", 60)
        assert all(map(lives, pids)), "nobody told it anything yet"
        late = ("worker", "complete", done["run_id"], "--epoch", "1", "--outcome", "succeeded")
        refused = schedkit(tmp_path, *late, url=server.url)
        assert refused.returncode == 4
        assert "[EPOCH_SUPERSEDED]" in refused.stderr
        holder.signal(signal.SIGCONT)
        gone(pids)
        until(lambda: "  lost   " in holder.out.read_text() or None, "word")
    assert [(attempt["epoch"], attempt["outcome"]) for attempt in run()["attempts"]] == [
        (1, "LEASE_EXPIRED"),
        (2, "SUCCEEDED"),
    ]
    assert run() == done
