"""The settings of Celery that a Python file holds. It is parsed, and nothing in it is run.

Of several assignments of `beat_schedule` the last one that can be read counts, as it would for Python. What else says
when tasks run, such as `add_periodic_task`, is aside of it: named with its line, and not read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NAMES: Final = {"beat_schedule": "beat_schedule", "celery_beat_schedule": "beat_schedule",
                "celerybeat_schedule": "beat_schedule", "timezone": "timezone", "celery_timezone": "timezone",
                "enable_utc": "enable_utc", "celery_enable_utc": "enable_utc"}  # fmt: skip
SCHEDULE: Final = "beat_schedule"
MAX_SOURCE_CHARS: Final = 120
_HOLDERS: Final = ("update", "dict", "Celery")  # calls whose keywords are settings
_REGISTERS: Final = ("add_periodic_task", "periodic_task")
_CHANGES: Final = ("update", "setdefault", "pop", "popitem", "clear", "__setitem__")


@dataclass(frozen=True, slots=True)
class Called:
    """A call that stands in the file, such as crontab(minute=0): its name and its arguments, which are data."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Computed:
    """A value that is known only when the file runs, as its source text."""

    source: str


@dataclass(frozen=True, slots=True)
class Aside:
    """What says when tasks run and is not read: its line, what stands there, and why."""

    line: int
    said: str
    why: str


_UNKNOWN: Final = Computed("")


class Unreadable(Exception):
    """An expression whose value is not known without running the file."""


def settings_of(text: str) -> tuple[dict[str, Any], list[Aside]]:
    """(what the file assigns, what is aside of it). Raises SyntaxError, ValueError or RecursionError for no Python."""
    module = ast.parse(text)
    nodes = [node for node in ast.walk(module) if isinstance(node, ast.stmt | ast.Call)]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    others = _other_names(nodes)
    known: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    asides: list[Aside] = []
    line = 0  # of the schedule in settings
    for node in nodes:
        asides += _beside(node, others)
        for target, value in _assigned(node):
            found = lenient(value, known)
            if isinstance(target, ast.Name):
                known[target.id] = found
            setting = NAMES.get(last_name(target).lower())
            if setting == SCHEDULE and not isinstance(found, Mapping):
                why = f"this beat_schedule is computed, and the file is not run: {source_of(value)}"
                asides.append(Aside(node.lineno, source_of(value), why))
            elif setting == SCHEDULE and found != settings.get(SCHEDULE):
                asides += _replaced(settings.get(SCHEDULE, {}), line, node.lineno)
                line, settings[SCHEDULE] = node.lineno, found
            elif setting is not None and setting != SCHEDULE:
                settings[setting] = found
    return settings, sorted(asides, key=lambda aside: aside.line)


def _replaced(schedule: Mapping[Any, Any], line: int, by: int) -> Iterator[Aside]:
    for name, said in schedule.items():
        yield Aside(line, f"{shown(name)}: {shown(said)}", f"{shown(name)}: the beat_schedule of line {by} replaces it")


def _assigned(node: ast.stmt | ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement, or a call such as `conf.update(...)`, gives a value."""
    match node:
        case ast.Assign():
            yield from ((target, node.value) for target in node.targets)
        case ast.AnnAssign() if node.value is not None:
            yield node.target, node.value
        case ast.Call() if last_name(node.func) in _HOLDERS:
            for keyword in node.keywords:
                yield ast.Attribute(node.func, keyword.arg or ""), keyword.value
            for given in (given for given in node.args if isinstance(given, ast.Dict)):
                for key, value in zip(given.keys, given.values, strict=True):
                    yield ast.Subscript(node.func, key or ast.Constant(None)), value


def _other_names(nodes: Iterable[ast.stmt | ast.Call]) -> set[str]:
    """Variables whose value becomes beat_schedule later."""
    pairs = [pair for node in nodes for pair in _assigned(node)]
    return {value.id for target, value in pairs if isinstance(value, ast.Name) and _is_schedule(target, set())}


def _is_schedule(node: ast.expr, others: set[str]) -> bool:
    name = last_name(node)
    return NAMES.get(name.lower()) == SCHEDULE or (isinstance(node, ast.Name) and name in others)


def _beside(node: ast.stmt | ast.Call, others: set[str]) -> Iterator[Aside]:
    """What adds to a schedule or takes from it after its dict, or is no part of it at all."""
    changed: list[ast.expr] = []
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            changed = [one for one in targets if isinstance(one, ast.Subscript) and _is_schedule(one.value, others)]
        case ast.AugAssign() if _is_schedule(node.target, others):
            changed = [node.target]
        case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in _CHANGES and _is_schedule(value, others):
            changed = [node.func]
        case ast.Call() if last_name(node.func) in _REGISTERS:
            task = source_of(node.args[1]) if len(node.args) > 1 else "a task"
            why = f"{last_name(node.func)} of {task} is called as the application starts, and the file is not run"
            yield Aside(node.lineno, source_of(node), why)
    for one in changed:
        why = f"{source_of(one)} changes the schedule after its dict, which alone is read: write it there"
        yield Aside(node.lineno, source_of(node), why)


def source_of(node: ast.AST) -> str:
    """The text of an expression or a statement, in one line and cut where it is long."""
    said = " ".join(ast.unparse(node).split())
    return said if len(said) <= MAX_SOURCE_CHARS else said[: MAX_SOURCE_CHARS - 3] + "..."


def shown(value: Any) -> str:
    """A value as it stands in the file."""
    match value:
        case Computed():
            return value.source
        case Called():
            named = [f"{key}={shown(item)}" for key, item in value.kwargs.items()]
            return f"{value.name}({', '.join([*(shown(item) for item in value.args), *named])})"
        case list():
            return f"[{', '.join(shown(item) for item in value)}]"
        case Mapping():
            return f"{{{', '.join(f'{shown(key)}: {shown(item)}' for key, item in value.items())}}}"
        case _:
            return str(value)


def last_name(node: ast.expr) -> str:
    """The name that an expression ends in: of a variable, an attribute, or a key; empty for any other."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
        case _:
            return ""


def value_of(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of an expression made of literals, calls by name, arithmetic and names that were assigned such."""
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple() | ast.Set():
            return [value_of(item, known) for item in node.elts]
        case ast.Dict():
            if any(key is None for key in node.keys):
                raise Unreadable("**")
            pairs = zip(node.keys, node.values, strict=True)
            return {_key(key, known): lenient(item, known) for key, item in pairs if key}
        case ast.UnaryOp(op=ast.USub()):
            return _arithmetic(ast.Sub(), 0, value_of(node.operand, known))
        case ast.BinOp():
            return _arithmetic(node.op, value_of(node.left, known), value_of(node.right, known))
        case ast.Name() if not isinstance(known.get(node.id, _UNKNOWN), Computed):
            return known[node.id]
        case ast.Call(keywords=keywords) if all(keyword.arg for keyword in keywords):  # none is a ** of others
            kwargs = {keyword.arg: value_of(keyword.value, known) for keyword in keywords if keyword.arg}
            return Called(last_name(node.func), tuple(value_of(item, known) for item in node.args), kwargs)
        case _:
            raise Unreadable(ast.unparse(node))


def _key(node: ast.expr, known: Mapping[str, Any]) -> Any:
    key = lenient(node, known)
    return key if isinstance(key, str | int | float | None) else Computed(source_of(node))


def lenient(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """What cannot be read is kept as the text it is, so that one entry does not hide the others."""
    try:
        return value_of(node, known)
    except Unreadable:
        return Computed(source_of(node))


def _arithmetic(sign: ast.operator, left: Any, right: Any) -> int | float:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise Unreadable("arithmetic with what is no number")
    match sign:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div() if right:
            return left / right
        case _:
            raise Unreadable("this arithmetic is not done here")
