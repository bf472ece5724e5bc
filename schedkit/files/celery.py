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
from datetime import timedelta
from typing import Any, Final

from schedkit.errors import InvalidInput, Reason
from schedkit.files import yamltext
from schedkit.files.celery_python import (
    NAMES,
    Aside,
    Called,
    Computed,
    Unreadable,
    settings_of,
    shown,
    value_of,
)
from schedkit.files.imported import Imported, Wishes
from schedkit.model.spans import span_text
from schedkit.model.time import SECOND_MS

QUEUE: Final = "celery"
POSITIONS: Final = ("minute", "hour")  # of crontab's arguments, where all versions agree
FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
MAX_NAMED: Final = 3  # of the statements that a refusal shows
_KINDS: Final = ("type", "__type__")
_KNOWN: Final = ("task", "schedule", "args", "kwargs", "options", "enabled", "name", "relative")


def read(text: str, wishes: Wishes) -> Imported:
    """The jobs of a beat schedule. Raises InvalidInput where there is none."""
    data = _from_data(text)
    settings, asides = (data, []) if data is not None else _from_python(text)
    found = Imported(wishes, "Celery beat")
    said = settings.get("timezone")
    zone = wishes.tz or (said if isinstance(said, str) and said else "UTC")
    found.defaults = {"tz": zone, **wishes.place(QUEUE), **wishes.spread(), "misfire": "run-once"}
    found.defaults["retry"] = {"max_attempts": 1}
    found.note("beat sends each task once; what Celery retries by itself is in the task, so max_attempts: 1")
    if wishes.target is None:
        found.note("tasks run where a worker of the queue runs: the name is task_type, args and kwargs the payload")
    if wishes.tz is None and isinstance(said, Called | Computed):
        found.note(f"the timezone is computed, and UTC stands in its place; --tz ZONE says it: {shown(said)}")
    if settings.get("enable_utc") is False:
        found.note("enable_utc is off: beat then took the machine's own zone where no timezone was said")
    for name, said in settings["beat_schedule"].items():
        _entry(found, name, said)
    for aside in asides:
        found.leave(f"line {aside.line}", aside.said, aside.why)
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


def _from_python(text: str) -> tuple[dict[str, Any], list[Aside]]:
    try:
        settings, asides = settings_of(text)
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise _nothing(f"this is neither JSON, YAML nor Python: {problem}") from problem
    if "beat_schedule" not in settings:
        found = "".join(f"; line {aside.line}: {aside.said}: {aside.why}" for aside in asides[:MAX_NAMED])
        raise _nothing(f"there is no beat_schedule in it that can be read without running it{found}")
    return settings, asides


def _nothing(problem: str) -> InvalidInput:
    fix = ["write beat_schedule = {...} with plain values", "or give it as JSON or YAML"]
    return InvalidInput(Reason.INVALID_ARGUMENT, problem, fix=fix, field="FILE")


# Converting


def _entry(found: Imported, key: Any, said: Any) -> None:
    name = shown(key)
    if not isinstance(said, Mapping) or "task" not in said:
        computed = isinstance(said, Called | Computed)
        why = str(_computed("it", said)) if computed else "it is no entry of a beat schedule"
        found.leave(name, shown(said), why)
        return
    notes = ["its name is computed: the job has one made from the source text"] if isinstance(key, Computed) else []
    try:
        task = _task(said["task"])
        entry = _when(said.get("schedule"), notes)
        payload = {"args": _plain(said.get("args") or []), "kwargs": _plain(said.get("kwargs") or {})}
        entry |= {"payload": payload, **_options(said.get("options") or {}, notes)}
    except Unreadable as problem:
        found.leave(name, shown(said.get("schedule")), str(problem))
        return
    if found.wishes.target is None:
        entry["task_type"] = task
    else:
        entry.pop("queue", None)
        entry["payload"] = {"task": task, **payload}
    if said.get("enabled") is False:
        entry["paused"] = True
    elif isinstance(said.get("enabled"), Called | Computed):
        entry["paused"] = True
        notes.append(f"enabled is computed, so it is paused until you resume it: {shown(said['enabled'])}")
    if said.get("relative"):
        notes.append("relative rounds to the unit of the interval there; every counts from the moment the job is made")
    notes.extend(f"{shown(key)} has no meaning here" for key in said if key not in _KNOWN)
    found.add(name, f"{task} {shown(said.get('schedule'))}", name, entry, notes)


def _task(said: Any) -> str:
    if isinstance(said, Called | Computed):
        raise _computed("its task", said)
    if not isinstance(said, str):
        raise Unreadable(f"its task is no name: {shown(said)}")
    return said


def _computed(what: str, said: Any) -> Unreadable:
    return Unreadable(f"{what} is computed, and the file is not run: {shown(said)}")


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
        case Computed():
            raise _computed("its schedule", schedule)
        case _:
            raise Unreadable(f"{shown(schedule)} is no schedule known here")


def _parsed(text: str) -> Any:
    """`crontab(minute=0)` written as text, as JSON files do; or five fields."""
    if len(text.split()) == len(FIELDS) and "(" not in text:
        return Called("crontab", (), dict(zip(FIELDS, text.split(), strict=True)))
    try:
        return value_of(ast.parse(text, mode="eval").body, {})
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
    units = {key: value for key, value in said.items() if key not in _KINDS}
    return _every(_delta(Called("timedelta", (), units)), notes)


def _delta(call: Called) -> float:
    if any(isinstance(one, Called | Computed) for one in (*call.args, *call.kwargs.values())):
        raise _computed("its interval", call)
    try:
        return timedelta(*call.args, **call.kwargs).total_seconds()
    except (TypeError, OverflowError) as problem:
        raise Unreadable(f"no such interval: {problem}") from problem


def _every(seconds: float, notes: list[str]) -> dict[str, Any]:
    notes.append("beat counts from its own start, every from the moment the job is made")
    return {"every": _span(seconds)}


def _span(seconds: float) -> str:
    try:
        return span_text(round(seconds * SECOND_MS))
    except (OverflowError, ValueError) as problem:
        raise Unreadable(f"{seconds} s is no such interval: {problem}") from problem


def _crontab(said: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    fields = [_field(said.get(name, "*")) for name in FIELDS]
    entry: dict[str, Any] = {"cron": " ".join(fields)}
    notes.extend(f"{shown(key)} of a crontab has no meaning here" for key in said if key not in (*FIELDS, *_KINDS))
    if fields[2] != "*" and fields[4] != "*":
        entry["day_rule"] = "and"
        notes.append("Celery wants day of month and day of week both to match: day_rule: and says that")
    return entry


def _field(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    if computed := [item for item in items if isinstance(item, Called | Computed)]:
        raise _computed("a field of its crontab", computed[0])
    return ",".join(re.sub(r"\s", "", str(item)) for item in items)


def _options(options: Any, notes: list[str]) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        notes.append(f"options is left out, as it is computed: {shown(options)}")
        return {}
    entry: dict[str, Any] = {}
    for key, value in options.items():
        match key, value:
            case "queue", str():
                entry["queue"] = value
            case "expires", int() | float() if not isinstance(value, bool):
                entry["expires_after"] = _span(value)
            case "expires", Called(name="timedelta"):
                entry["expires_after"] = _span(_delta(value))
            case "queue" | "expires", Called() | Computed():
                notes.append(f"options.{key} is left out, as it is computed: {shown(value)}")
            case _:
                notes.append(f"options.{shown(key)} has no meaning here")
    return entry


def _plain(value: Any) -> Any:
    """Arguments as JSON. Raises Unreadable for what is none."""
    match value:
        case Called() | Computed():
            raise _computed("an argument", value)
        case Mapping():
            return {shown(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case str() | int() | float() | bool() | None:
            return value
        case _:
            raise Unreadable(f"the argument {value!r} is no JSON")
