"""docs/file-keys.md: the keys of a job file, from the table that reading and writing follow."""

from __future__ import annotations

from schedkit.files.keys import KEYS, TOP, Key, Kind
from schedkit.model.spans import SPAN_FORMS

KINDS = {
    Kind.TEXT: "text",
    Kind.SPAN: f"a duration: {SPAN_FORMS}",
    Kind.TIME: "a time: `2026-09-28T09:00` in `tz`, or with Z or an offset",
    Kind.FLAG: "`true` or `false`",
    Kind.COUNT: "a whole number from 1 on",
    Kind.PAIRS: "`{ name: text }`",
    Kind.RETRY: "`{ max_attempts: N, backoff: FIRST..LONGEST }`",
    Kind.ANY: "any JSON",
}


def keys_page() -> str:
    """The reference of the format."""
    lines = ["# Keys of a job file", "", "How to use such files is in [files.md](files.md).", ""]
    lines += ["## The file", "", "| key | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {means} |" for name, means in TOP.items()]
    lines += [
        "",
        "## A job",
        "",
        "What is not said has the value under *unless said*. Words may be written in any case.",
    ]
    lines += ["Keys with a * say something of one job, and have no place in `defaults`.", ""]
    lines += ["| key | value | unless said | meaning |", "|---|---|---|---|"]
    lines += [_row(key) for key in KEYS]
    return "\n".join(lines)


def _row(key: Key) -> str:
    value = ", ".join(f"`{word}`" for word in key.words) if key.kind is Kind.WORD else KINDS[key.kind]
    default = f"`{key.default}`" if key.default else ""
    return f"| `{key.name}`{'*' if key.own else ''} | {value} | {default} | {key.means} |"
