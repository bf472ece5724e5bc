"""Backups of a SQLite store: whole while others write, refused when they are not, and never half there."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from schedkit.adapters.sqlite import backup, schema
from schedkit.adapters.sqlite.backup import Told, inspect, take
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.engine.restoring import mark
from schedkit.errors import Conflict, InvalidInput, Reason, StartupRefused
from schedkit.model.writes import Key
from tests.conformance.items import A, B, create, put
from tests.conformance.test_sqlite import child, line_of

TOLD = Told(1_790_000_000_000, "0.1.0", "p" * 64)


async def stored(path: Path, count: int = 1) -> Path:
    """A database with some items in it, closed."""
    store = SqliteStore(path)
    await store.apply_all([create(Key("P", f"{n:06}"), n=n, text="x" * 200) for n in range(count)])
    store.close()
    return path


def items_of(file: Path) -> int:
    with sqlite3.connect(file) as database:
        return int(database.execute("SELECT count(*) FROM items").fetchone()[0])


# ── taking one ───────────────────────────────────────────────────────────────────────────────────────────────────────

WRITES = """
    import asyncio, sys
    from pathlib import Path
    from schedkit.adapters.sqlite.store import SqliteStore
    from tests.conformance.items import create, put
    from schedkit.model.writes import Key

    async def main():
        store = SqliteStore(Path(sys.argv[1]), alone=True)
        n = 0
        while True:
            key = Key("W", f"{n:06}")
            await store.apply_all([create(key, n=n, text="x" * 500), put(Key("W", "count"), n=n)])
            print(n, flush=True)
            n += 1

    asyncio.run(main())
"""


def test_a_backup_under_load_has_all_that_was_acknowledged_before_it_and_nothing_in_halves(tmp_path: Path) -> None:
    """C1: decisions of two records are in it whole or not at all."""
    with child(WRITES, str(tmp_path / "dev.db")) as writer:
        for number in range(5):
            acknowledged = [int(line_of(writer)) for _ in range(50)][-1]
            file = tmp_path / f"{number}.db"
            found = take(tmp_path / "dev.db", file, TOLD, overwrite=False)
            with sqlite3.connect(file) as copy:
                counted = copy.execute("SELECT body FROM items WHERE sort = 'count'").fetchone()[0]
            n = int(counted.removeprefix(b'{"n":').removesuffix(b"}"))
            assert n >= acknowledged
            assert found.items == n + 2, "each with its counter"
        writer.kill()


async def test_a_backup_is_one_private_file_that_any_sqlite_reads(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db", 10)
    found = take(database, tmp_path / "b.db", TOLD, overwrite=False)
    assert (found.items, found.schema, found.told, found.last_restore) == (10, schema.VERSION, TOLD, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.db", "dev.db"]
    assert (tmp_path / "b.db").stat().st_mode & 0o777 == 0o600
    assert inspect(tmp_path / "b.db") == found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.db", "dev.db"], "looking leaves nothing behind"
    assert TOLD.pepper is not None
    assert TOLD.pepper not in repr(found)


async def test_what_stands_there_is_kept_unless_it_may_be_written_over(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db")
    (tmp_path / "b.db").write_text("mine")
    with pytest.raises(FileExistsError):
        take(database, tmp_path / "b.db", TOLD, overwrite=False)
    assert (tmp_path / "b.db").read_text() == "mine"
    take(database, tmp_path / "b.db", TOLD, overwrite=True)
    assert inspect(tmp_path / "b.db").items == 1


async def test_a_disk_without_hard_links_takes_a_backup_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = await stored(tmp_path / "dev.db")

    def no_links(*names: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    take(database, tmp_path / "b.db", TOLD, overwrite=False)
    assert inspect(tmp_path / "b.db").items == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.db", "dev.db"]


async def test_what_a_killed_backup_left_is_written_over_and_a_living_one_is_not(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db")
    partial = tmp_path / "b.db.partial"
    partial.write_bytes(b"half of a backup" * 1_000)
    partial.chmod(0o644)
    with backup._alone(partial), pytest.raises(Conflict, match="another backup"):
        take(database, tmp_path / "b.db", TOLD, overwrite=False)
    partial.write_bytes(b"half of a backup" * 1_000)
    take(database, tmp_path / "b.db", TOLD, overwrite=False)
    assert inspect(tmp_path / "b.db").items == 1
    assert not partial.exists()


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db")
    with pytest.raises(InvalidInput) as refused:
        take(database, tmp_path / "nowhere" / "b.db", TOLD, overwrite=False)
    assert "nowhere/b.db cannot be written" in refused.value.detail


async def test_a_damaged_database_gives_no_backup(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db", 500)
    with database.open("r+b") as file:
        file.seek(3 * 4_096)
        file.write(b"\xff" * 4_096)
    with pytest.raises(StartupRefused) as refused:
        take(database, tmp_path / "b.db", TOLD, overwrite=False)
    assert (refused.value.reason, str(database) in refused.value.detail) == (Reason.DATABASE_CORRUPT, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.db"]


TAKES = """
    import sys
    from pathlib import Path
    from schedkit.adapters.sqlite.backup import Told, take

    print("begins", flush=True)
    take(Path(sys.argv[1]), Path(sys.argv[2]), Told(1, "x", None), overwrite=True)
"""


async def test_kill_9_in_the_middle_leaves_the_backup_before_it(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db", 20_000)
    take(database, tmp_path / "b.db", TOLD, overwrite=False)
    before = (tmp_path / "b.db").read_bytes()
    killed = 0
    for _ in range(6):
        with child(TAKES, str(database), str(tmp_path / "b.db")) as taker:
            line_of(taker)
            while not (tmp_path / "b.db.partial").exists() and taker.poll() is None:
                await asyncio.sleep(0)
            taker.send_signal(signal.SIGKILL)
            killed += taker.wait() == -signal.SIGKILL
        if (tmp_path / "b.db").read_bytes() != before:  # it was done before the signal came
            assert inspect(tmp_path / "b.db").told.made_by == "x"
            before = (tmp_path / "b.db").read_bytes()
    assert killed
    take(database, tmp_path / "b.db", TOLD, overwrite=True)


# ── looking at one ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_that_is_no_backup_is_refused_with_what_it_is(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db")
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("this is no database" * 500)
    with sqlite3.connect(tmp_path / "foreign") as foreign:
        foreign.execute("CREATE TABLE backup (taken_at)")
    for name, said in {
        "empty": "another program, or empty",
        "text": "no whole backup",
        "foreign": "another program",
        "dev.db": "a schedkit database, but no backup",
    }.items():
        with pytest.raises(InvalidInput, match=said) as refused:
            inspect(tmp_path / name)
        assert refused.value.reason is Reason.BACKUP_INVALID, name
        assert refused.value.fix
    with pytest.raises(InvalidInput, match="there is no file"):
        inspect(tmp_path / "nowhere")
    assert database.exists()


async def test_a_backup_that_is_cut_off_or_damaged_is_refused(tmp_path: Path) -> None:
    database = await stored(tmp_path / "dev.db", 2_000)
    whole = tmp_path / "b.db"
    size = take(database, whole, TOLD, overwrite=False).size_bytes
    chance = random.Random(7)
    for _ in range(20):
        cut = tmp_path / "cut.db"
        shutil.copyfile(whole, cut)
        os.truncate(cut, chance.randrange(1, size))
        with pytest.raises(InvalidInput) as refused:
            inspect(cut)
        assert refused.value.reason is Reason.BACKUP_INVALID
    damaged = tmp_path / "damaged.db"
    for page in range(1, size // 4_096):
        shutil.copyfile(whole, damaged)
        with damaged.open("r+b") as file:
            file.seek(page * 4_096)
            file.write(b"\xff" * 4_096)
        with pytest.raises(InvalidInput):
            inspect(damaged)


async def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = await stored(tmp_path / "dev.db")
    take(database, tmp_path / "b.db", TOLD, overwrite=False)
    monkeypatch.setattr(backup, "VERSION", schema.VERSION - 1)
    with pytest.raises(StartupRefused) as refused:
        inspect(tmp_path / "b.db")
    assert refused.value.reason is Reason.DATABASE_TOO_NEW


async def test_a_backup_knows_when_its_store_was_restored_itself(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "dev.db")
    await store.apply(mark(1_000, 2_000))
    await store.apply(create(A, n=1))
    await store.apply(put(B, n=2))
    store.close()
    assert take(tmp_path / "dev.db", tmp_path / "b.db", TOLD, overwrite=False).last_restore == 2_000
    assert backup.last_restore(tmp_path / "dev.db") == 2_000
    assert backup.last_restore(tmp_path / "nowhere") == 0
