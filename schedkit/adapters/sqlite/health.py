"""What can be said about a database and its folder without a scheduler, and without changing either."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

import orjson

from schedkit.adapters.sqlite.schema import APPLICATION_ID, VERSION
from schedkit.adapters.sqlite.writer import BUSY_TIMEOUT_MS, GET
from schedkit.model.keys import ZONES_KEY


@dataclass(frozen=True, slots=True)
class Health:
    """`trouble` is what a start would refuse it for; `zone_data` is what its next runs were computed with."""

    schema: int
    newest_schema: int
    zone_data: str | None
    trouble: str | None


def health(database: Path, *, thorough: bool) -> Health:
    """Look at a database; `thorough` reads every page of it."""
    schema, zone_data = 0, None
    try:
        with contextlib.closing(
            sqlite3.connect(f"{database.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)
        ) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA query_only = 1")
            schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                return Health(schema, VERSION, None, "it is a database of another program")
            if schema > VERSION:
                return Health(schema, VERSION, None, "a newer schedkit wrote it")
            row = connection.execute(GET, ZONES_KEY).fetchone()
            zone_data = orjson.loads(row[0])["version"] if row else None
            said = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if thorough else "ok"
    except sqlite3.Error as error:
        return Health(schema, VERSION, zone_data, str(error))
    return Health(schema, VERSION, zone_data, None if said == "ok" else said)


def unfit(folder: Path) -> str | None:
    """Why no data may be kept in this folder: it lacks what a lock or a write-ahead log needs. None where it has it.

    It is tried out, in a folder of its own that is gone afterwards. Raises OSError where nothing can be written.
    """
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as place:
        handle = os.open(Path(place) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return f"its file system has no locks: {error.strerror}"
        finally:
            os.close(handle)
        try:
            with contextlib.closing(sqlite3.connect(Path(place) / "x.db", isolation_level=None)) as database:
                mode = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                database.execute("CREATE TABLE x (x)")
        except sqlite3.Error as error:
            return f"its file system keeps no database: {error}"
        return None if mode == "wal" else "its file system has no shared memory for a write-ahead log"
