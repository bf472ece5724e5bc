"""Real processes: pipes, encodings, ctrl+c, completion, and what is imported before a line is answered."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, FakeServer, environment, process
from tests.cli.samples import JOB, RUN, page

HEAVY = ("boto3", "httpx", "textual", "aiohttp", "fastapi", "croniter", "uvicorn", "tzdata", "rich", "yaml", "tomlkit")
LOADED = """
import sys
from schedkit.__main__ import main
try:
    main()
finally:
    print([name for name in {!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["job", "create", "-h"], ["cron", "next", "--help"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(HEAVY), *args],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("args", [["--version"], []])
def test_the_shortest_answers_do_not_even_load_typer(args: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(("typer", "pydantic", "platformdirs")), *args],
        capture_output=True,
        text=True,
        env=environment(SCHEDKIT_CONFIG="/no/such/file"),
        check=True,
    )
    assert done.stderr.strip() == "[]"


def test_only_the_named_command_is_loaded() -> None:
    others = tuple(f"schedkit.cli.{name}" for name in ("cron", "context", "config", "up", "status"))
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(others), "job", "list", "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("over", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_pipe_has_the_full_url_and_no_escape_codes(over: dict[str, str], server: FakeServer) -> None:
    done = process("job", "list", SCHEDKIT_URL=server.url, **over)
    assert done.returncode == 0
    assert JOB["target"]["url"] in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "\t" in done.stdout


def test_a_closed_pipe_is_no_crash(server: FakeServer) -> None:
    server.answer("GET /v1/jobs", 200, page(*[JOB] * 2_000))
    done = subprocess.run(  # noqa: S602
        f"{sys.executable} -m schedkit job list -o jsonl | head -1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        env=environment(SCHEDKIT_URL=server.url),
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in ("0", "141")


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_names_the_encoding_cannot_show_are_escaped(form: str, server: FakeServer) -> None:
    server.answer("GET /v1/jobs", 200, page({**JOB, "name": "naïve 😀"}))
    done = process("job", "list", "-o", form, SCHEDKIT_URL=server.url, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "na\\xefve" in done.stdout or "na\\u00efve" in done.stdout or "na\\xEFve" in done.stdout
    if form == "json":
        assert json.loads(done.stdout)["items"][0]["name"] == "naïve 😀"


def test_ctrl_c_ends_a_tail_with_130(server: FakeServer) -> None:
    tail = subprocess.Popen(
        [sys.executable, "-m", "schedkit", "run", "tail"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(SCHEDKIT_URL=server.url),
    )
    assert tail.stdout is not None
    assert "ok     digest" in tail.stdout.readline()
    tail.send_signal(signal.SIGINT)
    _, errors = tail.communicate(timeout=20)
    assert (tail.returncode, errors) == (130, "")


def test_watch_in_a_pipe_flushes_each_line(server: FakeServer) -> None:
    server.answers["GET /v1/runs"] = [(200, page({**RUN, "status": "RUNNING"})), (200, page(RUN))]
    watch = subprocess.Popen(
        [sys.executable, "-m", "schedkit", "run", "list", "-w", "--interval", "100ms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(SCHEDKIT_URL=server.url),
    )
    assert watch.stdout is not None
    assert [json.loads(watch.stdout.readline())["status"] for _ in range(2)] == ["RUNNING", "SUCCEEDED"]
    watch.send_signal(signal.SIGINT)
    _, errors = watch.communicate(timeout=20)
    assert (watch.returncode, errors) == (130, "")


def test_a_directory_that_is_gone_is_no_crash(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(  # noqa: S602
        f"cd {gone} && rmdir {gone} && {sys.executable} -m schedkit cron next '0 8 * * *' -n 1 -q",
        shell=True,
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stderr == ""


def test_a_full_disk_and_closed_streams_are_no_crash() -> None:
    line = f"{sys.executable} -m schedkit completion bash"
    full = subprocess.run(  # noqa: S602
        f"{line} > /dev/full", shell=True, stderr=subprocess.PIPE, text=True, env=environment(), check=False
    )
    assert full.returncode == 1
    assert full.stderr.startswith("error: the output cannot be written: No space left on device  [OUTPUT_LOST]\n")
    assert "Traceback" not in full.stderr
    closed = subprocess.run(f"{line} >&- 2>&- <&-", shell=True, env=environment(), check=False)  # noqa: S602
    assert closed.returncode == 0


def test_a_leaf_starts_as_fast_as_a_small_app(tmp_path: Path) -> None:
    """CPU of `job list --help` against a Typer app of two commands: at most half as much again."""
    small = tmp_path / "small.py"
    small.write_text(
        "import typer\napp = typer.Typer()\n"
        "@app.command()\ndef one(count: int = 1) -> None: ...\n"
        "@app.command()\ndef two(count: int = 1) -> None: ...\napp()\n"
    )

    def cpu_s(*args: str) -> float:
        best = float("inf")
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *args], stdout=subprocess.DEVNULL, env=environment(), check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return best

    assert cpu_s("-m", "schedkit", "job", "list", "--help") <= 1.5 * cpu_s(str(small), "one", "--help")


def complete(line: str, **over: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "schedkit"],
        capture_output=True,
        text=True,
        env=environment(
            _SCHEDKIT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1), **over
        ),
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_knows_commands_flags_and_jobs(server: FakeServer, home: Path) -> None:
    assert complete("schedkit jo") == ["job"]
    assert complete("schedkit job pa") == ["pause"]
    assert "--misfire" in complete("schedkit job resume --mis")
    assert complete("schedkit job show di", SCHEDKIT_URL=server.url) == ["digest"]
    asked = len(server.asked)
    assert complete("schedkit job show di", SCHEDKIT_URL=server.url) == ["digest"]
    assert len(server.asked) == asked, "the second time from the cache"
    assert complete("schedkit explain epo") == ["epoch"]


def test_completion_is_quiet_when_the_server_is_down() -> None:
    assert complete("schedkit job show di", SCHEDKIT_URL="http://127.0.0.1:1") == []


def test_completion_scripts(offline: Cli, home: Path) -> None:
    for shell in ("bash", "zsh", "fish", "powershell"):
        assert "_SCHEDKIT_COMPLETE" in offline("completion", shell).stdout
    done = offline("completion", "bash", "--install")
    assert done.exit_code == 0
    assert (home / ".bashrc").exists()
    assert os.fspath(home) in done.stdout
    assert offline("completion", "tcsh").exit_code == 9
