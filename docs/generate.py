"""Write the pages that follow from the code: cli.md, api.md, state-machine.md and glossary.md.

python -m docs.generate            write them
python -m docs.generate --check    write nothing; exit 1 and name the pages that are stale
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.main import get_command

from docs.api_page import api_page
from docs.keys_page import keys_page
from docs.markdown import cell, plain
from schedkit.cli import frame, front
from schedkit.cli.app import app
from schedkit.cli.explain import dictionary

FOLDER: Final = Path(__file__).parent
NOTE: Final = "<!-- Written by `make docs` from the code. Do not edit. -->\n"

# The modules whose docstrings are the tables and pictures of a rule, in the order a run meets them.
RULES: Final = (
    ("A run", "schedkit.model.runs"),
    ("Who holds it: claim, reclaim, release, settle", "schedkit.engine.who.claim"),
    ("Stopping it", "schedkit.engine.who.cancel"),
    ("What an answer means", "schedkit.engine.failure.retry"),
    ("A holder that was lost", "schedkit.engine.failure.reap"),
    ("After a restore from a backup", "schedkit.engine.restoring"),
    ("Dead letters: redrive, drop, resolve", "schedkit.engine.failure.redrive"),
    ("Backfills: what never ran", "schedkit.engine.failure.backfill"),
    ("A redrive, or a backfill", "schedkit.model.redrives"),
    ("The pace of a redrive", "schedkit.engine.failure.redrive_pace"),
    ("A job whose time has come", "schedkit.engine.when.plan"),
    ("A job along its schedule", "schedkit.engine.when.advance"),
    ("What an operator does to a job", "schedkit.engine.when.operate"),
    ("What was expected, and what became of it", "schedkit.engine.when.ledger"),
    ("A cron when clocks change", "schedkit.engine.when.cron"),
)
GLOSSARY: Final = (
    ("Words", ("word",)),
    ("States of a job", ("job status",)),
    ("States of a run", ("run status",)),
    ("States of a redrive", ("redrive state",)),
    ("Why a redrive ended early, or passed a dead letter over", ("redrive reason",)),
    ("Why an occurrence did not run", ("skip reason",)),
    ("Error codes of the server", ("error",)),
    ("Error codes of the command line", ("client",)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; returns the exit code."""
    options = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--check", action="store_true", help="write nothing, exit 1 if a page is stale")
    chosen = options.parse_args(arguments)
    wanted = pages()
    stale = [name for name, text in wanted.items() if _standing(name) != text]
    if chosen.check:
        for name in stale:
            print(f"docs/{name} is stale: run `make docs`")
        return 1 if stale else 0
    for name in stale:
        (FOLDER / name).write_text(wanted[name], encoding="utf-8")
        print(f"docs/{name} written")
    return 0


def pages() -> dict[str, str]:
    """The text of every generated page by its file name."""
    writers: dict[str, Callable[[], str]] = {
        "cli.md": cli_page,
        "api.md": api_page,
        "state-machine.md": state_machine_page,
        "glossary.md": glossary_page,
        "file-keys.md": keys_page,
    }
    return {name: NOTE + "\n" + write().rstrip() + "\n" for name, write in writers.items()}


def _standing(name: str) -> str | None:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else None


# The command line


def cli_page() -> str:
    """Every command with its help, its examples and its own flags."""
    lines = [
        "# Command line",
        "",
        "`schedkit COMMAND -h` says the same on a terminal. Data goes to stdout, messages to stderr. In a pipe a list",
        "is tab-separated, without a header and without colour; `-o json` is the stable form.",
        "",
    ]
    for heading in dict.fromkeys(entry.heading for entry in front.COMMANDS):
        names = [entry.name for entry in front.COMMANDS if entry.heading == heading]
        lines.append(f"- {heading}: " + ", ".join(f"[{name}](#schedkit-{name})" for name in names))
    lines += ["", "## Flags of every command", "", *_flags(_shared_record())]
    lines += ["", "## Exit codes", "", *_exit_codes()]
    for path, command, ctx in leaves():
        lines += ["", *_command(path, command, ctx)]
    return "\n".join(lines)


def leaves() -> Iterator[tuple[str, Any, Any]]:
    """(path, command, context) of every command, in the order of the front page; a group comes before its verbs."""
    root = get_command(app)
    ctx = typer.Context(root, info_name="schedkit")
    for name in root.list_commands(ctx):  # type: ignore[attr-defined]
        command = root.get_command(ctx, name)  # type: ignore[attr-defined]
        inner = typer.Context(command, info_name=name, parent=ctx)
        yield name, command, inner
        if hasattr(command, "list_commands"):
            for verb in command.list_commands(inner):
                leaf = command.get_command(inner, verb)
                yield f"{name} {verb}", leaf, typer.Context(leaf, info_name=verb, parent=inner)


def _command(path: str, command: Any, ctx: Any) -> list[str]:
    level = "##" if " " not in path else "###"
    lines = [f"{level} schedkit {path}", "", (command.help or "").strip()]
    if hasattr(command, "list_commands"):
        return lines
    own = [param for param in command.params if param not in frame._shared() and not getattr(param, "hidden", False)]
    pieces = [piece for param in own for piece in param.get_usage_pieces(ctx)]
    options = ["[OPTIONS]"] if any(param.param_type_name == "option" for param in own) else []
    lines += ["", "```text", " ".join(["usage: schedkit", path, *pieces, *options]), "```"]
    if command.examples:
        lines += ["", "```sh", *command.examples, "```"]
    records = [
        (frame._signature(param, record[0]), record[1])
        for param in own
        if (record := param.get_help_record(ctx)) is not None and (record[1] or param.param_type_name == "option")
    ]
    return [*lines, "", *_flags(records)] if records else lines


def _shared_record() -> list[tuple[str, str]]:
    root = get_command(app)
    ctx = typer.Context(root, info_name="schedkit")
    records = [
        (frame._signature(param, record[0]), record[1])
        for param in frame._shared()
        if (record := param.get_help_record(ctx)) is not None
    ]
    return [*records, ("-h, --help", "The help page.")]


def _flags(records: Sequence[tuple[str, str]]) -> list[str]:
    rows = [f"| `{cell(left)}` | {cell(right)} |" for left, right in records]
    return ["| | |", "|---|---|", *rows]


def _exit_codes() -> list[str]:
    rows = [row.strip().partition("  ") for row in dictionary()["exit-codes"]["table"]]
    return ["| code | meaning |", "|---|---|", *(f"| {code} | {cell(means.strip())} |" for code, _, means in rows)]


# Rules and words


def state_machine_page() -> str:
    """The pictures and tables that stand on top of the modules that follow them."""
    lines = [
        "# States and rules",
        "",
        "Each picture is the docstring of the module that follows it. Every arrow is one conditional write: it happens",
        "once, or is refused and changes nothing. What the words mean is in the [glossary](glossary.md).",
    ]
    for title, name in RULES:
        doc = importlib.import_module(name).__doc__ or ""
        path = name.replace(".", "/") + ".py"
        lines += ["", f"## {title}", "", f"[{path}](../{path})", "", "```text", doc.strip(), "```"]
    return "\n".join(lines)


def glossary_page() -> str:
    """What `schedkit explain` knows, on one page."""
    lines = [
        "# Glossary",
        "",
        "`schedkit explain WORD` prints an entry, without a network. Some words belong to parts that do not exist yet:",
        "cells, placement groups, breakers.",
    ]
    for title, kinds in GLOSSARY:
        lines += ["", f"## {title}"]
        for word, entry in dictionary().items():
            if entry["kind"] in kinds:
                status = f" (http {entry['http_status']})" if "http_status" in entry else ""
                lines += ["", f"**{word}**{status}: {plain(entry['means'])} *Why:* {plain(entry['why'])}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
