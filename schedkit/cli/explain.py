"""`schedkit explain`: an offline dictionary of codes, states and words, in `explain.toml`.

A number is an exit code (10) or an HTTP status (404), with the codes that have it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final

import typer

from schedkit.cli import complete
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, View

KINDS: Final = (
    "error",
    "client",
    "job status",
    "run status",
    "skip reason",
    "run reason",
    "redrive state",
    "redrive reason",
    "value",
    "cron trap",
    "word",
    "exit codes",
)
SCHEMA: Final = "schedkit.explanation/v1"


@cache
def dictionary() -> Mapping[str, Mapping[str, Any]]:
    """Every entry by its word."""
    text = files("schedkit").joinpath("explain.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def explain(
    me: Invocation,
    code: Annotated[
        str | None,
        typer.Argument(metavar="[CODE]", help="A code, a state, a word or a number.", autocompletion=complete.words),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Every entry there is.")] = False,
) -> None:
    """What a code or word means and what to do.

    Examples:
      schedkit explain JOB_NOT_FOUND
      schedkit explain --list
    """
    if code is None or listed:
        me.show(_listed(dictionary()))
        return
    if code.strip().isdecimal():
        me.show(_number(int(code)))
        return
    word = _found(code)
    entry = dictionary()[word]
    lines: list[str | tuple[str, str]] = [f"{word}   ({_kind(entry)})", "", *_wrapped(me, str(entry["means"]))]
    if entry.get("why"):
        lines += ["", *_wrapped(me, f"why: {entry['why']}")]
    if entry.get("table"):
        lines += ["", *(f"  {row}" for row in entry["table"])]
    if entry.get("do"):
        lines += ["", "do:", *(f"  {command}" for command in entry["do"])]
    me.show(One(SCHEMA, {"word": word, **entry}, lines, "word"))


def _listed(entries: Mapping[str, Mapping[str, Any]]) -> Items:
    items = [{"word": word, **entry} for word, entry in entries.items()]
    columns = (Column("WORD", "word"), Column("KIND", "kind"), Column("MEANS", "means", cut=True))
    return Items(SCHEMA, items, columns, "word", "")


def _number(number: int) -> View:
    """An exit code with its row, or every code of an HTTP status."""
    for row in dictionary()["exit-codes"]["table"]:
        code, _, means = row.strip().partition("  ")
        if int(code) == number:
            doc = {"word": code, "kind": "exit code", "means": means, "do": ["schedkit explain exit-codes"]}
            return One(
                SCHEMA, doc, [f"{code}   (exit code)", "", means, "", "all: schedkit explain exit-codes"], "word"
            )
    if found := {word: entry for word, entry in dictionary().items() if entry.get("http_status") == number}:
        return _listed(found)
    raise _unknown(str(number), [])


def _kind(entry: Mapping[str, Any]) -> str:
    status = f", http {entry['http_status']}" if "http_status" in entry else ""
    return f"{entry['kind']}{status}"


def _wrapped(me: Invocation, text: str) -> list[str]:
    if not me.style.screen.terminal:
        return [text]
    import textwrap

    return textwrap.wrap(text, min(me.style.screen.width, 100))


def _found(code: str) -> str:
    """The entry meant: in any case, with blanks, - or _ between words."""
    folded = {_fold(word): word for word in dictionary()}
    if _fold(code) in folded:
        return folded[_fold(code)]
    raise _unknown(code, [folded[near] for near in get_close_matches(_fold(code), folded, n=3)])


def _unknown(code: str, close: list[str]) -> Refusal:
    return Refusal(
        Code.WORD_NOT_FOUND,
        ExitCode.NOT_FOUND,
        f"there is no entry {code!r}" + (f"; near: {', '.join(close)}" if close else ""),
        fix=["schedkit explain --list"],
    )


def _fold(word: str) -> str:
    return word.strip().lower().replace("_", "-").replace(" ", "-")
