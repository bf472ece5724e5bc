"""The job files that `-f` names, and whose jobs they are: a file, `-` for stdin, or a folder with all its job files.

jobs.yaml in a clone of owner/repository    managed_by jobs.yaml@owner/repository
jobs.yaml anywhere else                     managed_by jobs.yaml@/the/folder
managed_by: text in the file                that
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from schedkit.errors import InvalidInput, Reason
from schedkit.files import jobfile
from schedkit.files.jobfile import JobFile
from schedkit.files.problems import Problem, refusal
from schedkit.model.names import MAX_NAME_CHARS

DEFAULT_FILE: Final = "jobs.yaml"
STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
_OURS: Final = re.compile(r'^\s*\{?\s*"?schedkit"?\s*:', re.MULTILINE)
_REMOTE: Final = re.compile(r'^\[remote "origin"\]\s*$(?:\n(?!\[).*)*?\n\s*url\s*=\s*(?P<url>\S+)', re.MULTILINE)
_LAST_TWO: Final = re.compile(r"([^/:]+/[^/:]+?)(?:\.git)?/?$")


def read(names: Sequence[str] | None) -> list[JobFile]:
    """Every file that was named, with all their problems. Raises InvalidInput for one that cannot be opened."""
    files = []
    for name in names or [DEFAULT_FILE]:
        if name == STDIN:
            files.append(_owned(jobfile.read(sys.stdin.read(), STDIN), Path.cwd() / "stdin"))
            continue
        for path in _paths(Path(name), given=bool(names)):
            files.append(_owned(jobfile.read(_text(path), str(path)), path))
    _refuse_twice(files)
    return files


def read_sound(names: Sequence[str] | None) -> list[JobFile]:
    """The same for those who act. Raises InvalidInput (INVALID_FILE) that says all that is wrong."""
    files = read(names)
    if problems := [problem for file in files for problem in file.problems]:
        raise refusal(problems)
    return files


def _paths(named: Path, *, given: bool) -> Iterator[Path]:
    if not named.is_dir():
        if not named.exists():
            fix = ["schedkit init", "schedkit job apply -f FILE"] if not given else []
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"there is no file {named}", fix=fix, field="-f")
        yield named
        return
    hidden = re.compile(r"(^|/)\.[^/]")
    found = [path for path in sorted(named.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    visible = [path for path in found if not hidden.search(str(path.relative_to(named)))]
    ours = [path for path in visible if _OURS.search(_text(path))]
    if not ours:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"no file in {named} is a job file",
            why="a job file ends in .yaml, .yml or .json and has the key schedkit",
            field="-f",
        )
    yield from ours


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{path} is no UTF-8 text", field="-f") from problem
    except OSError as problem:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"cannot read {path}: {problem.strerror}", field="-f") from problem


def _refuse_twice(files: Sequence[JobFile]) -> None:
    """A name is one job's, whichever file it stands in."""
    first: dict[str, str] = {}
    for file in files:
        for job in file.jobs:
            if job.name in first and first[job.name] != file.file:
                told = f"stands in {first[job.name]} as well"
                file.problems.append(Problem(file.file, job.line, told, job.name, fix=("keep one of the two",)))
            first.setdefault(job.name, file.file)


def _owned(file: JobFile, path: Path) -> JobFile:
    file.managed_by = file.managed_by or owner_of(path)
    return file


def owner_of(path: Path) -> str:
    """Who keeps the jobs of a file that does not say so itself: the file and its repository, or its folder."""
    path = path.absolute()
    nearest = next((folder for folder in path.parents if (folder / ".git").exists()), None)
    if nearest is not None and (origin := _origin(nearest / ".git")) is not None:
        return _bounded(f"{path.relative_to(nearest).as_posix()}@{origin}")
    return _bounded(f"{path.name}@{path.parent.as_posix()}")


def _origin(git: Path) -> str | None:
    """`owner/repository` of a clone's origin; None where there is none. Its host and any password are left out."""
    try:
        if git.is_file():  # a work tree of another clone: gitdir: /clone/.git/worktrees/name
            git = Path(git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).parent.parent
        remote = _REMOTE.search((git / "config").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    found = _LAST_TWO.search(remote["url"]) if remote is not None else None
    return found[1] if found is not None else None


def _bounded(owner: str) -> str:
    """An owner that fits; the end of a long one says more than its beginning."""
    owner = "".join(char if char.isprintable() else "?" for char in owner)
    if len(owner) <= MAX_NAME_CHARS:
        return owner
    mark = blake2b(owner.encode(), digest_size=6).hexdigest()
    return f"{mark}...{owner[-(MAX_NAME_CHARS - len(mark) - 3) :]}"
