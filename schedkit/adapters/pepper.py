"""The pepper: the server's own secret, without which a copy of the store says nothing about the keys in it.

First wins: the variable SCHEDKIT_PEPPER, the file that SCHEDKIT_PEPPER_FILE names, the file `pepper` of the data
folder, which is made when it is first needed. Whoever changes the pepper makes every key worthless.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from schedkit.adapters.system import secret_bytes
from schedkit.errors import Reason, StartupRefused

PEPPER_NAME: Final = "pepper"
VARIABLE: Final = "SCHEDKIT_PEPPER"
FILE_VARIABLE: Final = "SCHEDKIT_PEPPER_FILE"
PEPPER_BYTES: Final = 32
MIN_CHARS: Final = 32
OWNER_ONLY: Final = 0o600


def pepper(folder: Path | None, environment: Mapping[str, str]) -> bytes:
    """The pepper; None as `folder` keeps none, and gives one that is forgotten.

    Raises StartupRefused (PEPPER_UNUSABLE) for one that cannot be read, is too short, or that others may read.
    """
    if said := environment.get(VARIABLE):
        return _long_enough(said, VARIABLE)
    if named := environment.get(FILE_VARIABLE):
        return _read(Path(named))
    if folder is None:
        return secret_bytes(PEPPER_BYTES)
    path = folder / PEPPER_NAME
    if not path.exists():
        _make(path)
    return _read(path)


def _make(path: Path) -> None:
    """Written elsewhere and linked into place, so that nobody reads half of it and the first of two makers wins."""
    fresh = path.with_name(f"{PEPPER_NAME}.{os.getpid()}")
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        try:
            os.write(file, secret_bytes(PEPPER_BYTES).hex().encode())
            os.fsync(file)
        finally:
            os.close(file)
        try:
            os.link(fresh, path)
        except FileExistsError:
            return
        finally:
            fresh.unlink()
    except OSError as error:
        raise _unusable(path, f"cannot be made: {error.strerror}") from error


def _read(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, f"cannot be read: {error}") from error
    if mode & 0o077:
        raise _unusable(path, "can be read by others", f"chmod 600 {path}")
    return _long_enough(text, str(path))


def _long_enough(text: str, where: str) -> bytes:
    if len(text) < MIN_CHARS:
        raise _unusable(where, f"has {len(text)} characters, and a pepper has {MIN_CHARS} or more")
    return text.encode()


def _unusable(
    where: Path | str, what: str, fix: str = "put it back from a backup of the data folder"
) -> StartupRefused:
    return StartupRefused(
        Reason.PEPPER_UNUSABLE,
        f"the pepper in {where} {what}",
        why="API keys are stored under it; with another one none of them would be known",
        fix=(fix, "where it is lost: delete it and make every key anew, beginning with: schedkit key bootstrap"),
    )
