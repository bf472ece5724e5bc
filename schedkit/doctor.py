"""What `schedkit doctor` finds on this machine: packages, zone data, the data folder, the folder of secrets.

Each check gives findings. A repair is harmless and says what it did: it makes a folder, or takes rights from others.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Final

from schedkit.adapters.secrets import FOLDER_VARIABLE
from schedkit.adapters.sqlite.folder import DATABASE_NAME, PRIVATE, holder
from schedkit.adapters.sqlite.health import Health, health, unfit
from schedkit.engine.when.zones import TZDATA_VERSION

OLDEST_PYTHON: Final = (3, 11)
MIB: Final = 1_024 * 1_024
LITTLE_SPACE: Final = 1_024 * MIB  # a busy scheduler writes this much in a day
NO_SPACE: Final = 64 * MIB  # a write-ahead log alone may need it
OTHERS: Final = 0o077
_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?(?P<bounds>[^;]*)(;(?P<marker>.*))?")


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, what to do; `repaired` says that it has been done."""

    check: str
    level: Level
    text: str
    fix: str | None = None
    repaired: bool = False


def ok(check: str, text: str, *, repaired: bool = False) -> Finding:
    return Finding(check, Level.OK, text, None, repaired)


def warn(check: str, text: str, fix: str) -> Finding:
    return Finding(check, Level.WARN, text, fix)


def fail(check: str, text: str, fix: str) -> Finding:
    return Finding(check, Level.FAIL, text, fix)


def machine(data: Path, *, repair: bool) -> Iterator[Finding]:
    """Everything that can be seen without asking a server."""
    yield python()
    yield from packages()
    yield from data_folder(data, repair=repair)
    yield from secrets_folder(os.environ.get(FOLDER_VARIABLE), repair=repair)


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """The interpreter that runs this."""
    said = f"{'.'.join(map(str, version))} on {platform.system()}"
    if version < OLDEST_PYTHON:
        return fail("python", said, "install Python 3.11 or newer")
    return ok("python", said)


def packages(name: str = "schedkit") -> Iterator[Finding]:
    """What this program was built for is what is installed."""
    wrong = []
    wanted = [found for line in metadata.requires(name) or () if (found := _REQUIREMENT.match(line))]
    needed = [found for found in wanted if "extra" not in (found["marker"] or "")]
    for found in needed:
        try:
            version = metadata.version(found["name"])
        except metadata.PackageNotFoundError:
            yield fail("packages", f"{found['name']} is not installed", f"pip install '{found[0].strip()}'")
            wrong.append(found)
            continue
        if not within(version, found["bounds"]):
            said = f"{found['name']} is {version}, and was tested with {found['bounds'].strip()}"
            yield warn("packages", said, f"pip install '{found['name']}{found['bounds'].strip()}'")
            wrong.append(found)
    if not wrong:
        yield ok("packages", f"schedkit {metadata.version(name)} with {len(needed)} others, as they were tested")


def within(version: str, bounds: str) -> bool:
    """Whether a version is inside bounds such as `>=3.11,<4`; what is written otherwise is taken for inside."""
    here = _numbers(version)
    for bound in bounds.strip().split(","):
        sign = bound.strip().rstrip("0123456789.")
        limit = _numbers(bound.strip().removeprefix(sign))
        if (sign == ">=" and here < limit) or (sign == "<" and here >= limit):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:4])


def data_folder(data: Path, *, repair: bool) -> Iterator[Finding]:
    """It is there, private, has room, and holds a database that a start would take."""
    if not data.is_dir():
        if not repair:
            yield warn("data folder", f"{data} is not there yet", "schedkit doctor --fix   makes it, as up does")
            return
        try:
            data.mkdir(mode=PRIVATE, parents=True)
        except OSError as error:
            yield fail("data folder", f"{data} cannot be made: {error.strerror}", "name another one: --data DIR")
            return
        yield ok("data folder", f"{data} was made", repaired=True)
    try:
        why = unfit(data)
    except OSError as error:
        yield fail("data folder", f"{data} cannot be written: {error.strerror}", f"make {data} writable for you")
        return
    if why is not None:
        yield fail("data folder", f"{data}: {why}", "use a folder on a disk of this machine: --data DIR")
        return
    yield from private("data folder", data, PRIVATE, repair=repair)
    yield _room(data)
    facts = holder(data)
    if facts is not None:
        yield ok("lock", f"held by pid {facts.get('pid', '?')}, {facts.get('url', 'which says no address')}")
    else:
        yield ok("lock", "free: no scheduler works in the folder")
    if (data / DATABASE_NAME).exists():
        yield from _database(health(data / DATABASE_NAME, thorough=facts is None), data, running=facts is not None)


def _room(data: Path) -> Finding:
    free = shutil.disk_usage(data).free
    said = f"{free // (1_024 * MIB)} GiB free" if free >= LITTLE_SPACE else f"{free // MIB} MiB free"
    if free < NO_SPACE:
        return fail("space", said, "free space on that disk: without it nothing is accepted")
    return ok("space", said) if free >= LITTLE_SPACE else warn("space", said, "free space on that disk")


def _database(found: Health, data: Path, *, running: bool) -> Iterator[Finding]:
    if found.trouble is not None:
        fix = f"keep a copy of {data}, then put a backup back: schedkit restore FILE --data {data}"
        yield fail("database", f"{data / DATABASE_NAME}: {found.trouble}", fix)
        return
    looked = "its pages are looked at when no scheduler runs" if running else "every page looked at"
    if found.schema < found.newest_schema:
        said = f"schema {found.schema}, the next start brings it to {found.newest_schema}; {looked}"
        yield warn("database", said, f"schedkit backup FILE --data {data}   before that")
    else:
        yield ok("database", f"schema {found.schema}; {looked}")
    if found.zone_data not in (None, TZDATA_VERSION):
        said = f"next runs were computed with {found.zone_data}, this program has {TZDATA_VERSION}"
        yield warn("zone data", said, "restart the scheduler: it computes them anew before it runs anything")
    else:
        yield ok("zone data", TZDATA_VERSION)


def secrets_folder(named: str | None, *, repair: bool) -> Iterator[Finding]:
    """Whose files may be named by jobs: readable for the scheduler, and for nobody else."""
    if named is None:
        return
    folder = Path(named)
    if not folder.is_dir():
        yield fail("secrets", f"{FOLDER_VARIABLE} names {folder}, which is no folder", "name a folder, or unset it")
        return
    if not os.access(folder, os.R_OK | os.X_OK):
        yield fail("secrets", f"{folder} cannot be read", f"make {folder} readable for whoever runs the scheduler")
        return
    yield from private("secrets", folder, PRIVATE, repair=repair)
    for file in sorted(folder.iterdir()):
        if file.is_file() and _open_to_others(file):
            yield from private("secrets", file, 0o600, repair=repair)


def private(check: str, place: Path, mode: int, *, repair: bool) -> Iterator[Finding]:
    """Nobody but its owner may read it; repaired where that was asked for."""
    if not _open_to_others(place):
        yield ok(check, f"{place}, for its owner only")
        return
    was = f"{place.stat().st_mode & 0o777:o}"
    try:
        if repair:
            place.chmod(mode)
            yield ok(check, f"{place} was open to others (mode {was}); now it has mode {mode:o}", repaired=True)
            return
    except OSError as error:
        yield fail(check, f"{place} stays open to others: {error.strerror}", f"as its owner: chmod {mode:o} {place}")
        return
    yield warn(check, f"{place} is open to others (mode {was})", f"chmod {mode:o} {place}, or schedkit doctor --fix")


def _open_to_others(place: Path) -> bool:
    return bool(place.stat().st_mode & OTHERS)
