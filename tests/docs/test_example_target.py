"""The target that the README shows is a real one: called by a real scheduler, it does its work once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.docs.console import ROOT, blocks
from tests.e2e.processes import free_port, schedkit, until, up

EXAMPLE = ROOT / "docs" / "examples" / "target.py"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, str(EXAMPLE), str(port)], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _listens(url), "target")
        yield url
    finally:
        process.kill()
        process.wait()


def _listens(url: str) -> bool | None:
    try:
        return httpx.get(url).status_code == 501
    except httpx.HTTPError:
        return None


def mails(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "target.db")) as db:
        return [row[0] for row in db.execute("select text from mails")]


def test_the_readme_shows_it() -> None:
    shown = [text for _, text in blocks(ROOT / "README.md", "python")]
    assert EXAMPLE.read_text(encoding="utf-8") in shown


def test_a_scheduler_calls_it(target: str, tmp_path: Path) -> None:
    with up(tmp_path, "--no-demo"):
        done = schedkit(
            tmp_path, "job", "create", "--name", "mail", "--in", "0s", "--target", target, "--payload", '"hi"', "--wait"
        )
    assert done.returncode == 0, done.stderr
    assert mails(tmp_path) == ['"hi"']


def test_a_second_call_does_nothing_again_and_a_stale_token_is_refused(target: str, tmp_path: Path) -> None:
    def call(token: int) -> int:
        headers = {"Idempotency-Key": "job_1:2026-09-28T12:00:00Z", "X-Fencing-Token": str(token)}
        return httpx.post(target, headers=headers, content="hi").status_code

    assert [call(1), call(2), call(1), call(2)] == [200, 200, 409, 200]
    assert mails(tmp_path) == ["hi"]
