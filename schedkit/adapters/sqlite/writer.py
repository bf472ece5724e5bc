"""The one writer of a SQLite file: group commit in a thread, an answer only after the commit is on disk.

    coroutine ── submit ──► inbox ──► BEGIN, every waiting request, COMMIT (fsync) ──► answers

Requests that arrive while a commit is being flushed wait together and share the next one, so throughput grows with
load while a lone request pays for one flush. WAL with synchronous=FULL: a commit survives kill -9 and loss of power.

Several processes may have a writer on one file: each transaction begins with the lock that only one of them has, and
what a writer remembers of its own last commits is forgotten as soon as another one has committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from schedkit.errors import StoreUnavailable
from schedkit.model.time import Instant
from schedkit.model.writes import Applied, Item, Key, Outcome, Refused, Write

MAX_GROUP: Final = 2_048  # requests in one commit: bounds the longest wait, far past where the flush is amortised
PROBE_EVERY_S: Final = 1.0  # after a commit failed: how often to look whether the disk is back
PROBE_KEY: Final = Key("", "probe")
BUSY_TIMEOUT_MS: Final = 5_000  # how long to wait for another process: far more than its longest commit
BUSY_PAUSE_S: Final = 0.02
RECENT_ITEMS: Final = 4_096  # twice the calls that four pools have in flight: what is claimed is settled soon
RECENT_MAX_BYTES: Final = 8_192  # a larger item is read from disk again, so that the memory held is bounded

DATA_VERSION: Final = "PRAGMA data_version"  # changes when another connection has committed, and only then
GET: Final = "SELECT body FROM items WHERE partition = ? AND sort = ?"
_PUT: Final = """
    INSERT INTO items (partition, sort, body, timer_partition, timer_at, listed_partition, listed_at,
                       dead_partition, dead_at, expires_at, priority, task_line)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (partition, sort) DO UPDATE SET
        body = excluded.body, timer_partition = excluded.timer_partition, timer_at = excluded.timer_at,
        listed_partition = excluded.listed_partition, listed_at = excluded.listed_at,
        dead_partition = excluded.dead_partition, dead_at = excluded.dead_at, expires_at = excluded.expires_at,
        priority = excluded.priority, task_line = excluded.task_line
"""
_EXPIRE: Final = """
    DELETE FROM items WHERE (partition, sort) IN
        (SELECT partition, sort FROM items WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
    RETURNING partition, sort
"""
_INDEXED: Final = (
    "timer_partition",
    "timer_at",
    "listed_partition",
    "listed_at",
    "dead_partition",
    "dead_at",
    "expires_at",
    "priority",
    "task_line",
)


log = logging.getLogger(__name__)


class Transaction:
    """What one group of requests sees and changes; it becomes true as a whole, or not at all."""

    def __init__(self, connection: sqlite3.Connection, recent: dict[Key, Item]) -> None:
        self._connection = connection
        self._recent = recent
        self._changed: dict[Key, tuple[Item | None, int]] = {}  # as it would stand, and the size of its body

    def get(self, key: Key) -> Item | None:
        if key in self._changed:
            return self._changed[key][0]
        if (item := self._recent.get(key)) is not None:
            return item
        row = self._connection.execute(GET, key).fetchone()
        return orjson.loads(row[0]) if row else None

    def put(self, key: Key, item: Item, body: bytes) -> None:
        self._connection.execute(_PUT, (*key, body, *(item.get(name) for name in _INDEXED)))
        self._changed[key] = item, len(body)

    def expire(self, now: Instant, limit: int) -> int:
        gone = [Key(*row) for row in self._connection.execute(_EXPIRE, (now, limit)).fetchall()]
        self._changed.update(dict.fromkeys(gone, (None, 0)))
        return len(gone)

    def commit(self) -> None:
        """Make it durable; only then may others read it from memory."""
        self._connection.execute("COMMIT")
        for key, (item, size) in self._changed.items():
            self._recent.pop(key, None)
            if item is not None and size <= RECENT_MAX_BYTES:
                self._recent[key] = item
        while len(self._recent) > RECENT_ITEMS:
            del self._recent[next(iter(self._recent))]


Work = Callable[[Transaction], Any]  # done inside the transaction; its result is the answer
_Request = tuple[Work, "asyncio.Future[Any]"]


class Writer:
    """Performs requests in the order they come. `recent` has the items written last, as they stand on disk."""

    def __init__(self, path: Path, unavailable: Callable[[Exception], StoreUnavailable]) -> None:
        """`unavailable` words a failure of the database for those who asked."""
        self.recent: dict[Key, Item] = {}
        self.trouble: str | None = None
        self._path = path
        self._unavailable = unavailable
        self._version: int | None = None  # of the file, when `recent` was right
        self._loop = asyncio.get_running_loop()
        self._inbox: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._thread.start()

    async def submit(self, work: Work) -> Any:
        """The result of `work`, once it is on disk. Raises StoreUnavailable; then nothing of it was done."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._inbox.put((work, answer))
        return await answer

    def close(self) -> None:
        """Finish every request that is waiting, then stop."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = connect(self._path)
        closing = False
        while not closing:
            group, closing = self._waiting()
            if group or self.trouble:
                self._commit(connection, group)
        connection.close()

    def _waiting(self) -> tuple[list[_Request], bool]:
        """The requests that wait, at least one of them; in trouble, none after a while. True at the end."""
        group: list[_Request] = []
        try:
            request = self._inbox.get(timeout=PROBE_EVERY_S if self.trouble else None)
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
            self._forget_what_others_changed(connection)
            transaction = Transaction(connection, self.recent)
            outcomes = [work(transaction) for work, _ in group]
            if not group:
                transaction.put(PROBE_KEY, {}, b"{}")
            transaction.commit()
            self.trouble = None
        except Exception as error:  # whatever it was, the writer lives on and every caller gets an answer
            if not isinstance(error, sqlite3.Error):
                log.exception("a commit failed")
            outcomes = self._unavailable(error)
            self.trouble = outcomes.detail
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
        self._loop.call_soon_threadsafe(_deliver, [answer for _, answer in group], outcomes)

    def _forget_what_others_changed(self, connection: sqlite3.Connection) -> None:
        """With the lock in hand, nobody else can commit: what is remembered from here on is right until we let go."""
        version = connection.execute(DATA_VERSION).fetchone()[0]
        if version != self._version:
            self.recent.clear()
            self._version = version


def connect(path: Path) -> sqlite3.Connection:
    """A connection as durable as SQLite can be: WAL, synchronous FULL."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """The one thing that SQLite does not wait for by itself, where several processes open a new file at once."""
    for left in reversed(range(BUSY_TIMEOUT_MS // round(BUSY_PAUSE_S * 1_000))):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or not left:
                raise
        time.sleep(BUSY_PAUSE_S)


def perform(writes: Sequence[Write], transaction: Transaction) -> Outcome | Exception:
    """The outcome of one decision; an exception, and nothing written, where it holds what no store could keep."""
    items: list[Item] = []
    bodies: list[bytes] = []
    try:
        for index, write in enumerate(writes):
            current = transaction.get(write.key)
            if not write.holds(current):
                return Refused(index, current)
            items.append(write.result(current))
            bodies.append(orjson.dumps(items[-1]))
    except (TypeError, ValueError) as error:  # a bug of its caller, and no reason to end the others' writer
        return error
    for write, item, body in zip(writes, items, bodies, strict=True):
        transaction.put(write.key, item, body)
    return Applied(tuple(items))


def _deliver(answers: list[asyncio.Future[Any]], outcomes: list[Any] | StoreUnavailable) -> None:
    for index, answer in enumerate(answers):
        if answer.cancelled():  # the caller went away; what it asked for was done all the same
            continue
        outcome = outcomes if isinstance(outcomes, StoreUnavailable) else outcomes[index]
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
