"""Writing settings files: comments and order are kept, the file is replaced at once and readable by its owner only."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit import TOMLDocument

from schedkit.cli.settings import PROJECT_FILE, check, invalid, parsed, project_file, user_file

OWNER_ONLY = 0o600


def place(*, project: bool) -> Path:
    """The file to write: the project's (a new one in the working directory), or the user's."""
    if project:
        return project_file() or Path.cwd() / PROJECT_FILE
    return user_file()


def change(path: Path, edit: Callable[[TOMLDocument], None]) -> None:
    """Apply an edit to a settings file; nothing is written when the result would not be understood."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        parsed(text, path)  # says better than the editing parser what is wrong
        document = tomlkit.parse(text)
    except (OSError, ValueError) as problem:
        raise invalid(path, str(problem)) from problem
    edit(document)
    check(document.unwrap(), path)
    write(path, tomlkit.dumps(document))


def table(document: TOMLDocument, *names: str) -> Any:
    """The table at a path, made where it is not there yet."""
    at: Any = document
    for depth, name in enumerate(names):
        if name not in at:
            at[name] = tomlkit.table(is_super_table=depth < len(names) - 1)
        at = at[name]
    return at


def write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".schedkit-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(OWNER_ONLY)
        Path(temporary).replace(path)
    except OSError as problem:
        raise invalid(path, f"cannot be written: {problem.strerror}") from problem
