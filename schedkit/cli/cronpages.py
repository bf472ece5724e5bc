"""Pages of occurrences: `cron next` and `job next` print the same table.

#  local                        utc                         in   note
2  Sun 2026-11-01 01:30 EDT     2026-11-01 05:30Z   1d 17h 30m   ! 01:30 happens twice this day …
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedkit.cli import show
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One
from schedkit.model.time import Instant, parse_rfc3339

Doc = Mapping[str, Any]

SCHEMA: Final = "schedkit.occurrence/v1"
LOCAL_WIDTH: Final = 27
UTC_WIDTH: Final = 17
IN_WIDTH: Final = 11
PLACE_WIDTH: Final = 8
QUIET_NOTES: Final = ("clocks changed", "second pass")  # true and harmless; every other note is marked with !


def next_items(
    me: Invocation, due: Sequence[Doc], zone: str, now: Instant, *, windowed: bool, empty: str
) -> Items | One:
    """Occurrences, numbered from 1, with local and UTC times, how far away, their window place, and notes."""
    docs = [{"number": number, **occurrence} for number, occurrence in enumerate(due, 1)]
    if me.for_people and not me.style.fields and docs and me.style.screen.terminal:
        return One(SCHEMA, {}, _lines(me, docs, zone, now, windowed=windowed), exact=True)
    columns = [
        Column("#", "number"),
        Column("LOCAL", "local", lambda doc: show.wall(str(doc["scheduled_for"]), zone)),
        Column("UTC", "scheduled_for", lambda doc: show.utc(parse_rfc3339(str(doc["scheduled_for"])))),
        Column("IN", "", lambda doc: _away(doc, now)),
        *([Column("PLACE", "dispatch_at", _place)] if windowed else []),
        Column("NOTE", "notes", _notes),
    ]
    return Items(SCHEMA, docs, columns, "scheduled_for", empty)


def _away(doc: Doc, now: Instant) -> str:
    return show.countdown(parse_rfc3339(str(doc["scheduled_for"])) - now)


def _place(doc: Doc) -> str:
    if not doc.get("dispatch_at"):
        return show.DASH
    return show.place(parse_rfc3339(str(doc["dispatch_at"])) - parse_rfc3339(str(doc["scheduled_for"])))


def _notes(doc: Doc) -> str:
    return "; ".join(_marked(note) for note in doc.get("notes") or ())


def _marked(note: str) -> str:
    return note if note.startswith(QUIET_NOTES) else f"! {note}"


def _lines(me: Invocation, docs: Sequence[Doc], zone: str, now: Instant, *, windowed: bool) -> list[str]:
    """The table with its notes beside it, or below each line where the terminal is too narrow for them."""
    screen = me.style.screen
    head = f"{'#':>2}  {'local':<{LOCAL_WIDTH}}  {'utc':<{UTC_WIDTH}}  {'in':>{IN_WIDTH}}"
    head += f"  {'place':>{PLACE_WIDTH}}" if windowed else ""
    notes = [[note if note[0] == "!" else f"  {note}" for note in map(_marked, doc.get("notes") or ())] for doc in docs]
    beside = max((len(note) for said in notes for note in said), default=0) + len(head) + 3 <= screen.width
    lines = [screen.paint(f"{head}   note" if beside or any(notes) else head, "bold")]
    for doc, said in zip(docs, notes, strict=True):
        at = str(doc["scheduled_for"])
        row = f"{doc['number']:>2}  {show.wall(at, zone):<{LOCAL_WIDTH}}  "
        row += f"{show.utc(parse_rfc3339(at)):<{UTC_WIDTH}}  {_away(doc, now):>{IN_WIDTH}}"
        row += f"  {_place(doc):>{PLACE_WIDTH}}" if windowed else ""
        if beside:
            lines.append(f"{row}   {said[0] if said else ''}".rstrip())
            lines += [" " * (len(row) + 3) + note for note in said[1:]]
        else:
            lines.append(row)
            for note in said:
                lines += textwrap.wrap(note.strip(), screen.width, initial_indent="    ", subsequent_indent="      ")
    return lines
