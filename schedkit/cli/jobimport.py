"""`schedkit job import`: another scheduler's entries as a job file, printed and never written."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schedkit.cli import show, values
from schedkit.cli.frame import verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.errors import InvalidInput, Reason

if TYPE_CHECKING:
    from schedkit.files.imported import Imported

Option = typer.Option
SOURCES: Final = {
    "crontab": "crontab",
    "eventbridge": "eventbridge",
    "k8s-cronjob": "kubernetes",
    "celery-beat": "celery",
}
STDIN: Final = "-"


def add_to(app: typer.Typer) -> None:
    """Register the command with the noun `job`."""
    verb(app, "import")(import_jobs)


def import_jobs(
    me: Invocation,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What it printed or keeps; - for stdin.")],
    source: Annotated[str, Option("--from", metavar="S", help=f"{', '.join(SOURCES)}.")],
    target: Annotated[
        str | None, Option("--target", metavar="T", help="A URL or a registered target; a queue unless said.")
    ] = None,
    window: Annotated[str | None, Option("--window", metavar="5m", help="May start anywhere in this long.")] = None,
    prefix: Annotated[str, Option("--prefix", metavar="P", help="In front of each name.")] = "",
    system: Annotated[
        bool | None, Option("--system/--no-system", help="A crontab's sixth column is the user; found out unless said.")
    ] = None,
) -> None:
    """Turn another scheduler's entries into a job file. It is printed; every changed meaning is said on stderr too.

    Examples:
      schedkit job import --from crontab /etc/crontab --tz Europe/Berlin > jobs.yaml
      schedkit job import --from k8s-cronjob cronjobs.yaml --target https://jobs.internal/run
    """
    from schedkit.files.imported import Wishes

    kind = values.choice(source, list(SOURCES), "--from")
    if window is not None:
        values.duration_seconds(window, "--window")
    said = {"tz", "utc"} & me.given.keys()  # a default zone of this machine's says nothing about the source's
    wishes = Wishes(me.zone if said else None, target, window, prefix, system)
    text = _read(file)
    reader = importlib.import_module(f"schedkit.files.{SOURCES[kind]}")
    found: Imported = reader.read(text, wishes)
    me.show(One("schedkit.jobs/v1", found.document(), found.text().splitlines(), "schedkit", exact=True))
    for note in found.notes:
        me.say(show.line(str(note)))
    me.say(found.summary())


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{file} is no UTF-8 text", field="FILE") from problem
    except OSError as problem:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"cannot read {file}: {problem.strerror}", field="FILE"
        ) from problem
