"""Backups: one file that is a plain SQLite database, taken while others write to the one that it is of.

    dev.db ── one read transaction ──► FILE.partial ── what a restore has to know ──► checked, on disk ──► FILE

Page by page, so that checking the copy checks the original. Writers never wait for it; what they write meanwhile is not
in it, and stays in the write-ahead log until it is done. Beside the items a backup has a table of one row, `backup`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from schedkit.adapters.sqlite.schema import APPLICATION_ID, VERSION
from schedkit.adapters.sqlite.writer import BUSY_TIMEOUT_MS, GET
from schedkit.engine.restoring import floor_of
from schedkit.errors import Conflict, InvalidInput, Reason, SchedkitError, StartupRefused
from schedkit.model.keys import RESTORED_KEY
from schedkit.model.time import Instant

PARTIAL: Final = ".partial"  # what a backup is called until it is whole
OWNER_ONLY: Final = 0o600
NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)  # what file systems without hard links say
BESIDE: Final = ("-journal", "-wal", "-shm")  # what SQLite keeps beside a database

_TABLE: Final = "CREATE TABLE backup (taken_at INTEGER NOT NULL, made_by TEXT NOT NULL, pepper TEXT)"
_COUNTS: Final = {
    "jobs": "SELECT count(*) FROM items WHERE listed_partition >= 'JOBS#' AND listed_partition < 'JOBS$'",
    "keys": "SELECT count(*) FROM items WHERE listed_partition >= 'KEYS#' AND listed_partition < 'KEYS$'",
    "open_runs": "SELECT count(*) FROM items WHERE substr(timer_partition, 1, 2) IN ('L#', 'R#', 'Q#', 'H#')",
    "items": "SELECT count(*) FROM items",
}
_DUE: Final = "SELECT count(*) FROM items WHERE substr(timer_partition, 1, 2) = 'D#' AND timer_at <= ?"


@dataclass(frozen=True, slots=True)
class Told:
    """What the database does not know by itself. `pepper` is the text of the folder's own, where it has one."""

    taken_at: Instant
    made_by: str
    pepper: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was found whole. `last_restore` is the time at which its store was last restored itself, or 0."""

    told: Told
    schema: int
    size_bytes: int
    jobs: int
    keys: int
    open_runs: int
    items: int
    last_restore: Instant


def take(source: Path, file: Path, told: Told, *, overwrite: bool) -> Backup:
    """Make a backup and check it; until it is whole, `file` is as it was.

    Raises FileExistsError, InvalidInput where it cannot be written, StartupRefused where the source is damaged.
    """
    if not overwrite and file.exists():
        raise FileExistsError(file)
    partial = file.with_name(file.name + PARTIAL)
    try:
        with _alone(partial) as handle:
            _copy(source, partial, told)
            found = _checked(partial, source)
            os.fsync(handle)
            _name(partial, file, overwrite=overwrite)
            sync(file.parent)
            return found
    except FileExistsError:
        raise
    except OSError as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{file} cannot be written: {error.strerror or error}", field="FILE"
        ) from error


@contextlib.contextmanager
def _alone(partial: Path) -> Iterator[int]:
    """The file, empty, readable by its owner and locked; gone afterwards. What a killed backup left is written over."""
    handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                Reason.DATA_FOLDER_IN_USE,
                f"another backup is being written to {partial}",
                why="two of them would end up as neither",
                fix=("wait for it, or give another file",),
            ) from None
        try:
            os.fchmod(handle, OWNER_ONLY)
            os.ftruncate(handle, 0)
            yield handle
        finally:
            for name in ("", *BESIDE):
                partial.with_name(partial.name + name).unlink(missing_ok=True)
    finally:
        os.close(handle)


def _copy(source: Path, partial: Path, told: Told) -> None:
    with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # it is flushed once, as a whole
        try:
            with contextlib.closing(_reading(source)) as origin:
                origin.backup(copy)  # all pages in one step: in one read transaction, so no write makes it begin anew
        except sqlite3.Error as error:
            raise _not_copied(source, error) from error
        try:
            copy.execute("PRAGMA journal_mode = DELETE")  # a write-ahead log would be a second file
            copy.execute("DROP TABLE IF EXISTS backup")
            copy.execute(_TABLE)
            copy.execute("INSERT INTO backup VALUES (?, ?, ?)", (told.taken_at, told.made_by, told.pepper))
        except sqlite3.Error as error:
            raise OSError(0, str(error)) from error


def _name(partial: Path, file: Path, *, overwrite: bool) -> None:
    """Give it its name. Raises FileExistsError where something came to stand there meanwhile."""
    if not overwrite:
        try:
            return os.link(partial, file)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
        if file.exists():
            raise FileExistsError(file)
    partial.replace(file)


def _checked(partial: Path, source: Path) -> Backup:
    """What is wrong with a fresh copy is wrong with what it is a copy of."""
    try:
        return inspect(partial)
    except InvalidInput as error:
        raise _damaged(source, error.detail.removeprefix(f"{partial} ")) from error


def _reading(source: Path) -> sqlite3.Connection:
    """A connection that changes nothing. Not `mode=ro`: that one would leave files behind it."""
    connection = sqlite3.connect(f"{source.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA query_only = 1")
    return connection


def _not_copied(source: Path, error: sqlite3.Error) -> SchedkitError | OSError:
    text = str(error)
    if "full" in text or "disk I/O" in text:
        return OSError(0, text)
    return _damaged(source, f"cannot be read: {error}")


def _damaged(source: Path, what: str) -> StartupRefused:
    return StartupRefused(
        Reason.DATABASE_CORRUPT,
        f"{source} {what}",
        why="a copy of it would be no better, so no backup was made",
        fix=(f"keep a copy, then try: sqlite3 {source.name} .recover",),
    )


def inspect(file: Path) -> Backup:
    """What a backup holds, with every page of it looked at; the file is not written to, nor anything beside it.

    Raises InvalidInput (BACKUP_INVALID) for a file that is none, is cut off or damaged, StartupRefused for a newer one.
    """
    if not file.is_file():
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"there is no file {file}", field="FILE")
    try:
        with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?immutable=1", uri=True)) as database:
            return _inspected(file, database)
    except sqlite3.Error as error:
        raise _invalid(f"{file} is no whole backup: {error}", "make another one") from error


def _inspected(file: Path, database: sqlite3.Connection) -> Backup:
    application, schema = (_number(database, f"PRAGMA {name}") for name in ("application_id", "user_version"))
    if application != APPLICATION_ID:
        raise _invalid(f"{file} is a database of another program, or empty", "give a file that schedkit backup made")
    if schema > VERSION:
        raise StartupRefused(
            Reason.DATABASE_TOO_NEW,
            f"{file} is of a newer schedkit: schema version {schema}, this one knows {VERSION}",
            why="an older program could lose what a newer one stored, so nothing was changed",
            fix=("upgrade schedkit",),
        )
    if not _number(database, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'backup'"):
        raise _invalid(
            f"{file} is a schedkit database, but no backup: when it was copied, and whether as a whole, is not known",
            f"put it alone into an empty folder as dev.db, then: schedkit backup {file}.backup --data FOLDER",
        )
    if (said := database.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
        raise _invalid(f"{file} is damaged: {said}", "give another backup")
    row = database.execute("SELECT taken_at, made_by, pepper FROM backup").fetchone()
    restored = database.execute(GET, RESTORED_KEY).fetchone()
    counts = {name: _number(database, sql) for name, sql in _COUNTS.items()}
    last_restore = floor_of(orjson.loads(restored[0])) if restored else 0
    return Backup(Told(*row), schema, file.stat().st_size, **counts, last_restore=last_restore)


def due_since(file: Path, now: Instant) -> int:
    """How many jobs of a backup that was inspected have been due until now."""
    with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?immutable=1", uri=True)) as database:
        return _number(database, _DUE, now)


def last_restore(database: Path) -> Instant:
    """When a store was last restored; 0 where it never was, or cannot be read."""
    try:
        with contextlib.closing(_reading(database)) as connection:
            row = connection.execute(GET, RESTORED_KEY).fetchone()
    except sqlite3.Error:
        return 0
    return floor_of(orjson.loads(row[0])) if row else 0


def forget_backup(staged: Path) -> None:
    """Make a store of a backup: what only a restore has to know is overwritten."""
    with contextlib.closing(sqlite3.connect(staged, isolation_level=None)) as database:
        database.execute("PRAGMA secure_delete = ON")
        database.execute("DROP TABLE backup")


def fold(database: Path) -> bool:
    """Bring what stands in the write-ahead log into the database itself; False where it is too damaged for that.

    Raises sqlite3.Error where the disk is full, or another program has the database open.
    """
    try:
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.Error as error:
        if "full" in str(error) or "locked" in str(error):
            raise
        return False
    if busy or database.with_name(database.name + "-wal").exists():  # the last one to close it takes the log away
        raise sqlite3.OperationalError(f"another program has {database.name} open")
    return True


def sync(place: Path) -> None:
    """Have a file, or the names in a folder, on disk."""
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _number(database: sqlite3.Connection, sql: str, *values: int) -> int:
    return int(database.execute(sql, values).fetchone()[0])


def _invalid(what: str, fix: str) -> InvalidInput:
    why = "what is put back is all that there is afterwards, so nothing was changed"
    return InvalidInput(Reason.BACKUP_INVALID, what, field="FILE", why=why, fix=(fix,))
