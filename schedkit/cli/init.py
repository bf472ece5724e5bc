"""`schedkit init`: a starter project in a folder, nothing overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedkit.cli import values
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.cli.settings import BUILT_IN_CONTEXT, PROJECT_FILE, Context
from schedkit.cli.starter import PROJECTS, settings
from schedkit.errors import InvalidInput, Reason

Option = typer.Option


def init(
    me: Invocation,
    folder: Annotated[str, typer.Argument(metavar="[DIR]", help="Made where it is not there yet.")] = ".",
    template: Annotated[str, Option("--template", metavar="T", help=f"{', '.join(PROJECTS)}.")] = "jobs",
    force: Annotated[bool, Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Make a starter project: settings, jobs, and a worker where one is asked for.

    Examples:
      schedkit init
      schedkit init shop --template full
    """
    files = {PROJECT_FILE: _settings(me), **PROJECTS[values.choice(template, list(PROJECTS), "--template")]}
    place = Path(folder)
    there = [name for name in files if (place / name).exists()]
    if there and not force:
        raise Refusal(
            Code.FILE_EXISTS,
            ExitCode.CONFLICT,
            f"{', '.join(str(place / name) for name in there)} {'is' if len(there) == 1 else 'are'} there already",
            why="nothing is overwritten without a word, so nothing was written",
            fix=[f"schedkit init {folder} --force", "schedkit init ANOTHER-DIR"],
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"cannot write to {folder}: {problem.strerror}", field="DIR"
        ) from problem
    inside = "" if folder == "." else f"cd {folder} && "
    lines = [f"wrote {place / name}" for name in files]
    lines += ["", f"next:  {inside}schedkit job diff", "       schedkit job apply"]
    if "worker.py" in files:
        lines.append("       schedkit worker run worker:w")
    doc = {"folder": folder, "template": template, "files": [str(place / name) for name in files]}
    me.show(One("schedkit.project/v1", doc, lines, "folder", exact=True))


def _settings(me: Invocation) -> str:
    try:
        context = me.context
    except Refusal:  # settings that cannot be read keep nobody from a starter
        return settings(Context(BUILT_IN_CONTEXT), known=False)
    return settings(context, known=context.name in me.settings.found)
