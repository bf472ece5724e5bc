"""Job files as text: what `jobfile.read` takes back, with comments above the jobs they speak of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from schedkit.files.jobfile import VERSION
from schedkit.files.yamltext import is_ambiguous

WIDTH: Final = 110  # of comments
NEVER_FOLDED: Final = 1_000_000
INDENT: Final = "  "
SHORT: Final = 3  # pairs that stand in one line
SHORT_FROM: Final = 2  # below a job's own keys
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Written:
    """One job with the comments above it. Without an entry it is its comments only."""

    name: str
    entry: Mapping[str, Any] | None
    comments: Sequence[str] = ()


def text_of(
    jobs: Iterable[Written], *, defaults: Mapping[str, Any] | None = None, head: Sequence[str] = (), tail: str = ""
) -> str:
    """The file; `head` are comments on top, `tail` what stands below."""
    blocks = [f"{_comments(head)}schedkit: {VERSION}\n"]
    if defaults:
        blocks[0] += yaml_of({"defaults": dict(defaults)})
    body = [_comments(job.comments) + (yaml_of({job.name: job.entry}) if job.entry is not None else "") for job in jobs]
    named = any(": " in part or ":\n" in part for part in body if not _only_comments(part))
    blocks[0] += "jobs:\n" if named else "jobs: {}\n"
    blocks[0] += "\n".join(textwrap.indent(part, INDENT) for part in body if part)
    return blocks[0] + tail


def yaml_of(value: Any) -> str:
    """JSON values as YAML that every version of YAML reads alike."""
    options: dict[str, Any] = {"Dumper": yaml.SafeDumper, "allow_unicode": True, "width": NEVER_FOLDED}
    return str(yaml.serialize(_node(value), **options))


def _only_comments(part: str) -> bool:
    return all(line.startswith("#") for line in part.splitlines())


def _comments(lines: Sequence[str]) -> str:
    found = []
    for line in lines:
        safe = "".join(char if char.isprintable() else " " for char in line)
        found += textwrap.wrap(safe, WIDTH, initial_indent="# ", subsequent_indent="#   ", break_long_words=False)
    return "".join(f"{line}\n" for line in found)


def _node(value: Any, depth: int = 0) -> yaml.Node:
    match value:
        case Mapping():
            pairs = [(_text(str(key)), _node(item, depth + 1)) for key, item in value.items()]
            plain = not any(isinstance(item, Mapping | list) and item for item in value.values())
            return yaml.MappingNode(
                f"{_TAG}map", pairs, flow_style=(depth >= SHORT_FROM and plain and len(pairs) <= SHORT) or not pairs
            )
        case list() | tuple():
            items = [_node(item, depth + 1) for item in value]
            plain = not any(isinstance(item, Mapping | list) and item for item in value)
            return yaml.SequenceNode(f"{_TAG}seq", items, flow_style=plain)
        case str():
            return _text(value)
        case bool():
            return yaml.ScalarNode(f"{_TAG}bool", "true" if value else "false")
        case None:
            return yaml.ScalarNode(f"{_TAG}null", "null")
        case int():
            return yaml.ScalarNode(f"{_TAG}int", str(value))
        case _:
            return yaml.ScalarNode(f"{_TAG}float", _float(value))


def _text(value: str) -> yaml.ScalarNode:
    if "\n" in value.rstrip("\n") and _blockable(value):
        return yaml.ScalarNode(f"{_TAG}str", value, style="|")
    a_cron = " " in value and any(mark in value for mark in "*?")  # which looks better in quotes
    quoted = a_cron or is_ambiguous(value) or not value.isprintable()
    return yaml.ScalarNode(f"{_TAG}str", value, style='"' if quoted else None)


def _blockable(value: str) -> bool:
    """Whether lines can stand as they are below a `|`."""
    printable = all(char.isprintable() or char == "\n" for char in value)
    return (
        printable and not value.startswith((" ", "\n")) and not any(line != line.rstrip() for line in value.split("\n"))
    )


def _float(value: float) -> str:
    """With a dot, without which some readers take an exponent for text."""
    mantissa, exponent, power = repr(value).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"
