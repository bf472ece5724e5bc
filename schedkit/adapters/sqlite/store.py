"""The SQLite store: one writer thread with group commit, an answer only after the commit is on disk.

    coroutine ── apply ──► inbox ──► writer thread: BEGIN, every waiting request, COMMIT (fsync) ──► answers

Requests that arrive while a commit is being flushed wait together and share the next one, so throughput grows with
load while a lone request pays for one flush. WAL with synchronous=FULL: a commit survives kill -9 and loss of power.
Reads run on the loop's own connection: a few microseconds each, never behind the writer.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from schedkit.adapters.cursor import read_cursor, write_cursor
from schedkit.adapters.sqlite.schema import migrate
from schedkit.errors import Reason, StartupRefused, StoreUnavailable
from schedkit.model.keys import Index
from schedkit.model.time import Instant
from schedkit.model.timers import Timer, timer_of
from schedkit.model.writes import Applied, Item, Key, Outcome, Refused, Write
from schedkit.ports import Page

MAX_GROUP: Final = 2_048  # requests in one commit: bounds the longest wait, far past where the flush is amortised
QUICK_CHECK_MAX_BYTES: Final = 64 * 1_024 * 1_024  # a larger file would delay the start by more than a second
BUSY_TIMEOUT_MS: Final = 5_000
PROBE_EVERY_S: Final = 1.0  # after a commit failed: how often to look whether the disk is back
PROBE_KEY: Final = Key("", "probe")

_GET: Final = "SELECT body FROM items WHERE partition = ? AND sort = ?"
_PUT: Final = """
    INSERT INTO items (partition, sort, body, timer_partition, timer_at, listed_partition, listed_at,
                       dead_partition, dead_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (partition, sort) DO UPDATE SET
        body = excluded.body, timer_partition = excluded.timer_partition, timer_at = excluded.timer_at,
        listed_partition = excluded.listed_partition, listed_at = excluded.listed_at,
        dead_partition = excluded.dead_partition, dead_at = excluded.dead_at, expires_at = excluded.expires_at
"""
_EXPIRE: Final = """
    DELETE FROM items WHERE (partition, sort) IN
        (SELECT partition, sort FROM items WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
"""
_INDEXED: Final = (
    "timer_partition",
    "timer_at",
    "listed_partition",
    "listed_at",
    "dead_partition",
    "dead_at",
    "expires_at",
)

_Work = Callable[[sqlite3.Connection], Any]  # done inside the transaction; its result is the answer
_Request = tuple[_Work, "asyncio.Future[Any]"]


class SqliteStore:
    """`Store` over one SQLite file. Open it on the event loop that will use it; close it when done."""

    def __init__(self, path: Path) -> None:
        """Raises StartupRefused when the file is corrupt, read-only, newer than this program, or not ours."""
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._inbox: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        try:
            self._reader = self._connect()
            self._check()
            migrate(self._reader, str(path))
            self._reader.execute("PRAGMA query_only = 1")
        except sqlite3.Error as error:
            raise _startup_refused(path, error) from error
        self._trouble: str | None = None
        self._writer = threading.Thread(target=self._write_forever, name="sqlite-writer", daemon=True)
        self._writer.start()

    @property
    def trouble(self) -> str | None:
        """What the last commit failed with; None while the store is well."""
        return self._trouble

    def close(self) -> None:
        """Finish every request that is waiting, then close the file."""
        self._inbox.put(None)
        self._writer.join()
        self._reader.close()

    async def get(self, key: Key) -> Item | None:
        row = self._read(_GET, key)
        return orjson.loads(row[0][0]) if row else None

    async def apply(self, write: Write) -> Outcome:
        return await self.apply_all((write,))

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        assert len({write.key for write in writes}) == len(writes), "no key twice in one decision"
        outcome: Outcome = await self._submit(partial(_perform, tuple(writes)))
        return outcome

    async def timers(
        self, partition: str, *, until: Instant, limit: int, since: Instant = 0, after: Timer | None = None
    ) -> tuple[Timer, ...]:
        start: tuple[Any, ...] = (after.at, *after.key) if after else (since, "", "")
        rows = self._read(
            "SELECT partition, sort, body FROM items WHERE timer_partition = ? AND timer_at BETWEEN ? AND ?"
            " AND (timer_at, partition, sort) > (?, ?, ?) ORDER BY timer_at, partition, sort LIMIT ?",
            (partition, max(since, start[0]), until, *start, limit),
        )
        timers = (timer_of(Key(row[0], row[1]), orjson.loads(row[2])) for row in rows)
        return tuple(timer for timer in timers if timer is not None)

    async def page(
        self,
        partition: str,
        *,
        limit: int,
        index: Index | None = None,
        prefix: str = "",
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        where, order = ("partition", "sort") if index is None else (f"{index}_partition", f"{index}_at")
        conditions, values = [f"{where} = ?"], [partition]
        if prefix:
            conditions.append(f"{order} >= ? AND {order} < ?")
            values += [prefix, prefix + "\U0010ffff"]
        if cursor is not None:
            place, key = read_cursor(cursor)
            conditions.append(f"({order}, partition, sort) {'<' if newest_first else '>'} (?, ?, ?)")
            values += [place, *key]
        way = "DESC" if newest_first else "ASC"
        rows = self._read(
            f"SELECT partition, sort, body, {order} FROM items WHERE {' AND '.join(conditions)}"  # noqa: S608 - names only
            f" ORDER BY {order} {way}, partition {way}, sort {way} LIMIT ?",
            (*values, limit + 1),
        )
        items = tuple((Key(row[0], row[1]), orjson.loads(row[2])) for row in rows[:limit])
        return Page(items, write_cursor(rows[limit - 1][3], items[-1][0]) if len(rows) > limit else None)

    async def expire(self, now: Instant, limit: int) -> int:
        return int(await self._submit(partial(_expire, now, limit)))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, sql: str, values: Sequence[Any]) -> list[Any]:
        try:
            return self._reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _unavailable(self._path, error) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, cached_statements=256)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _check(self) -> None:
        if self._path.stat().st_size > QUICK_CHECK_MAX_BYTES:
            return
        said = self._reader.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise sqlite3.DatabaseError(said)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _submit(self, work: _Work) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._inbox.put((work, answer))
        return await answer

    def _write_forever(self) -> None:
        connection = self._connect()
        while True:
            group, closing = self._waiting()
            if group or not closing:
                self._commit(connection, group)
            if closing:
                connection.close()
                return

    def _waiting(self) -> tuple[list[_Request], bool]:
        """The requests that wait, at least one of them; in trouble, none after a while. True at the end."""
        group: list[_Request] = []
        try:
            request = self._inbox.get(timeout=PROBE_EVERY_S if self._trouble else None)
            while request is not None:
                group.append(request)
                if len(group) >= MAX_GROUP:
                    return group, False
                request = self._inbox.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _commit(self, connection: sqlite3.Connection, group: list[_Request]) -> None:
        """Perform a group in one transaction; on failure nothing of it was accepted, and every caller hears so.

        A group that is empty, after trouble, looks whether a commit is possible again.
        """
        outcomes: list[Any] | StoreUnavailable
        try:
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [work(connection) for work, _ in group]
            if not group:
                connection.execute(_PUT, (*PROBE_KEY, b"{}", *(None for _ in _INDEXED)))
            connection.execute("COMMIT")
            self._trouble = None
        except sqlite3.Error as error:
            outcomes = _unavailable(self._path, error)
            self._trouble = outcomes.detail
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        answers = [answer for _, answer in group]
        self._loop.call_soon_threadsafe(_deliver, answers, outcomes)


def _perform(writes: Sequence[Write], connection: sqlite3.Connection) -> Outcome | Exception:
    """The outcome of one request; an exception, and nothing written, where it holds what no store could keep."""
    items: list[Item] = []
    rows = []
    try:
        for index, write in enumerate(writes):
            row = connection.execute(_GET, write.key).fetchone()
            current: Item | None = orjson.loads(row[0]) if row else None
            if not write.holds(current):
                return Refused(index, current)
            item = write.result(current)
            items.append(item)
            rows.append((*write.key, orjson.dumps(item), *(item.get(name) for name in _INDEXED)))
    except (TypeError, ValueError) as error:  # a bug of its caller, and no reason to end the others' writer
        return error
    for values in rows:
        connection.execute(_PUT, values)
    return Applied(tuple(items))


def _expire(now: Instant, limit: int, connection: sqlite3.Connection) -> int:
    return connection.execute(_EXPIRE, (now, limit)).rowcount


def _deliver(answers: list[asyncio.Future[Any]], outcomes: list[Any] | StoreUnavailable) -> None:
    for index, answer in enumerate(answers):
        if answer.cancelled():  # the caller went away; what it asked for was done all the same
            continue
        outcome = outcomes if isinstance(outcomes, StoreUnavailable) else outcomes[index]
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


def _unavailable(path: Path, error: sqlite3.Error) -> StoreUnavailable:
    text = str(error).lower()
    if "full" in text or "disk i/o" in text:
        return StoreUnavailable(
            f"the disk that holds {path} is full or failing: {error}",
            why="an answer is given only when it is on disk, so nothing was accepted",
            fix=("free space on that disk; schedkit goes on by itself",),
        )
    if "readonly" in text or "read-only" in text:
        return StoreUnavailable(f"{path} cannot be written: {error}", fix=("make the file and its folder writable",))
    if "malformed" in text or "not a database" in text:
        return StoreUnavailable(
            f"{path} is damaged: {error}", fix=("stop schedkit, keep a copy of the folder, restore a backup",)
        )
    return StoreUnavailable(f"{path}: {error}")


def _startup_refused(path: Path, error: sqlite3.Error) -> StartupRefused:
    text = str(error).lower()
    if "readonly" in text or "unable to open" in text or "disk i/o" in text or "full" in text:
        return StartupRefused(
            Reason.DATA_FOLDER_UNUSABLE,
            f"{path} cannot be opened for writing: {error}",
            why="jobs are kept there; without it nothing could be promised",
            fix=("make the folder writable, free space, or point --data at another folder",),
        )
    return StartupRefused(
        Reason.DATABASE_CORRUPT,
        f"{path} is damaged or not a database: {error}",
        why="nothing was changed in it",
        fix=(
            f"keep a copy, then try: sqlite3 {path.name} .recover",
            "or start on a new folder: schedkit up --data DIR",
        ),
    )
