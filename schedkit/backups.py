"""Taking a backup of a data folder, and putting one back: for whoever may write to the folder.

A restore happens on a copy of the backup, and becomes true by one rename; until then the folder is as it was:

    FILE ── copy ──► dev.db.restoring ── mark, take back, audit ──► on disk ──► dev.db
                                            what stood there ──► dev.db.replaced-<when>
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from schedkit import __version__
from schedkit.adapters.failpoints import bare
from schedkit.adapters.pepper import PEPPER_NAME
from schedkit.adapters.sqlite import backup
from schedkit.adapters.sqlite.backup import BESIDE, OWNER_ONLY, Backup, Told
from schedkit.adapters.sqlite.folder import DATABASE_NAME, DataFolder, holder, in_use
from schedkit.adapters.system import SystemClock
from schedkit.api.trail import Chains
from schedkit.engine.restoring import mark
from schedkit.errors import Conflict, InvalidInput, Reason, StartupRefused
from schedkit.model.access import Role
from schedkit.model.audit import MAX_GIVEN_CHARS, RESTORE_ACTION, Entry, Recorded
from schedkit.model.jobs import DEFAULT_TEAM
from schedkit.model.time import Instant, rfc3339
from schedkit.profiles import embedded
from schedkit.roles.recovery import take_back, tenants

__all__ = ["Backup", "Plan", "Restored", "look", "restore", "take"]

STAGED_NAME: Final = DATABASE_NAME + ".restoring"
REPLACED: Final = ".replaced-"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a restore would do. `due_since` jobs were due since the backup; `replaces`: the folder has a database."""

    file: Path
    folder: Path
    backup: Backup
    due_since: int
    replaces: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. Every claim from now on has an epoch above `epoch_floor`, its time in ms."""

    plan: Plan
    epoch_floor: Instant
    taken_back: int
    replaced: Path | None
    pepper: str


def take(folder: Path, file: Path, *, overwrite: bool) -> Backup:
    """Back up a data folder, whether a scheduler works in it or not.

    Raises FileExistsError, InvalidInput, StartupRefused, Conflict (another backup to this file is under way).
    """
    database = folder / DATABASE_NAME
    if not database.is_file():
        raise StartupRefused(
            Reason.DATA_FOLDER_UNUSABLE,
            f"there is no {DATABASE_NAME} in {folder}, so there is nothing to back up",
            fix=("name the folder that the scheduler was started with: --data DIR",),
        )
    told = Told(SystemClock().now(), __version__, _pepper_in(folder))  # before the copy: all from before is in it
    return backup.take(database, file, told, overwrite=overwrite)


def look(file: Path, folder: Path) -> Plan:
    """What restoring this file would do; nothing is changed. Raises as `restore`, and InvalidInput (BACKUP_INVALID)."""
    found = backup.inspect(file)
    if holder(folder) is not None:
        raise _worked_in(in_use(folder), folder)
    now = SystemClock().now()
    _require_later(found, folder / DATABASE_NAME, now)
    return Plan(file, folder, found, backup.due_since(file, now), (folder / DATABASE_NAME).exists())


def _worked_in(taken: Conflict, folder: Path) -> Conflict:
    """The refusal of a folder that is held, for whoever wants to restore into it."""
    taken.why = "nothing is put in the place of what a scheduler works on"
    taken.fix = (f"schedkit down --data {folder}   stops it", "schedkit restore FILE --data ANOTHER-DIR")
    return taken


def restore(plan: Plan, reason: str | None) -> Restored:
    """Put a backup in the place of what stands in the folder, which is kept beside it.

    Raises StartupRefused, Conflict (DATA_FOLDER_IN_USE, CLOCK_BEHIND); then the folder is as it was.
    """
    try:
        held = DataFolder(plan.folder)
    except Conflict as taken:
        raise _worked_in(taken, plan.folder) from None
    try:
        now = SystemClock().now()
        _require_later(plan.backup, held.database, now)
        if held.database.exists() and not plan.replaces:
            raise Conflict(
                Reason.DATA_FOLDER_IN_USE,
                f"a scheduler has worked in {plan.folder} since it was looked at",
                why="what came to be there was not agreed to be replaced",
                fix=("look again: schedkit restore FILE --dry-run",),
            )
        staged = held.path / STAGED_NAME
        try:
            _stage(plan.file, staged)
            taken_back = asyncio.run(_prepared(staged, plan.backup, now, reason))
            backup.sync(staged)
            pepper, fresh = _pepper_ready(held.path, plan.backup.told.pepper, now)
            replaced = _swapped(held.database, staged, now)
        except (OSError, sqlite3.Error) as error:
            raise StartupRefused(
                Reason.DATA_FOLDER_UNUSABLE,
                f"{plan.folder} cannot be written: {error}",
                why="nothing was changed in it",
                fix=("free space there, make it writable, or restore to another folder",),
            ) from error
        finally:
            _unlink_database(staged)
        if fresh is not None:
            _pepper_placed(held.path, fresh, now)
        return Restored(plan, now, taken_back, replaced, pepper)
    finally:
        held.release()


def _require_later(found: Backup, database: Path, now: Instant) -> None:
    """Tokens rise because time does: a clock that is behind what is known to have been would give some out again."""
    known = max(found.told.taken_at, found.last_restore, backup.last_restore(database) if database.exists() else 0)
    if now <= known:
        raise Conflict(
            Reason.CLOCK_BEHIND,
            f"this machine's clock says {rfc3339(now)}, and the store knows of {rfc3339(known)}",
            why="fencing tokens after a restore count from its time, and have to be above all that were given out",
            fix=("set the clock; then restore again",),
        )


def _stage(file: Path, staged: Path) -> None:
    _unlink_database(staged)  # of one that was killed
    os.close(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    shutil.copyfile(file, staged)
    backup.forget_backup(staged)


async def _prepared(staged: Path, found: Backup, now: Instant, reason: str | None) -> int:
    """Everything that a restored store says and the backup did not; returns how many runs were taken from workers."""
    world = replace(embedded(staged), epoch_floor=now)
    try:
        await world.store.apply(mark(found.told.taken_at, now))
        taken = await take_back(world)
        chains = Chains()
        for tenant_id in await tenants(world):
            entry = Entry(
                tenant_id=tenant_id,
                team_id=DEFAULT_TEAM,
                role=Role.ADMIN.value,
                action=RESTORE_ACTION,
                resource="store",
                outcome=Recorded.DONE,
                request_id=f"pid_{os.getpid()}",
                address=f"local user {os.getuid()}",
                before=rfc3339(found.told.taken_at),
                after=rfc3339(now),
                given=(reason or "")[:MAX_GIVEN_CHARS] or None,
            )
            await chains.append(world.store, world.clock, entry)
        return taken
    finally:
        bare(world.store).close()
        await bare(world.targets).close()


def _swapped(database: Path, staged: Path, now: Instant) -> Path | None:
    """One rename; before it, what stands there gets a second name. That name, or None where nothing stood there."""
    if not database.exists():
        for name in BESIDE:  # a log without its database is nobody's, and must not become the new one's
            database.with_name(database.name + name).unlink(missing_ok=True)
        staged.replace(database)
        backup.sync(database.parent)
        return None
    for earlier in database.parent.glob(database.name + REPLACED + "*"):
        if earlier.samefile(database):  # of a restore that was killed before its rename
            earlier.unlink()
    kept = database.with_name(_kept_name(database.name, now))
    folded = backup.fold(database)
    os.link(database, kept)
    if not folded:  # damaged: its log goes with it, for those who try to mend it
        for name in BESIDE:
            log = database.with_name(database.name + name)
            if log.exists():
                log.replace(kept.with_name(kept.name + name))
    staged.replace(database)
    backup.sync(database.parent)
    return kept


def _unlink_database(path: Path) -> None:
    for name in ("", *BESIDE):
        path.with_name(path.name + name).unlink(missing_ok=True)


# ── the pepper ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _pepper_in(folder: Path) -> str | None:
    try:
        return (folder / PEPPER_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            Reason.PEPPER_UNUSABLE,
            f"the pepper in {folder / PEPPER_NAME} cannot be read: {error}",
            why="API keys are stored under it; a backup without it would open nothing",
            fix=("make it readable for whoever takes backups",),
        ) from error


def _pepper_ready(folder: Path, text: str | None, now: Instant) -> tuple[str, Path | None]:
    """What comes of the backup's pepper, in words; and where it waits if it has to take the place of another one.

    A folder without one is given it before the database: nothing there is under another.
    """
    there = _pepper_in(folder)
    if text is None or there == text:
        return ("not in the backup" if text is None else "there already"), None
    fresh = folder / f"{PEPPER_NAME}.restoring"
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    try:
        os.write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    if there is None:
        fresh.replace(folder / PEPPER_NAME)
        return "restored", None
    return f"restored; the one before is {_kept_name(PEPPER_NAME, now)}", fresh


def _pepper_placed(folder: Path, fresh: Path, now: Instant) -> None:
    """The keys of the replaced database are under the pepper that stood there, so it is kept as well.

    After the database: should this be cut off, no key opens anything until the restore is repeated.
    """
    place = folder / PEPPER_NAME
    place.replace(folder / _kept_name(PEPPER_NAME, now))
    fresh.replace(place)
    backup.sync(folder)


def _kept_name(name: str, now: Instant) -> str:
    return name + REPLACED + rfc3339(now).replace("-", "").replace(":", "")
