"""YAML and JSON as plain values, each with its line, and without the traps of YAML.

    refused                                   because
    a key that stands twice                   one of the two would be lost without a word
    yes no on off   12:30   2026-09-28        text to one version of YAML; a flag, 750, a date to another
    017 0x1f 1_000 1e3 .inf                   likewise: other numbers, or no numbers
    !!python/object and every other tag       files hold data
    values without end                        anchors may be used again and again; a file of 2 KB could fill the memory

Anchors, aliases and `<<` are read. A text that is JSON is read as JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

MAX_TEXT_CHARS: Final = 8 * 1_024 * 1_024
MAX_VALUES: Final = 500_000  # a file of 20,000 jobs
FEW_VALUES: Final = 1_000
VALUES_A_CHAR: Final = 10  # a text has fewer values than characters, unless aliases repeat them; so often they may
MAX_DEPTH: Final = 64  # as deep as the API reads JSON
MAX_DIGITS: Final = 40

Path = tuple[str | int, ...]

TWICE: Final = "stands twice"
MERGE: Final = "<<"

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = (None, "")
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_ELSEWHERE_A_NUMBER: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(?:inf|Inf|INF)"
    r"|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something that cannot be read: the value it stands in, its line, what it is and the way out."""

    path: Path
    line: int
    message: str
    fix: tuple[str, ...] = ()


@dataclass(slots=True)
class Tree:
    """What a text says: JSON values, the line of each by its path, and what could not be read."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    _left: int = MAX_VALUES

    def line_of(self, path: Path) -> int:
        """The line of a value, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def is_mistaken(self, path: Path) -> bool:
        """Something at or below this path was told already."""
        return any(mistake.path[: len(path)] == path for mistake in self.mistakes)

    def refuse(self, path: Path, node: yaml.Node, message: str, *fix: str) -> None:
        """Remember a mistake, at the line of its node."""
        self.mistakes.append(Mistake(path, node.start_mark.line + 1, message, fix))

    def enough(self, node: yaml.Node, path: Path) -> bool:
        """Whether this value is one too many or too deep. Told once."""
        self._left -= 1
        if self._left >= 0 and len(path) <= MAX_DEPTH:
            return False
        if not any(mistake.message.startswith("too ") for mistake in self.mistakes):
            told = f"too deep: {MAX_DEPTH} levels at most" if self._left >= 0 else "too many values"
            self.refuse(path, node, told, "take out anchors that contain each other")
        return True


def read(text: str) -> Tree:
    """The values of a text. Never raises: what cannot be read is in `mistakes`."""
    tree = Tree(_left=min(MAX_VALUES, FEW_VALUES + VALUES_A_CHAR * len(text)))
    if len(text) > MAX_TEXT_CHARS:
        tree.mistakes.append(Mistake((), 1, f"the file is longer than {MAX_TEXT_CHARS // 1_024**2} MiB"))
        return tree
    twice: list[str] = []
    exact = _json(text, twice) if text.lstrip()[:1] == "{" else None
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        if exact is None:
            tree.mistakes.append(_unreadable(error, text))
    else:
        if node is not None:
            tree.lines[()] = node.start_mark.line + 1
            tree.value = _value(tree, node, ())
    if exact is not None:
        tree.value = exact
        tree.mistakes = [mistake for mistake in tree.mistakes if mistake.message.startswith(TWICE)]
        if twice and not tree.mistakes:  # the JSON is none of YAML's, so nobody knows the lines
            tree.mistakes = [Mistake((), 1, f"the key {name} {TWICE}", ("keep one of the two",)) for name in twice]
    return tree


def _json(text: str, twice: list[str]) -> Any:
    """The value of a text that is JSON, or None. `twice` takes the keys that an object has more than once."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice.extend(name for name in found if names.count(name) > 1)
        return found

    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _unreadable(error: yaml.YAMLError, text: str) -> Mistake:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = min(mark.line, text.count("\n")) + 1 if mark is not None else 1
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if "another document" in problem or "single document" in str(getattr(error, "context", "")):
        return Mistake((), line, "a second document begins here", ("one file holds one document: take out the ---",))
    said = text.splitlines()[line - 1 : line]
    fix = ("indent with blanks, not tabs",) if said and "\t" in said[0][: -len(said[0].lstrip()) or None] else ()
    return Mistake((), line, f"this cannot be read as YAML: {problem.splitlines()[0]}", fix)


def _value(tree: Tree, node: yaml.Node, path: Path) -> Any:
    if tree.enough(node, path):
        return None
    match node:
        case yaml.MappingNode():
            return _mapping(tree, node, path)
        case yaml.SequenceNode():
            _refuse_tag(tree, node, path, "seq")
            found = []
            for index, item in enumerate(node.value):
                tree.lines[*path, index] = item.start_mark.line + 1
                found.append(_value(tree, item, (*path, index)))
            return found
        case yaml.ScalarNode():
            return _scalar(tree, node, path)
    raise AssertionError("a node is a mapping, a sequence or a scalar")


def _mapping(tree: Tree, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
    _refuse_tag(tree, node, path, "map")
    found: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    first: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if key_node.tag == f"{_TAG}merge":
            merged = {**_merged(tree, value_node, path), **merged}
            continue
        key = _key(tree, key_node, path)
        if key is None:
            continue
        here = (*path, key)
        if key in first:
            tree.refuse(here, key_node, f"{TWICE}: first in line {first[key]}", "keep one of the two")
            continue
        first[key] = tree.lines[here] = line
        found[key] = _value(tree, value_node, here)
    return {**merged, **found} if merged else found


def _refuse_tag(tree: Tree, node: yaml.Node, path: Path, plain: str) -> None:
    if node.tag != _TAG + plain:
        tree.refuse(path, node, f"the tag {str(node.tag).replace(_TAG, '!!')} is not read", "take it out")


def _merged(tree: Tree, node: yaml.Node, path: Path) -> dict[str, Any]:
    """What `<<` brings in: a mapping, or several of which the first wins."""
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    found: dict[str, Any] = {}
    for one in nodes:
        if not isinstance(one, yaml.MappingNode):
            tree.refuse(path, one, "<< takes an anchored mapping", "write <<: *name")
        elif not tree.enough(one, path):
            found = {**_mapping(tree, one, (*path, MERGE)), **found}
    return found


def _key(tree: Tree, node: yaml.Node, path: Path) -> str | None:
    if not isinstance(node, yaml.ScalarNode):
        tree.refuse(path, node, "a key is text, and not a list or a mapping")
        return None
    text = str(node.value)
    if node.tag not in (f"{_TAG}str", f"{_TAG}value"):
        tree.refuse(path, node, f"the key {text} is not text as it stands", f'write "{text}"')
        return None
    return text


def _scalar(tree: Tree, node: yaml.ScalarNode, path: Path) -> Any:
    text, plain = str(node.value), node.style in _PLAIN
    match node.tag.removeprefix(_TAG):
        case "str" | "value":
            if plain and _ELSEWHERE_A_NUMBER.fullmatch(text):
                return _trap(tree, node, path, "a number")
            return text
        case "null":
            return None
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "bool":
            flag = "true" if text.lower() in ("yes", "on") else "false"
            return _trap(tree, node, path, "true or false", f"write {flag}")
        case "int" if _INT.fullmatch(text) and len(text) <= MAX_DIGITS:
            return int(text)
        case "float" if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        case "int" | "float":
            return _trap(tree, node, path, "a time of day or a number to base 60" if ":" in text else "another number")
        case "timestamp":
            return _trap(tree, node, path, "a date")
        case _:
            _refuse_tag(tree, node, path, "str")
            return text


def _trap(tree: Tree, node: yaml.ScalarNode, path: Path, what: str, *fix: str) -> str:
    text = str(node.value)
    told = f"{text} without quotes is {what} to some readers of YAML, and not to others"
    tree.refuse(path, node, told, *fix, f'write "{text}"')
    return text


def is_ambiguous(text: str) -> bool:
    """Whether this text would not be read as text if it stood there without quotes."""
    return _ELSEWHERE_A_NUMBER.fullmatch(text) is not None


def at_path(value: Any, path: Path) -> Any:
    """The value at a path, or None."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) and isinstance(part, str) else None
    return value
