"""The data folder: one process at a time, told by a lock that the operating system drops when its holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, Final

from schedkit.errors import Conflict, Reason, StartupRefused

LOCK_NAME: Final = "lock"
DATABASE_NAME: Final = "dev.db"
LOCK_TRIES: Final = 5
LOCK_PAUSE_S: Final = 0.01
PRIVATE: Final = 0o700  # payloads are the users' own


class DataFolder:
    """A locked data folder; the lock ends with `release` or with the process."""

    def __init__(self, path: Path) -> None:
        """Create and lock it. Raises StartupRefused (DATA_FOLDER_UNUSABLE), Conflict (DATA_FOLDER_IN_USE)."""
        self.path = path
        try:
            path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            self._file = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartupRefused(
                Reason.DATA_FOLDER_UNUSABLE,
                f"the data folder {path} cannot be used: {error.strerror}",
                fix=("make it writable, or point --data at another folder",),
            ) from error
        if not _locked(self._file, fcntl.LOCK_EX):
            os.close(self._file)
            raise in_use(path)

    @property
    def database(self) -> Path:
        return self.path / DATABASE_NAME

    def note(self, **facts: Any) -> None:
        """Write down who holds the folder, for those who come second and for `schedkit down`."""
        text = json.dumps({"pid": os.getpid(), **facts}).encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text, 0)

    def release(self) -> None:
        os.ftruncate(self._file, 0)
        os.close(self._file)


def holder(path: Path) -> dict[str, Any] | None:
    """What the process that holds this folder wrote down; None where nobody holds it."""
    try:
        file = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _locked(file, fcntl.LOCK_SH, tries=1) else noted(path)
    finally:
        os.close(file)


def _locked(file: int, how: int, tries: int = LOCK_TRIES) -> bool:
    """Take the lock; one that is only being looked at is free again in a moment."""
    for left in reversed(range(tries)):
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except OSError:
            if left:
                time.sleep(LOCK_PAUSE_S)
        else:
            return True
    return False


def noted(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads((path / LOCK_NAME).read_text() or "{}")
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def in_use(path: Path) -> Conflict:
    """Why a folder that a process holds is not to be had."""
    facts = noted(path)
    who = f"pid {facts['pid']}" if "pid" in facts else "another process"
    where = f" at {facts['url']}" if "url" in facts else ""
    return Conflict(
        Reason.DATA_FOLDER_IN_USE,
        f"already running ({who}){where}: it holds the data folder {path}",
        why="a scheduler that starts takes over what the one before it held, so there is one at a time",
        fix=("schedkit down   stops it", "schedkit up --data DIR --port 8701   starts another one beside it"),
        extra={"pid": facts.get("pid")},
    )
