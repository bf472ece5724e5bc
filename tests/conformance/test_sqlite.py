"""What the SQLite store promises beyond a store's contract: durability, one writer's commits, honest refusals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from schedkit.adapters.sqlite import schema, writer
from schedkit.adapters.sqlite import store as store_module
from schedkit.adapters.sqlite.folder import DataFolder, holder
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.errors import Conflict, Reason, StartupRefused, StoreUnavailable
from schedkit.model.writes import Applied, Key
from tests.conformance.items import A, B, create, due, put


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process, which prints what a test reads line by line."""
    return subprocess.Popen(
        [sys.executable, "-c", dedent(code), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return line.strip()


# ── durability ───────────────────────────────────────────────────────────────────────────────────────────────────────

WRITES_FOR_EVER = """
    import asyncio, sys
    from pathlib import Path
    from schedkit.adapters.sqlite.store import SqliteStore
    from tests.conformance.items import create, put
    from schedkit.model.writes import Key

    async def main():
        store = SqliteStore(Path(sys.argv[1]))
        async def writer(name):
            n = 0
            while True:
                await store.apply_all([create(Key(name, f"{n:06}"), n=n), put(Key(name, "count"), n=n)])
                print(name, n, flush=True)
                n += 1
        await asyncio.gather(*(writer(f"W{k}") for k in range(4)))

    asyncio.run(main())
"""


async def test_every_acknowledged_item_survives_kill_9(tmp_path: Path) -> None:
    """C1: what was answered is there; what was not answered is there whole or not at all."""
    process = child(WRITES_FOR_EVER, str(tmp_path / "dev.db"))
    acknowledged: dict[str, int] = {}
    for _ in range(200):
        name, number = line_of(process).split()
        acknowledged[name] = int(number)
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    for line in output.splitlines()[:-1]:  # the last one may be cut off
        name, number = line.split()
        acknowledged[name] = int(number)
    store = SqliteStore(tmp_path / "dev.db")
    try:
        assert len(acknowledged) == 4
        for name, last in acknowledged.items():
            counted = await store.get(Key(name, "count"))
            assert counted is not None
            assert counted["n"] >= last
            page = await store.page(name, limit=1_000_000)
            assert [item["n"] for key, item in page.items if key.sort != "count"] == list(range(counted["n"] + 1))
    finally:
        store.close()


async def test_an_answer_comes_only_after_its_commit_can_be_read_by_another_process(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "dev.db")
    other = sqlite3.connect(tmp_path / "dev.db")

    async def write(n: int) -> None:
        await store.apply(create(Key("P", str(n)), n=n))
        rows = other.execute("SELECT 1 FROM items WHERE partition = 'P' AND sort = ?", (str(n),)).fetchall()
        assert len(rows) == 1

    try:
        await asyncio.gather(*(write(n) for n in range(100)))
    finally:
        other.close()
        store.close()


async def test_a_store_that_is_closed_has_answered_everything_that_it_was_asked(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "dev.db")
    asked = [asyncio.ensure_future(store.apply(create(Key("P", str(n)), n=n))) for n in range(50)]
    await asyncio.sleep(0)
    store.close()
    outcomes = await asyncio.gather(*asked)
    assert all(isinstance(outcome, Applied) for outcome in outcomes)


async def test_a_reopened_store_is_as_it_was_left(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "dev.db")
    await store.apply(create(A, n=1, **due(5)))
    store.close()
    again = SqliteStore(tmp_path / "dev.db")
    try:
        assert await again.get(A) == {"n": 1, **due(5)}
        assert [entry.at for entry in await again.timers("D#0", until=9, limit=9)] == [5]
    finally:
        again.close()


# ── a disk that is full ──────────────────────────────────────────────────────────────────────────────────────────────


async def fill(store: SqliteStore, name: str) -> int:
    """Write until the store says that it cannot; returns how many writes it acknowledged."""
    for n in range(10_000):
        try:
            await store.apply(create(Key(name, f"{n:06}"), text="x" * 2_000))
        except StoreUnavailable:
            return n
    raise AssertionError("the disk never filled up")


async def test_a_full_disk_is_said_nothing_is_half_done_and_it_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6, F11: 503 rather than a promise that could not be kept."""
    connections: list[sqlite3.Connection] = []
    connect = writer.connect

    def small(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA max_page_count = 30")
        connections.append(connection)
        return connection

    for module in (writer, store_module):
        monkeypatch.setattr(module, "connect", small)
    monkeypatch.setattr(sqlite3, "connect", _across_threads(sqlite3.connect))
    store = SqliteStore(tmp_path / "dev.db")
    try:
        kept = await fill(store, "P")
        assert kept > 0
        assert store.trouble is not None
        with pytest.raises(StoreUnavailable, match="full"):
            await store.apply_all([put(A, n=1), create(Key("P", "big"), text="x" * 100_000)])
        assert await store.get(A) is None
        assert len((await store.page("P", limit=10_000)).items) == kept

        for connection in connections:
            connection.execute("PRAGMA max_page_count = 100000")
        assert isinstance(await store.apply(create(B, n=1)), Applied)
        assert store.trouble is None
        assert len((await store.page("P", limit=10_000)).items) == kept + 1
    finally:
        store.close()


def _across_threads(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
    def connected(*arguments: object, **options: object) -> sqlite3.Connection:
        return connect(*arguments, **options, check_same_thread=False)

    return connected


HITS_THE_LIMIT_OF_FILE_SIZE = """
    import asyncio, resource, signal, sys
    from pathlib import Path
    from schedkit.adapters.sqlite.store import SqliteStore
    from schedkit.errors import StoreUnavailable
    from schedkit.model.writes import Key
    from tests.conformance.items import create

    async def main():
        store = SqliteStore(Path(sys.argv[1]))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        kept = 0
        try:
            while True:
                await store.apply(create(Key("P", f"{kept:06}"), text="x" * 5_000))
                kept += 1
        except StoreUnavailable as error:
            print(error.reason, flush=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.apply(create(Key("Q", "afterwards"), n=1))
        page = await store.page("P", limit=100_000)
        print(kept, len(page.items), store.trouble, flush=True)
        store.close()

    asyncio.run(main())
"""


def test_a_write_that_the_system_cuts_short_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    process = child(HITS_THE_LIMIT_OF_FILE_SIZE, str(tmp_path / "dev.db"))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    reason, counts = output.splitlines()
    kept, there, trouble = counts.split()
    assert reason == "STORE_UNAVAILABLE"
    assert int(kept) > 0
    assert there == kept
    assert trouble == "None"


# ── files that cannot be used ────────────────────────────────────────────────────────────────────────────────────────


def refusal_of(path: Path) -> StartupRefused:
    async def open_it() -> None:
        SqliteStore(path).close()

    with pytest.raises(StartupRefused) as refused:
        asyncio.run(open_it())
    return refused.value


async def made(path: Path, items: int = 1) -> None:
    store = SqliteStore(path)
    for n in range(items):
        await store.apply(create(Key("P", f"{n:06}"), text="x" * 500))
    store.close()


def test_a_new_file_has_the_schema_version_of_this_program(tmp_path: Path) -> None:
    asyncio.run(made(tmp_path / "dev.db"))
    with sqlite3.connect(tmp_path / "dev.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert connection.execute("PRAGMA application_id").fetchone() == (schema.APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_an_empty_file_is_migrated_from_version_0(tmp_path: Path) -> None:
    (tmp_path / "dev.db").touch()
    asyncio.run(made(tmp_path / "dev.db"))
    connection = sqlite3.connect(tmp_path / "dev.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    connection.close()


def test_each_step_runs_once_and_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(made(tmp_path / "dev.db"))
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "CREATE TABLE later (n INTEGER);"))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    asyncio.run(made(tmp_path / "dev.db"))
    asyncio.run(made(tmp_path / "dev.db"))
    connection = sqlite3.connect(tmp_path / "dev.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    assert connection.execute("SELECT count(*) FROM items").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM later").fetchone() == (0,)
    connection.close()


def test_a_step_that_fails_leaves_the_version_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(made(tmp_path / "dev.db"))
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "CREATE TABLE half (n INTEGER); NONSENSE;"))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    refusal_of(tmp_path / "dev.db")
    connection = sqlite3.connect(tmp_path / "dev.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION - 1,)
    assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone() is None
    connection.close()


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    asyncio.run(made(tmp_path / "dev.db"))
    with sqlite3.connect(tmp_path / "dev.db") as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    refused = refusal_of(tmp_path / "dev.db")
    assert refused.reason is Reason.DATABASE_TOO_NEW
    assert str(schema.VERSION + 1) in refused.detail
    connection = sqlite3.connect(tmp_path / "dev.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION + 1,)
    connection.close()


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "dev.db") as connection:
        connection.execute("CREATE TABLE theirs (n)")
    connection.close()
    refused = refusal_of(tmp_path / "dev.db")
    assert refused.reason is Reason.DATA_FOLDER_UNUSABLE
    assert "another program" in refused.detail
    connection = sqlite3.connect(tmp_path / "dev.db")
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()


def test_a_file_that_is_no_database_is_refused_as_corrupt(tmp_path: Path) -> None:
    text = "this is not a database, and long enough to have a header of its own" * 100
    (tmp_path / "dev.db").write_text(text)
    assert refusal_of(tmp_path / "dev.db").reason is Reason.DATABASE_CORRUPT
    assert (tmp_path / "dev.db").read_text() == text


def test_a_damaged_database_is_refused_as_corrupt(tmp_path: Path) -> None:
    asyncio.run(made(tmp_path / "dev.db", 200))
    with (tmp_path / "dev.db").open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 8_192)
    refused = refusal_of(tmp_path / "dev.db")
    assert refused.reason is Reason.DATABASE_CORRUPT
    assert refused.fix


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.db").mkdir()
    assert refusal_of(tmp_path / "dev.db").reason is Reason.DATA_FOLDER_UNUSABLE


# ── the data folder ──────────────────────────────────────────────────────────────────────────────────────────────────

HOLDS = """
    import sys, time
    from pathlib import Path
    from schedkit.adapters.sqlite.folder import DataFolder

    folder = DataFolder(Path(sys.argv[1]))
    folder.note(url="http://127.0.0.1:8700")
    print("held", flush=True)
    sys.stdin.read()
"""


def held_by_another(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(HOLDS), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert line_of(process) == "held"
    return process


def test_a_folder_that_another_process_holds_is_refused_with_its_pid(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as process:
        with pytest.raises(Conflict) as refused:
            DataFolder(tmp_path)
        assert refused.value.reason is Reason.DATA_FOLDER_IN_USE
        assert f"pid {process.pid}" in refused.value.detail
        assert "http://127.0.0.1:8700" in refused.value.detail
        assert refused.value.extra == {"pid": process.pid}
        assert holder(tmp_path) == {"pid": process.pid, "url": "http://127.0.0.1:8700"}
        process.kill()
        process.wait()
        DataFolder(tmp_path).release()  # a dead process holds nothing
    assert holder(tmp_path) is None


def test_a_released_folder_can_be_locked_again(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "new" / "folder")
    folder.note(url="here")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert json.loads((folder.path / "lock").read_text()) == {"pid": os.getpid(), "url": "here"}
    folder.release()
    DataFolder(tmp_path / "new" / "folder").release()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupRefused) as refused:
        DataFolder(tmp_path / "file" / "folder")
    assert refused.value.reason is Reason.DATA_FOLDER_UNUSABLE
    assert refused.value.fix


# ── a request that cannot be written ─────────────────────────────────────────────────────────────────────────────────


async def test_an_item_that_cannot_be_stored_fails_alone_and_the_store_goes_on(tmp_path: Path) -> None:
    """A bug in one request must not end the writer that all others wait for."""
    store = SqliteStore(tmp_path / "dev.db")
    try:
        async with asyncio.timeout(10):
            with pytest.raises(Exception, match="64-bit"):
                await store.apply(create(A, n=2**70))
            assert isinstance(await store.apply(create(A, n=1)), Applied)
            assert await store.get(A) == {"n": 1}
    finally:
        store.close()
