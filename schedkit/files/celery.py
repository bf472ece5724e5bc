"""Celery beat: `beat_schedule` as JSON or YAML, or the Python file it stands in, which is read and never run.

    crontab(minute=0, hour="*/3")     cron; where both days are given, Celery wants both to match: day_rule: and
    timedelta(minutes=5), 300.0       every
    schedule(run_every=...)           every
    solar(...)                        cannot be kept: the sun has no schedule here

A task becomes `queue: celery` (or the queue of its options) with its name as task_type and its arguments as payload.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from schedkit.errors import InvalidInput, Reason
from schedkit.files import yamltext
from schedkit.files.imported import Imported, Wishes
from schedkit.model.spans import span_text
from schedkit.model.time import SECOND_MS

QUEUE: Final = "celery"
POSITIONS: Final = ("minute", "hour")  # of crontab's arguments, where all versions agree
FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
NAMES: Final = {"beat_schedule": "beat_schedule", "celery_beat_schedule": "beat_schedule",
                "celerybeat_schedule": "beat_schedule", "timezone": "timezone", "celery_timezone": "timezone",
                "enable_utc": "enable_utc", "celery_enable_utc": "enable_utc"}  # fmt: skip
_KNOWN: Final = ("task", "schedule", "args", "kwargs", "options", "enabled", "name", "relative")


@dataclass(frozen=True, slots=True)
class Called:
    """A call that stands in the file, such as crontab(minute=0): its name and its arguments, which are data."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


class Unreadable(Exception):
    """An expression whose value is not known without running the file."""


def read(text: str, wishes: Wishes) -> Imported:
    """The jobs of a beat schedule. Raises InvalidInput where there is none."""
    settings = _from_data(text) or _from_python(text)
    found = Imported(wishes, "Celery beat")
    zone = str(wishes.tz or settings.get("timezone") or "UTC")
    found.defaults = {"tz": zone, **wishes.place(QUEUE), **wishes.spread(), "misfire": "run-once"}
    found.defaults["retry"] = {"max_attempts": 1}
    found.note("beat sends each task once; what Celery retries by itself is in the task, so max_attempts: 1")
    if wishes.target is None:
        found.note("tasks run where a worker of the queue runs: the name is task_type, args and kwargs the payload")
    if settings.get("enable_utc") is False:
        found.note("enable_utc is off: beat then took the machine's own zone where no timezone was said")
    for name, said in settings["beat_schedule"].items():
        _entry(found, str(name), said)
    return found


# Reading


def _from_data(text: str) -> dict[str, Any] | None:
    """The settings of JSON or YAML: with a key beat_schedule, or the schedule itself."""
    tree = yamltext.read(text)
    if not isinstance(tree.value, Mapping) or not tree.value:
        return None
    settings = {NAMES[key.lower()]: value for key, value in tree.value.items() if key.lower() in NAMES}
    if "beat_schedule" not in settings:
        settings["beat_schedule"] = tree.value
    entries = settings["beat_schedule"]
    sound = isinstance(entries, Mapping) and all(isinstance(one, Mapping) and "task" in one for one in entries.values())
    return settings if sound else None


def _from_python(text: str) -> dict[str, Any]:
    """The settings that a Python file assigns. It is parsed, and nothing in it is run."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise _nothing(f"this is neither JSON, YAML nor Python: {problem}") from problem
    known: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [(_last_name(target), node.value) for target in targets]
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("update", "dict", "Celery"):
            pairs = [(keyword.arg or "", keyword.value) for keyword in node.keywords]
        else:
            continue
        for name, value in pairs:
            try:
                known[name] = _value(value, known)
            except Unreadable:
                continue
            if name.lower() in NAMES:
                settings[NAMES[name.lower()]] = known[name]
    if not isinstance(settings.get("beat_schedule"), Mapping):
        raise _nothing("there is no beat_schedule in it that can be read without running it")
    return settings


def _nothing(problem: str) -> InvalidInput:
    fix = ["write beat_schedule = {...} with plain values", "or give it as JSON or YAML"]
    return InvalidInput(Reason.INVALID_ARGUMENT, problem, fix=fix, field="FILE")


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
        case _:
            return ""


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of an expression made of literals, calls by name, arithmetic and names that were assigned such."""
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple() | ast.Set():
            return [_value(item, known) for item in node.elts]
        case ast.Dict():
            if any(key is None for key in node.keys):
                raise Unreadable("**")
            return {
                _value(key, known): _lenient(item, known)
                for key, item in zip(node.keys, node.values, strict=True)
                if key
            }
        case ast.UnaryOp(op=ast.USub()):
            return _arithmetic(ast.Sub(), 0, _value(node.operand, known))
        case ast.BinOp():
            return _arithmetic(node.op, _value(node.left, known), _value(node.right, known))
        case ast.Name() if node.id in known:
            return known[node.id]
        case ast.Call():
            kwargs = {keyword.arg: _value(keyword.value, known) for keyword in node.keywords if keyword.arg}
            return Called(_last_name(node.func), tuple(_value(item, known) for item in node.args), kwargs)
        case _:
            raise Unreadable(ast.unparse(node))


def _lenient(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """What cannot be read inside a dict is kept as the text it is, so that one entry does not hide the others."""
    try:
        return _value(node, known)
    except Unreadable:
        return Called("?", (ast.unparse(node),))


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


# Converting


def _entry(found: Imported, name: str, said: Any) -> None:
    if not isinstance(said, Mapping) or "task" not in said:
        found.leave(name, _shown(said), "it is no entry of a beat schedule")
        return
    notes: list[str] = []
    try:
        entry = _when(said.get("schedule"), notes)
        payload = {"args": _plain(said.get("args") or []), "kwargs": _plain(said.get("kwargs") or {})}
        entry |= {"payload": payload, **_options(said.get("options") or {}, notes)}
    except Unreadable as problem:
        found.leave(name, _shown(said.get("schedule")), str(problem))
        return
    if found.wishes.target is None:
        entry["task_type"] = str(said["task"])
    else:
        entry.pop("queue", None)
        entry["payload"] = {"task": str(said["task"]), **payload}
    if said.get("enabled") is False:
        entry["paused"] = True
    if said.get("relative"):
        notes.append("relative rounds to the unit of the interval there; every counts from the moment the job is made")
    notes.extend(f"{key} has no meaning here" for key in said if key not in _KNOWN)
    found.add(name, f"{said['task']} {_shown(said.get('schedule'))}", name, entry, notes)


def _when(schedule: Any, notes: list[str]) -> dict[str, Any]:
    match schedule:
        case bool() | None:
            raise Unreadable("it has no schedule")
        case int() | float():
            return _every(schedule, notes)
        case str():
            return _when(_parsed(schedule), notes)
        case Mapping():
            return _from_mapping(schedule, notes)
        case Called(name="crontab"):
            if len(schedule.args) > len(POSITIONS):
                raise Unreadable("what the third argument means depends on the version of Celery: name it")
            return _crontab({**dict(zip(POSITIONS, schedule.args, strict=False)), **schedule.kwargs}, notes)
        case Called(name="timedelta"):
            return _every(_delta(schedule), notes)
        case Called(name="schedule"):
            inner = schedule.kwargs.get("run_every", schedule.args[0] if schedule.args else None)
            return _when(inner, notes)
        case Called(name="solar"):
            raise Unreadable("solar: nothing here knows when the sun rises; write a cron near it")
        case Called(name="?"):
            raise Unreadable(f"{schedule.args[0]} is not known without running the file")
        case _:
            raise Unreadable(f"{_shown(schedule)} is no schedule known here")


def _parsed(text: str) -> Any:
    """`crontab(minute=0)` written as text, as JSON files do; or five fields."""
    if len(text.split()) == len(FIELDS) and "(" not in text:
        return Called("crontab", (), dict(zip(FIELDS, text.split(), strict=True)))
    try:
        return _value(ast.parse(text, mode="eval").body, {})
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise Unreadable(f"{text} is no schedule known here") from problem


def _from_mapping(said: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    kind = str(said.get("type") or said.get("__type__") or "")
    if kind == "solar" or "solar" in said:
        return _when(Called("solar"), notes)
    if isinstance(said.get("crontab"), Mapping):
        return _crontab(said["crontab"], notes)
    if kind == "crontab" or set(said) & set(FIELDS):
        return _crontab(said, notes)
    if "every" in said:
        return _every(_delta(Called("timedelta", (), {str(said.get("period", "seconds")): said["every"]})), notes)
    units = {key: value for key, value in said.items() if key not in ("type", "__type__")}
    return _every(_delta(Called("timedelta", (), units)), notes)


def _delta(call: Called) -> float:
    try:
        return timedelta(*call.args, **call.kwargs).total_seconds()
    except (TypeError, OverflowError) as problem:
        raise Unreadable(f"no such interval: {problem}") from problem


def _every(seconds: float, notes: list[str]) -> dict[str, Any]:
    notes.append("beat counts from its own start, every from the moment the job is made")
    return {"every": span_text(round(seconds * SECOND_MS))}


def _crontab(said: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    fields = [_field(said.get(name, "*")) for name in FIELDS]
    entry: dict[str, Any] = {"cron": " ".join(fields)}
    if fields[2] != "*" and fields[4] != "*":
        entry["day_rule"] = "and"
        notes.append("Celery wants day of month and day of week both to match: day_rule: and says that")
    return entry


def _field(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    return ",".join(re.sub(r"\s", "", str(item)) for item in items)


def _options(options: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, value in options.items():
        match key, value:
            case "queue", str():
                entry["queue"] = value
            case "expires", int() | float() if not isinstance(value, bool):
                entry["expires_after"] = span_text(round(value * SECOND_MS))
            case "expires", Called(name="timedelta"):
                entry["expires_after"] = span_text(round(_delta(value) * SECOND_MS))
            case _:
                notes.append(f"options.{key} has no meaning here")
    return entry


def _plain(value: Any) -> Any:
    """Arguments as JSON. Raises Unreadable for what is none."""
    match value:
        case Called():
            raise Unreadable(f"the argument {_shown(value)} is not known without running the file")
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case str() | int() | float() | bool() | None:
            return value
        case _:
            raise Unreadable(f"the argument {value!r} is no JSON")


def _shown(value: Any) -> str:
    if not isinstance(value, Called):
        return str(value)
    if value.name == "?":
        return str(value.args[0])
    given = [*(_shown(item) for item in value.args), *(f"{key}={_shown(item)}" for key, item in value.kwargs.items())]
    return f"{value.name}({', '.join(given)})"
