"""The SQLite schema and its migrations: version n is reached by running step n, once, in one transaction.

Processes that open a file at the same time take turns: the second one finds that the first has done it.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from schedkit.errors import Reason, StartupRefused

APPLICATION_ID: Final = 0x5C4E_D417  # marks the file as ours, so that another program's database is not touched

STEPS: Final = (
    # 1: items under keys; a partial index for each way to walk them
    """
    CREATE TABLE items (
        partition        TEXT NOT NULL,
        sort             TEXT NOT NULL,
        body             BLOB NOT NULL,
        timer_partition  TEXT,
        timer_at         INTEGER,
        listed_partition TEXT,
        listed_at        TEXT,
        dead_partition   TEXT,
        dead_at          TEXT,
        expires_at       INTEGER,
        priority         TEXT,
        PRIMARY KEY (partition, sort)
    ) WITHOUT ROWID;
    CREATE INDEX timer ON items (timer_partition, timer_at, partition, sort, priority)
        WHERE timer_partition IS NOT NULL;
    CREATE INDEX listed ON items (listed_partition, listed_at, partition, sort) WHERE listed_partition IS NOT NULL;
    CREATE INDEX dead ON items (dead_partition, dead_at, partition, sort) WHERE dead_partition IS NOT NULL;
    CREATE INDEX expires ON items (expires_at) WHERE expires_at IS NOT NULL;
    """,
    # 2: which task queue a timer is for
    """
    ALTER TABLE items ADD COLUMN task_line TEXT
    """,
)
VERSION: Final = len(STEPS)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the database to VERSION. Raises StartupRefused for a newer file, or one that is not ours."""
    connection.execute("BEGIN")  # one look: another process may be migrating it now
    version = _version(connection)
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
    connection.execute("COMMIT")
    if has_tables and application != APPLICATION_ID:
        raise StartupRefused(
            Reason.DATA_FOLDER_UNUSABLE,
            f"{path} is a database of another program",
            why="its application id is not schedkit's, so it was left as it is",
            fix=("point --data at another folder",),
        )
    if version > VERSION:
        raise StartupRefused(
            Reason.DATABASE_TOO_NEW,
            f"{path} was written by a newer schedkit: schema version {version}, this one knows {VERSION}",
            why="an older program could lose what a newer one stored, so nothing was opened for writing",
            fix=("upgrade schedkit, or point --data at another folder",),
        )
    while version < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)  # with the lock in hand: another process may have been faster
            if version < VERSION:
                _run(connection, version)
                version += 1
            connection.execute("COMMIT")
        except sqlite3.Error:
            connection.rollback()
            raise


def _run(connection: sqlite3.Connection, step: int) -> None:
    for statement in STEPS[step].split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {step + 1}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
