"""Keys that are kept in the transaction of their effect: done once, whatever comes twice, and stale callers refused."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schedkit.target import CREATE_TABLE, StaleEpoch, remember

KEY = "job_1:2026-09-28T12:00:00Z"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "target.db")) as db, db:
        db.execute(CREATE_TABLE)
        db.execute("create table effects (text)")
    return tmp_path / "target.db"


@pytest.fixture
def db(place: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(place)) as connection:
        yield connection


def effects(place: Path) -> int:
    with closing(sqlite3.connect(place)) as db:
        return int(db.execute("select count(*) from effects").fetchone()[0])


def work(db: sqlite3.Connection, epoch: int | None = None, *, fails: bool = False) -> bool:
    """What a target does: key and effect in one transaction."""
    with db:
        if new := remember(db, KEY, epoch):
            db.execute("insert into effects values ('done')")
        if fails:
            raise RuntimeError("it breaks before the commit")
    return new


def test_the_first_call_is_new_and_a_repeat_is_not(db: sqlite3.Connection, place: Path) -> None:
    assert [work(db), work(db), work(db, 3)] == [True, False, False]
    assert effects(place) == 1


def test_an_effect_that_was_not_committed_leaves_no_key(db: sqlite3.Connection, place: Path) -> None:
    with pytest.raises(RuntimeError):
        work(db, 1, fails=True)
    assert effects(place) == 0
    assert work(db, 2)
    assert effects(place) == 1


def test_the_highest_token_counts_and_a_lower_one_is_stale(db: sqlite3.Connection, place: Path) -> None:
    assert work(db, 2)
    assert not work(db, 2), "the same caller again"
    assert not work(db, 5), "the next holder: a repeat"
    for stale in (4, 2, 0):
        with pytest.raises(StaleEpoch, match=KEY):
            work(db, stale)
    assert not work(db, 5)
    assert not work(db), "who says no token is not compared"
    assert effects(place) == 1


def test_tokens_are_compared_key_by_key(db: sqlite3.Connection) -> None:
    with db:
        assert remember(db, "a", 9)
        assert remember(db, "b", 1)


def test_of_two_at_once_one_waits_and_finds_the_key(place: Path) -> None:
    told: list[bool] = []

    def call() -> None:
        with closing(sqlite3.connect(place, timeout=30)) as db:
            told.append(work(db, 1))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [False] * 7 + [True]
    assert effects(place) == 1


def test_without_a_transaction_it_refuses_to_pretend(place: Path) -> None:
    """Key and effect would be committed one by one: a crash between them loses the effect."""
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        with pytest.raises(ValueError, match="begin a transaction first"):
            remember(db, KEY)
        db.execute("begin immediate")
        assert remember(db, KEY)
        db.execute("rollback")
        db.execute("begin")
        assert remember(db, KEY), "it was rolled back with the rest"


class Info:
    transaction_status = 0


class FormatConnection:
    """A driver with `%s` and psycopg's attributes, over SQLite."""

    def __init__(self, db: sqlite3.Connection, autocommit: bool = False) -> None:
        self._db = db
        self.autocommit = autocommit
        self.info = Info()

    def cursor(self) -> Any:
        cursor = self._db.cursor()

        class Cursor:
            def execute(self, text: str, values: tuple[Any, ...]) -> None:
                assert "?" not in text
                cursor.execute(text.replace("%s", "?"), values)

            @property
            def rowcount(self) -> int:
                return cursor.rowcount

            def close(self) -> None:
                cursor.close()

        return Cursor()


def test_a_driver_is_asked_for_its_placeholders(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = ModuleType("psycopg")
    driver.paramstyle = "pyformat"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "psycopg", driver)
    monkeypatch.setattr(FormatConnection, "__module__", "psycopg.connection")
    there = FormatConnection(db)
    assert [remember(there, KEY, 2), remember(there, KEY, 3)] == [True, False]
    with pytest.raises(StaleEpoch):
        remember(there, KEY, 1)
    with pytest.raises(ValueError, match="begin a transaction first"):
        remember(FormatConnection(db, autocommit=True), KEY)


def test_an_unknown_driver_has_to_be_told(db: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="paramstyle"):
        remember(FormatConnection(db), KEY)
    assert remember(FormatConnection(db), KEY, paramstyle="format")
    with pytest.raises(ValueError, match="not named"):
        remember(db, KEY, paramstyle="named")


def test_a_connection_of_ones_own_class_is_known_by_its_driver(place: Path) -> None:
    class Own(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(place, factory=Own)) as db, db:
        assert remember(db, KEY)
