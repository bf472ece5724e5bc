"""Output: one view of data, seven formats; a terminal gets colour and fitting columns, a pipe gets everything.

table   terminal: aligned, never wrapped, columns drop from the right     pipe: tab separated, nothing cut, no header
wide    every column            json   one document, the stable interface  jsonl  one line an item
yaml    the same as json        csv    field names as header               name   ids only
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TextIO

from schedkit.cli.show import DASH, TONES
from schedkit.errors import InvalidInput, Reason

RISKY_CSV: Final = ("=", "+", "-", "@", "\t", "\r")  # spreadsheet programs run such cells
NARROWEST: Final = 20
GAP: Final = "  "
LEAST_CUT: Final = 16  # less of a text is not worth showing
_SGR: Final = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}

Doc = Mapping[str, Any]


@dataclass(frozen=True)
class Screen:
    """What stands at the other end of a stream. SCHEDKIT_FORCE_TTY=120 makes a pipe a terminal of that width."""

    stream: TextIO
    no_color: bool = False

    @cached_property
    def terminal(self) -> bool:
        return bool(os.environ.get("SCHEDKIT_FORCE_TTY")) or self.stream.isatty()

    @cached_property
    def color(self) -> bool:
        return self.stream.isatty() and not self.no_color and os.environ.get("TERM", "dumb") != "dumb"

    @cached_property
    def width(self) -> int:
        forced = os.environ.get("SCHEDKIT_FORCE_TTY", "")
        columns = int(forced) if forced.isdigit() and int(forced) > 1 else shutil.get_terminal_size().columns
        return max(NARROWEST, columns)

    @property
    def unicode(self) -> bool:
        return (getattr(self.stream, "encoding", None) or "ascii").lower().startswith("utf")

    def paint(self, text: str, tone: str | None) -> str:
        return f"\x1b[{_SGR[tone]}m{text}\x1b[0m" if self.color and tone else text


class ReaderGone(Exception):
    """Whoever read the output has enough of it, as `head` does. Not an OSError, which Typer would end with 1."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, the field it stands for (csv and pipes of `--fields`), and its text for a person."""

    title: str
    path: str
    text: Callable[[Doc], str] | None = None
    right: bool = False
    wide: bool = False  # only with -o wide
    cut: bool = False  # long text that still says something when its end is missing

    def cell(self, item: Doc) -> str:
        return plain(self.text(item) if self.text is not None else raw(at_path(item, self.path)))


@dataclass(frozen=True, slots=True)
class Items:
    """A list. `ident` is the field that names an item; `empty` is what to say when there is none."""

    schema: str
    items: Sequence[Doc]
    columns: Sequence[Column]
    ident: str
    empty: str
    next_cursor: str | None = None
    more: str | None = None  # said after the table, such as how to see the next page


@dataclass(frozen=True, slots=True)
class One:
    """One thing: its document, and the lines a person reads. A line is text, or (label, value)."""

    schema: str
    doc: Doc
    lines: Sequence[str | tuple[str, str]] = field(default=())
    ident: str = ""
    exact: bool = False  # the lines are printed as they are, in a pipe too


View = Items | One


@dataclass(frozen=True, slots=True)
class Style:
    """How to render: the format, the chosen fields, and what it is for."""

    format: str
    fields: tuple[str, ...]
    screen: Screen
    quiet: bool = False

    def json(self, data: Any, *, indent: int | None = None) -> str:
        return json.dumps(data, ensure_ascii=not self.screen.unicode, indent=indent)


def render(view: View, style: Style) -> str:
    """The view as text, without a last newline; empty when there is nothing to print."""
    known(style.fields, view.items if isinstance(view, Items) else [view.doc], "--fields")
    chosen = "name" if style.quiet and style.format in ("table", "wide") else style.format
    match chosen:
        case "json":
            return style.json(_document(view, style.fields), indent=2)
        case "jsonl":
            return "\n".join(style.json(item) for item in _flat(view, style.fields))
        case "yaml":
            import yaml

            document = yaml.safe_dump(
                _document(view, style.fields), sort_keys=False, allow_unicode=style.screen.unicode, width=10_000
            )
            return str(document).rstrip("\n")
        case "csv":
            return _csv(view, style.fields)
        case "name":
            return "\n".join(_names(view))
        case _:
            return _items_text(view, style) if isinstance(view, Items) else _one_text(view, style)


def _names(view: View) -> Iterable[str]:
    docs = view.items if isinstance(view, Items) else [view.doc]
    return [plain(raw(at_path(doc, view.ident))) for doc in docs if view.ident]


def _document(view: View, fields: Sequence[str]) -> dict[str, Any]:
    if isinstance(view, One):
        return {"schema": view.schema, **_picked(view.doc, fields)}
    items = [_picked(item, fields) for item in view.items]
    return {"schema": view.schema, "items": items, "next_cursor": view.next_cursor}


def _flat(view: View, fields: Sequence[str]) -> list[dict[str, Any]]:
    return [_picked(doc, fields) for doc in (view.items if isinstance(view, Items) else [view.doc])]


def _picked(doc: Doc, fields: Sequence[str]) -> dict[str, Any]:
    return {path: at_path(doc, path) for path in fields} if fields else dict(doc)


def at_path(doc: Any, path: str) -> Any:
    """`target.url` of a document; None where there is no such thing."""
    for name in path.split("."):
        if isinstance(doc, Mapping):
            doc = doc.get(name)
        elif isinstance(doc, Sequence) and not isinstance(doc, str) and name.isdigit() and int(name) < len(doc):
            doc = doc[int(name)]
        else:
            return None
    return doc


def known(paths: Iterable[str], docs: Sequence[Doc], flag: str) -> None:
    """Refuse fields that none of the documents has; what is inside a field may be in some of them only."""
    names = dict.fromkeys(name for doc in docs for name in doc)
    for path in paths if names else ():
        if path.partition(".")[0] not in names:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"{flag}: there is no field {path!r}; known are {', '.join(names)}", field=flag
            )


def raw(value: Any) -> str:
    """A JSON value as a cell: text as it is, nothing as nothing, what is nested as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def plain(text: str) -> str:
    """A cell on one line, without anything that drives a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def csv_cell(value: Any) -> str:
    text = raw(value)
    guarded = f"'{text}" if isinstance(value, str) and text.startswith(RISKY_CSV) else text
    return guarded.replace("\r", "\\r")  # which some readers take for the end of the row


def _csv(view: View, fields: Sequence[str]) -> str:
    import csv
    import io

    docs = view.items if isinstance(view, Items) else [view.doc]
    if isinstance(view, Items):
        paths = list(fields) or [column.path for column in view.columns if column.path]
    else:
        paths = list(fields) or list(view.doc)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(paths)
    writer.writerows([csv_cell(at_path(doc, path)) for path in paths] for doc in docs)
    return buffer.getvalue().rstrip("\n")


# Tables


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _pad(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks


def fitted(text: str, width: int) -> str:
    """The text, cut to a width with `...` where it is longer."""
    if cells(text) <= width:
        return text
    while cells(text) > width - 3:
        text = text[:-1]
    return text + "..."


def _items_text(view: Items, style: Style) -> str:
    if not view.items:
        return ""
    columns = [Column(path.upper(), path) for path in style.fields] or [
        column for column in view.columns if style.format == "wide" or not column.wide
    ]
    rows = [[column.cell(item) for column in columns] for item in view.items]
    if not style.screen.terminal:
        return "\n".join("\t".join(row) for row in rows)
    lines = grid(columns, rows, style, cut=style.format != "wide")
    if view.more:
        lines += [style.screen.paint(view.more, "dim")]
    return "\n".join(lines)


def grid(columns: Sequence[Column], rows: Sequence[Sequence[str]], style: Style, *, cut: bool) -> list[str]:
    """Aligned lines; with `cut`, columns drop from the right until they fit, and a last line says how many."""
    widths = [max(cells(column.title), *(cells(row[index]) for row in rows)) for index, column in enumerate(columns)]
    shown = _fit(columns, widths, style.screen.width) if cut else len(columns)
    lines = [style.screen.paint(_line([column.title for column in columns[:shown]], columns, widths), "bold")]
    for row in rows:
        texts = [fitted(text, width) for text, width in zip(row[:shown], widths[:shown], strict=True)]
        lines.append(_line(texts, columns, widths, style))
    if hidden := len(columns) - shown:
        what = "1 column" if hidden == 1 else f"{hidden} columns"
        shows = "it" if hidden == 1 else "them"
        lines.append(style.screen.paint(f"{what} hidden, -o wide shows {shows}", "dim"))
    return lines


def _fit(columns: Sequence[Column], widths: list[int], room: int) -> int:
    """How many columns fit. A last one that may be cut is cut (in `widths`) before it is dropped."""
    shown = len(columns)
    while shown > 1:
        before = sum(widths[: shown - 1]) + len(GAP) * (shown - 1)
        if before + widths[shown - 1] <= room:
            return shown
        if columns[shown - 1].cut and room - before >= LEAST_CUT:
            widths[shown - 1] = room - before
            return shown
        shown -= 1
    widths[0] = min(widths[0], room)
    return shown


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int], style: Style | None = None) -> str:
    padded = []
    for text, column, width in zip(texts, columns, widths, strict=False):
        tone = TONES.get(text) if style is not None else None
        cell = _pad(text, width, column.right)
        padded.append(style.screen.paint(cell, tone) if style is not None else cell)
    return GAP.join(padded).rstrip()


def _one_text(view: One, style: Style) -> str:
    if style.fields:
        pairs: Sequence[str | tuple[str, str]] = [(path, raw(at_path(view.doc, path))) for path in style.fields]
    else:
        pairs = view.lines
    if view.exact and not style.fields:
        return "\n".join(str(line) for line in view.lines)
    labels = [line[0] for line in pairs if isinstance(line, tuple)]
    width = max((cells(label) for label in labels), default=0)
    lines = []
    for line in pairs:
        if isinstance(line, str):
            lines.append(line)
        elif style.screen.terminal:
            value = plain(line[1])
            lines.append(f"{_pad(line[0], width, False)}{GAP}{style.screen.paint(value, TONES.get(value))}".rstrip())
        else:
            lines.append(f"{line[0]}\t{plain(line[1])}")
    return "\n".join(lines)


def write(text: str, stream: TextIO | None = None) -> None:
    """Print and flush; a closed pipe is said at once, where it can be handled."""
    stream = sys.stdout if stream is None else stream
    try:
        if text:
            stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError as gone:
        raise ReaderGone from gone


def dash(value: Any) -> str:
    return raw(value) or DASH
