"""The SQLite store: reads on the loop's own connection, writes through one writer with group commit (see writer.py).

A read takes some microseconds and never waits behind the writer: WAL lets it see the last commit, whichever process
made it. So several processes may share a file: they take turns to write, and conditions are decided in one's own turn.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from schedkit.adapters.cursor import read_cursor, write_cursor
from schedkit.adapters.sqlite.schema import migrate
from schedkit.adapters.sqlite.writer import BUSY_TIMEOUT_MS, GET, Writer, connect, perform
from schedkit.errors import Reason, StartupRefused, StoreUnavailable
from schedkit.model.keys import Index, TimerKind
from schedkit.model.time import SECOND_MS, Instant
from schedkit.model.timers import Timer, priority_of
from schedkit.model.writes import Item, Key, Outcome, Write
from schedkit.ports import Page

QUICK_CHECK_MAX_BYTES: Final = 64 * 1_024 * 1_024  # a larger file would delay the start by more than a second


class SqliteStore:
    """`Store` over one SQLite file. Open it on the event loop that will use it; close it when done."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        """`alone`: no other process writes to the file, so what was written last is answered from memory.

        Raises StartupRefused when the file is corrupt, read-only, newer than this program, or not ours.
        """
        self._path = path
        self._alone = alone
        with contextlib.ExitStack() as undo:
            try:
                self._reader = connect(path)
                undo.callback(self._reader.close)
                self._check()
                migrate(self._reader, str(path))
                self._reader.execute("PRAGMA query_only = 1")
            except sqlite3.Error as error:
                raise _startup_refused(path, error) from error
            undo.pop_all()
        self._writer = Writer(path, partial(_unavailable, path))

    @property
    def trouble(self) -> str | None:
        """What the last commit failed with; None while the store is well."""
        return self._writer.trouble

    def close(self) -> None:
        """Finish every request that is waiting, then close the file."""
        self._writer.close()
        self._reader.close()

    async def get(self, key: Key) -> Item | None:
        if self._alone and (item := self._writer.recent.get(key)) is not None:
            return item
        row = self._read(GET, key)
        return orjson.loads(row[0][0]) if row else None

    async def apply(self, write: Write) -> Outcome:
        return await self.apply_all((write,))

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        assert len({write.key for write in writes}) == len(writes), "no key twice in one decision"
        outcome: Outcome = await self._writer.submit(partial(perform, tuple(writes)))
        return outcome

    async def timers(
        self, partition: str, *, until: Instant, limit: int, since: Instant = 0, after: Timer | None = None
    ) -> tuple[Timer, ...]:
        start: tuple[Any, ...] = (after.at, *after.key) if after else (since, "", "")
        kind = TimerKind(partition.partition("#")[0])
        line = "task_line" if kind is TimerKind.TASK else "NULL"  # all else stands in the index
        rows = self._read(
            f"SELECT partition, sort, timer_at, priority, {line} FROM items WHERE timer_partition = ?"  # noqa: S608
            " AND timer_at BETWEEN ? AND ? AND (timer_at, partition, sort) > (?, ?, ?)"
            " ORDER BY timer_at, partition, sort LIMIT ?",
            (partition, max(since, start[0]), until, *start, limit),
        )
        return tuple(
            Timer(at, Key(where, sort), kind, priority_of(priority), task_line)
            for where, sort, at, priority, task_line in rows
        )

    async def page(
        self,
        partition: str,
        *,
        limit: int,
        index: Index | None = None,
        prefix: str = "",
        since: str = "",
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        where, order = ("partition", "sort") if index is None else (f"{index}_partition", f"{index}_at")
        conditions, values = [f"{where} = ?"], [partition]
        if begin := max(prefix, since):
            conditions.append(f"{order} >= ?")
            values.append(begin)
        if prefix:
            conditions.append(f"{order} < ?")
            values.append(prefix + "\U0010ffff")
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
        return int(await self._writer.submit(lambda transaction: transaction.expire(now, limit)))

    def _read(self, sql: str, values: Sequence[Any]) -> list[Any]:
        try:
            return self._reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _unavailable(self._path, error) from error

    def _check(self) -> None:
        if self._path.stat().st_size > QUICK_CHECK_MAX_BYTES:
            return
        said = self._reader.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise sqlite3.DatabaseError(said)


def _unavailable(path: Path, error: Exception) -> StoreUnavailable:
    text = str(error).lower()
    if "full" in text or "disk i/o" in text:
        return StoreUnavailable(
            f"the disk that holds {path} is full or failing: {error}",
            why="an answer is given only when it is on disk, so nothing was accepted",
            fix=("free space on that disk; schedkit goes on by itself",),
        )
    if "locked" in text or "busy" in text:
        return StoreUnavailable(
            f"another process has been writing to {path} for more than {BUSY_TIMEOUT_MS // SECOND_MS} s",
            why="writers take turns, and this one had none, so nothing was accepted",
            fix=("see who has the file: fuser -v " + path.name,),
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
    if "locked" in text or "busy" in text:
        return StartupRefused(
            Reason.DATA_FOLDER_UNUSABLE,
            f"{path} is locked by another process: {error}",
            why="nothing was changed in it",
            fix=("start again; if it stays so, see who has the file: fuser -v " + path.name,),
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
