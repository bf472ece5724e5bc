"""Several processes on one SQLite file: each sees the others' commits at once, and no stale write lands."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schedkit.adapters.sqlite import writer
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.errors import StoreUnavailable
from schedkit.model.writes import Applied, Key, Refused
from tests.conformance.items import A, B, create, due, if_is, put
from tests.conformance.test_sqlite import child, line_of

PROCESSES = 4
INCREMENTS = 50


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    one, other = SqliteStore(tmp_path / "dev.db"), SqliteStore(tmp_path / "dev.db")
    yield one, other
    one.close()
    other.close()


async def test_a_get_sees_what_another_store_wrote_at_once(two: tuple[SqliteStore, SqliteStore]) -> None:
    one, other = two
    await one.apply(create(A, n=0))
    for n in range(1, 50):
        writing, reading = (one, other) if n % 2 else (other, one)
        assert isinstance(await writing.apply(put(A, if_is("n", n - 1), n=n)), Applied)
        assert await reading.get(A) == {"n": n}


async def test_a_stale_epoch_is_refused_and_answered_with_the_item_as_it_stands(
    two: tuple[SqliteStore, SqliteStore],
) -> None:
    """C5: what the first holder remembers of its claim is worth nothing once another one has claimed."""
    one, other = two
    await one.apply(create(A, epoch=1, status="RUNNING", **due(5)))
    await other.apply(put(A, if_is("epoch", 1), epoch=2, **due(9)))
    refused = await one.apply_all([put(B, n=1), put(A, if_is("epoch", 1), status="SUCCEEDED")])
    assert refused == Refused(1, {"epoch": 2, "status": "RUNNING", **due(9)})
    assert await one.get(B) is None
    assert [timer.at for timer in await one.timers("D#0", until=99, limit=9)] == [9]


async def test_a_store_that_is_alone_answers_rightly_after_its_own_next_write_at_the_latest(tmp_path: Path) -> None:
    """A person with `sqlite3` is a foreign writer too: no condition is decided by what was before."""
    alone = SqliteStore(tmp_path / "dev.db", alone=True)
    try:
        await alone.apply(create(A, n=1))
        with sqlite3.connect(tmp_path / "dev.db") as person:
            person.execute("""UPDATE items SET body = '{"n":2}'""")
        person.close()
        assert await alone.apply(put(A, if_is("n", 1), n=3)) == Refused(0, {"n": 2})
        assert await alone.get(A) == {"n": 2}
    finally:
        alone.close()


COUNTS = """
    import asyncio, sys
    from pathlib import Path
    from schedkit.adapters.sqlite.store import SqliteStore
    from schedkit.model.writes import Applied
    from tests.conformance.items import A, if_is, put

    async def main():
        print("here", flush=True)
        sys.stdin.readline()
        store = SqliteStore(Path(sys.argv[1]))
        for _ in range(int(sys.argv[2])):
            while True:
                item = await store.get(A)
                change = put(A, if_is("n", item["n"]), n=item["n"] + 1) if item else put(A, n=1)
                if item is None or isinstance(await store.apply(change), Applied):
                    break
        store.close()

    asyncio.run(main())
"""


def test_no_increment_is_lost_between_four_processes(tmp_path: Path) -> None:
    async def count(first: bool) -> int:
        store = SqliteStore(tmp_path / "dev.db")
        if first:
            await store.apply(create(A, n=0))
        item = await store.get(A)
        store.close()
        assert item is not None
        return int(item["n"])

    asyncio.run(count(first=True))
    processes = [child(COUNTS, str(tmp_path / "dev.db"), str(INCREMENTS)) for _ in range(PROCESSES)]
    run_together(processes)
    assert asyncio.run(count(first=False)) == PROCESSES * INCREMENTS


OPENS = """
    import asyncio, sys
    from pathlib import Path
    from schedkit.adapters.sqlite.store import SqliteStore

    async def main():
        print("here", flush=True)
        sys.stdin.readline()
        SqliteStore(Path(sys.argv[1])).close()

    asyncio.run(main())
"""


def test_processes_that_open_a_new_file_at_the_same_time_take_turns(tmp_path: Path) -> None:
    run_together([child(OPENS, str(tmp_path / "dev.db")) for _ in range(PROCESSES)])


def run_together(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert line_of(process) == "here"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


async def test_a_writer_waits_for_another_process_and_says_so_when_it_waits_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BUSY_TIMEOUT_MS", 200)
    store = SqliteStore(tmp_path / "dev.db")
    await store.apply(create(A, n=1))
    other = sqlite3.connect(tmp_path / "dev.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="another process has been writing"):
            await store.apply(put(A, n=2))
        assert await store.get(A) == {"n": 1}
        waiting = asyncio.ensure_future(store.apply(put(A, n=3)))
        await asyncio.sleep(0)
        other.execute("COMMIT")
        assert isinstance(await waiting, Applied)
        assert store.trouble is None
        assert isinstance(await store.apply(create(Key("P", "later"), n=1)), Applied)
    finally:
        other.close()
        store.close()
