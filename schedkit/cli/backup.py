"""`schedkit backup` and `schedkit restore`: one file that holds a data folder, and a data folder from such a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schedkit.cli import show, values
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.frame import Change, Severe
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.model.time import rfc3339

if TYPE_CHECKING:
    from schedkit.backups import Backup, Plan, Restored

DEFAULT_DATA: Final = Path(".schedkit")
KIB: Final = 1_024
File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
Lines = list[str | tuple[str, str]]


def backup(
    me: Invocation,
    file: File,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="The data folder; a scheduler may be working in it.")
    ] = DEFAULT_DATA,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Copy a data folder into one file while the scheduler goes on; it is checked before it takes its name.

    Examples:
      schedkit backup monday.db
      schedkit backup /var/backups/schedkit.db --data /var/lib/schedkit --force
    """
    from schedkit import backups

    try:
        found = backups.take(data, file, overwrite=force)
    except FileExistsError:
        raise Refusal(
            Code.FILE_EXISTS,
            ExitCode.CONFLICT,
            f"{file} is there already",
            why="a backup is not written over without a word, so nothing was written",
            fix=[f"schedkit backup {file} --force", "give it another name"],
        ) from None
    doc = {"file": str(file), "data": str(data), **_facts(found)}
    lines: Lines = [
        ("backup", f"{file}   {_size(found.size_bytes)}, only you can read it"),
        ("taken", show.stamp(rfc3339(found.told.taken_at), me.zone)),
        ("checked", f"every page; {show.count(found.items, 'item')}, schema {found.schema}"),
        ("jobs", f"{found.jobs:,}"),
        ("runs open", f"{found.open_runs:,}"),
        ("api keys", _keys(found)),
    ]
    me.show(One("schedkit.backup/v1", doc, lines, "file"))


def restore(
    me: Invocation,
    change: Change,
    severe: Severe,
    file: File,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="The data folder; no scheduler may be working in it.")
    ] = DEFAULT_DATA,
) -> None:
    """Put a backup in the place of a data folder's database, which is kept beside it. Says what may run twice.

    Examples:
      schedkit restore monday.db --data fresh --dry-run
      schedkit restore /var/backups/schedkit.db --data /var/lib/schedkit --confirm schedkit --reason "disk died"
    """
    from schedkit import backups

    plan = backups.look(file, data)
    if change.dry_run:
        doc = {"file": str(file), "data": str(data), "replaces": plan.replaces, **_facts(plan.backup)}
        doc |= {"due_since": plan.due_since, "restored_at": None}
        doing = "replace the database of" if plan.replaces else "restore into" if data.exists() else "make"
        return me.show(
            One(
                "schedkit.restore/v1",
                doc,
                [*_plan(me, plan), ("would", f"{doing} {data}")],
            )
        )
    if plan.replaces:
        for line in _plan(me, plan) if severe.confirm is None else ():
            me.say("  ".join(line))
        word = data.resolve().name
        me.confirm_typed(f"{data} has a database, which is replaced and kept beside it.", word, severe.confirm)
    done = backups.restore(plan, change.reason)
    doc = {"file": str(file), "data": str(data), "replaces": plan.replaces, **_facts(done.plan.backup)}
    doc |= {
        "due_since": done.plan.due_since,
        "restored_at": rfc3339(done.epoch_floor),
        "epoch_floor": done.epoch_floor,
        "taken_back": done.taken_back,
        "replaced": str(done.replaced) if done.replaced is not None else None,
        "pepper": done.pepper,
    }
    me.show(One("schedkit.restore/v1", doc, [*_plan(me, done.plan), *_outcome(done, data)]))


def _facts(found: Backup) -> dict[str, Any]:
    return {
        "taken_at": rfc3339(found.told.taken_at),
        "made_by": found.told.made_by,
        "schema_version": found.schema,
        "size_bytes": found.size_bytes,
        "items": found.items,
        "jobs": found.jobs,
        "open_runs": found.open_runs,
        "api_keys": found.keys,
        "has_pepper": found.told.pepper is not None,
    }


def _plan(me: Invocation, plan: Plan) -> list[tuple[str, str]]:
    found = plan.backup
    taken = rfc3339(found.told.taken_at)
    ago = show.away(found.told.taken_at, values.now_ms())
    return [
        ("backup", f"taken {show.stamp(taken, me.zone)}, {ago}, by schedkit {found.told.made_by}"),
        ("jobs", f"{found.jobs:,}, as they were then; what was changed since is not known"),
        ("may repeat", f"{show.count(found.open_runs, 'run')} that {_were(found.open_runs)} open then"),
        ("", f"{show.count(plan.due_since, 'job')} due since then: each by its own misfire policy"),
        ("", "under the same idempotency keys, with higher fencing tokens than ever before"),
        ("never again", "at-most-once runs that were due before now: they end UNKNOWN"),
        ("api keys", f"{_keys(found)}; one that was revoked since opens again"),
    ]


def _outcome(done: Restored, data: Path) -> Lines:
    lines: Lines = [
        ("tokens", f"above {done.epoch_floor}"),
        ("taken back", f"{show.count(done.taken_back, 'run')} from workers"),
        ("pepper", done.pepper),
    ]
    for name in ("SCHEDKIT_PEPPER", "SCHEDKIT_PEPPER_FILE"):
        if os.environ.get(name):
            lines.append(("note", f"{name} is set, and is used instead of the pepper in the folder"))
    if done.replaced is not None:
        lines.append(("replaced", f"kept as {done.replaced}"))
    return [*lines, ("next", f"schedkit up --data {data}")]


def _keys(found: Backup) -> str:
    if not found.keys:
        return "none"
    carried = "their pepper is in it" if found.told.pepper is not None else "their pepper is NOT in it: keep that too"
    return f"{found.keys:,}, {carried}"


def _size(count: int) -> str:
    """In whole KiB, from 10 MiB on in MiB."""
    return f"{count // KIB:,} KiB" if count < 10 * KIB * KIB else f"{count // (KIB * KIB):,} MiB"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
