"""The worker of the docs does its work once, whatever happens in between."""

from __future__ import annotations

import importlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from schedkit.target import StaleEpoch
from schedkit.testing import run_twice
from schedkit.worker import Fail
from tests.docs.console import PAGES, ROOT, blocks, commands

rebuild = importlib.import_module("examples.worker").rebuild


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rebuilt() -> list[Any]:
    with closing(sqlite3.connect("ledger.db")) as db:
        return db.execute("select * from rebuilt").fetchall()


def test_a_second_run_of_the_same_key_changes_nothing() -> None:
    twice = run_twice(rebuild, {"ledger": "EU"}, observe=rebuilt)
    assert twice.same, twice
    assert twice.seen[0] == [("EU", 30)]


def test_a_worker_that_lost_its_lease_writes_nothing() -> None:
    run_twice(rebuild, {"ledger": "EU"}, key="job_1:2026-01-01T00:00:00Z")
    with pytest.raises(StaleEpoch):  # epoch 1, after epoch 2 was seen
        run_twice(rebuild, {"ledger": "EU"}, key="job_1:2026-01-01T00:00:00Z")
    assert rebuilt() == [("EU", 30)]


def test_a_ledger_that_is_not_there_fails_for_good() -> None:
    with pytest.raises(Fail, match="there is no ledger ASIA"):
        run_twice(rebuild, {"ledger": "ASIA"})


@pytest.mark.parametrize(
    ("page", "example"),
    [("workers.md", "worker.py"), ("workers.md", "worker.sh"), ("coming-from-celery-beat.md", "from_celery.py")],
)
def test_the_page_shows_it(page: str, example: str) -> None:
    shown = [text for _, text in blocks(ROOT / "docs" / page, "python", "bash")]
    assert (ROOT / "examples" / example).read_text(encoding="utf-8") in shown


def test_what_comes_from_celery_has_its_effect_once() -> None:
    digest = importlib.import_module("examples.from_celery").digest
    assert run_twice(digest, {"args": [], "kwargs": {"kind": "daily"}}).results == ({"sent": 5}, {"sent": 5})


def test_every_example_is_run_by_a_test_or_by_a_page() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("[ed]*/test_*.py"))
    ran = tests + "".join(command.text for page in PAGES for command in commands(page))
    examples = [*(ROOT / "examples").glob("*.*"), *(ROOT / "docs" / "examples").glob("*.*")]
    assert not [path.name for path in examples if path.stem.removesuffix("_target") not in ran]
