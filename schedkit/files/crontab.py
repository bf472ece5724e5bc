"""Crontabs, as Vixie's cron, Debian's, cronie and FreeBSD's read them.

    MAILTO=ops@example.com             an environment line; it counts for the lines below it
    CRON_TZ=Europe/Berlin              the zone of the lines below it
    30 2 * * 1-5   root   backup %in   five fields, in a system crontab a user, the command; % is a newline
    @daily   cleanup                   a macro

A command becomes `queue: shell` with payload.command, to be run by a worker: it needs no HTTP endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from schedkit.engine.when import cron as crons
from schedkit.engine.when.cron_fields import MACROS
from schedkit.errors import InvalidInput
from schedkit.files.imported import Imported, Wishes
from schedkit.model.spans import span_ms, span_text
from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS

QUEUE: Final = "shell"
RUNNER: Final = f"schedkit worker exec {QUEUE} --shell"
FIELDS: Final = 5
MAX_WINDOW_MINUTES: Final = 24 * 60
PLAIN_SHELLS: Final = ("/bin/sh", "sh", "/usr/bin/sh")
USERS: Final = frozenset({"root", "www-data", "nobody", "daemon", "postgres"})  # and no commands, as mail is
_ENVIRONMENT: Final = re.compile(r"""(["']?)(?P<name>[A-Za-z_]\w*)\1\s*=\s*(?P<value>.*)""")
_USER_COLUMN: Final = re.compile(r"\b(?:user(?:-?name)?|who)\s+command", re.IGNORECASE)
_BLANKS: Final = re.compile(r"[ \t]+")
_RANDOM: Final = re.compile(r"(\d*)~(\d*)")
_TIME_LIKE: Final = re.compile(r"\*(?:/\d+)?|\?|\d+(?:[-,/]\d+)*")
_BACKWARDS: Final = re.compile(r"(?<![\d/])(\d+)-(\d+)")
_GUARDS: Final = frozenset({"cd", "test", "[", "[[", "if", "export", "set", ".", "source", "sleep", "umask", "ulimit"})
_WRAPPERS: Final = frozenset({
    "sudo", "nice", "ionice", "env", "exec", "command", "nohup", "time", "chronic", "bash", "sh", "zsh", "dash", "perl",
    "python", "python2", "python3", "php", "ruby", "node", "java", "then", "do",
})  # fmt: skip
_WITH_WORD: Final = frozenset({"flock", "timeout"})  # whose first word is a lock or a time


@dataclass(slots=True)
class _State:
    """What the lines so far have set."""

    env: dict[str, str] = field(default_factory=dict)
    zone: str | None = None  # None is the machine's own
    pinned: bool = False  # by CRON_TZ, beside which TZ says nothing of the schedule
    delay: str | None = None
    midnight: int = 0  # jobs that are due there
    machine_time: bool = False  # a job counts on the machine's own zone


def read(text: str, wishes: Wishes) -> Imported:
    """The jobs of a crontab. Never raises: lines that cannot be kept are comments, with the reason."""
    found = Imported(wishes, "a crontab")
    found.defaults = {"tz": wishes.tz or "UTC", **wishes.place(QUEUE), **wishes.spread()}
    found.defaults |= {"misfire": "skip", "retry": {"max_attempts": 1}}
    lines = text.split("\n")
    system = _is_system(lines) if wishes.system is None else wishes.system
    if wishes.target is None:
        found.note(f"commands run wherever a worker of the queue {QUEUE} runs: {RUNNER}")
        found.defaults |= _expiry(wishes, {"cron": "@daily"})
        found.note(
            "cron starts a command at its time or never; here a run waits for a worker until expires_after: the"
            " shortest gap of its schedule, 1m to 1h, after its window. Then it is SKIPPED (EXPIRED): none pile up"
        )
    found.note("cron neither catches up nor tries again, so misfire: skip and max_attempts: 1 stand in defaults")
    if system and wishes.system is None:
        found.note("the sixth column was taken for the user; --no-system if it is part of the command")
    state = _State()
    for number, line in enumerate(lines, 1):
        _line(found, state, f"line {number}", line.strip(" \t\r"), system=system)
    if wishes.tz is None and state.machine_time:
        found.note("no zone was said: the times are read in UTC, where cron took the machine's own; --tz ZONE says it")
    return found


def _is_system(lines: Sequence[str]) -> bool:
    """Whether there is a user column, as in /etc/crontab: a comment says so, or every sixth word is a known user."""
    if any(line.lstrip().startswith("#") and _USER_COLUMN.search(line) for line in lines):
        return True
    bodies = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    said = [line.split() for line in bodies if not _ENVIRONMENT.fullmatch(line)]
    words = [words[1 if words[0].startswith("@") else FIELDS :] for words in said]
    return bool(words) and all(len(rest) > 1 and rest[0] in USERS for rest in words)


def _line(found: Imported, state: _State, place: str, line: str, *, system: bool) -> None:
    if not line or line.startswith("#"):
        return
    if (setting := _ENVIRONMENT.fullmatch(line)) is not None:
        _environment(found, state, place, setting["name"], _unquoted(setting["value"]))
        return
    said, notes = line, []
    if line.startswith("-") and line[1:2].strip():
        notes.append("the - in front, which keeps cron's log silent, has no meaning here")
        line = line[1:].lstrip()
    count = 1 if line.startswith("@") else FIELDS
    parts = _BLANKS.split(line, count + system)
    if len(parts) <= count + system:
        column = ", a user" if system else ""
        found.leave(place, said, f"a line has five time fields, or one macro{column}, and a command")
        return
    fields, user, command = parts[:count], parts[count] if system else None, parts[-1]
    if _TIME_LIKE.fullmatch(_BLANKS.split(parts[count])[0]):
        found.leave(place, said, "it has six time fields: cron has five, and would run the sixth as a command")
        return
    timing, more = _timing(state, fields)
    if timing is None:
        found.leave(place, said, *more)
        return
    payload, told = _payload(state, command, user)
    entry = {**timing, "payload": payload}
    if found.wishes.target is None:
        entry |= {key: span for key, span in _expiry(found.wishes, timing).items() if span != found.defaults.get(key)}
    state.machine_time |= state.zone is None
    if state.zone is not None and state.zone != found.defaults["tz"]:
        entry["tz"] = state.zone
    notes += [*more, *told, *_crowd(found, state, timing)]
    found.add(place, said, _name(command), entry, notes)


# Settings


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _environment(found: Imported, state: _State, place: str, name: str, value: str) -> None:
    match name:
        case "CRON_TZ":
            state.zone, state.pinned = value or None, True
            if not value:
                here = f"{found.defaults['tz']}, the tz of defaults"
                found.note(f"CRON_TZ= is empty: cron goes back to the machine's own zone below it, here {here}", place)
            return
        case "TZ" if value and not state.pinned:
            state.zone = value
            found.note(
                f"TZ={value} was taken for the zone of the schedule too; some crons only give it to commands", place
            )
        case "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING":
            if value:
                found.note(f"{name}={value}: no mail is sent; what a command prints is in the worker's log", place)
            return
        case "RANDOM_DELAY":
            state.delay = value if value != "0" else None
            if state.delay is None:
                return
            found.note(f"RANDOM_DELAY={value} becomes a window: each job keeps its own place in it", place)
            return
        case "SHELL" if value not in PLAIN_SHELLS:
            found.note(
                f"SHELL={value}: it is in payload.env, and the worker runs the command by it, as cron does", place
            )
    state.env[name] = value


# When


def _timing(state: _State, fields: Sequence[str]) -> tuple[dict[str, Any] | None, list[str]]:
    """(the keys that say when, notes); or (None, why not)."""
    window = {"window": f"{state.delay}m"} if state.delay is not None else {}
    if len(fields) == 1:
        macro = fields[0].lower()
        if macro == "@reboot":
            return None, ["@reboot names no time: let the machine start it, or trigger a job when you deploy"]
        if macro == "@every_minute":
            return {"cron": "* * * * *", **window}, []
        if macro.removeprefix("@").isdigit():
            told = f"{macro} counts from the end of the run before; every counts from its start, so overlap: skip"
            return {"every": f"{macro[1:]}s", "overlap": "skip"}, [told]
        return ({"cron": macro, **window}, []) if macro in MACROS else (None, [f"{macro} is no macro known here"])
    minute, hour, day, month, weekday = fields
    if any("~" in one for one in (day, month, weekday)):
        return None, ["~ in a day or a month draws a day, and there is nothing here that does"]
    notes: list[str] = []
    if "~" in minute + hour:
        drawn = _drawn(minute, hour)
        if drawn is None:
            return None, ["~ stands beside something else in its field: write the times out"]
        minute, hour, width = drawn
        window = {"window": f"{width}m"}
        notes.append(f"~ draws a time anew whenever cron starts; here the job has one place in a window of {width}m")
    keys: dict[str, Any] = {"cron": " ".join((minute, hour, day, month, weekday)), **window}
    if any(int(first) > int(last) for one in (minute, hour, day) for first, last in _BACKWARDS.findall(one)):
        notes.append("a range that ends before it begins goes round over the end here; most crons refuse the line")
    stars = [one for one in (day, weekday) if one.startswith("*")]
    restricted = [one for one in (day, weekday) if one not in ("*", "?")]
    if len(restricted) == len((day, weekday)):
        if stars:
            keys["day_rule"] = "and"
            notes.append(f"{stars[0]} begins with a star, so cron wants both days to match: day_rule: and says that")
        else:
            notes.append("day of month and day of week are both set: it runs when either matches, as with cron")
    return keys, notes


def _drawn(minute: str, hour: str) -> tuple[str, str, int] | None:
    """(minute, hour, minutes from the earliest to the latest time) of fields with ~; None where they are mixed."""
    ranges = []
    for text, high in ((minute, 59), (hour, 23)):
        match = _RANDOM.fullmatch(text)
        if match is not None:
            ranges.append((int(match[1] or 0), int(match[2] or high)))
        elif "~" in text:
            return None
        else:
            ranges.append((int(text), int(text)) if text.isdigit() else (-1, -1))
    (first, last), (from_hour, to_hour) = ranges
    if first < 0 or (from_hour < 0 and "~" in hour):
        return None
    width = last - first + (to_hour - from_hour) * 60
    kept = hour if from_hour < 0 else str(from_hour)
    return (str(first), kept, width) if 0 < width < MAX_WINDOW_MINUTES else None


def _expiry(wishes: Wishes, timing: Mapping[str, Any]) -> dict[str, str]:
    """When a run that no worker takes has come too late: before the next one is due, and within the hour."""
    try:
        window_ms = span_ms(timing.get("window", wishes.window or "0s"))
        return {"expires_after": span_text(window_ms + min(max(_shortest_gap_ms(timing), MINUTE_MS), HOUR_MS))}
    except (InvalidInput, ValueError):  # the schedule or the window is refused, and the entry with it
        return {}


def _shortest_gap_ms(timing: Mapping[str, Any]) -> int:
    """From one time to the next, as if every day were one of the schedule's."""
    if "every" in timing:
        return span_ms(timing["every"])
    expression = crons.parsed(timing["cron"])
    due = [hour * HOUR_MS + minute * MINUTE_MS for hour in expression.hours for minute in expression.minutes]
    return min(later - earlier for earlier, later in pairwise([*due, due[0] + DAY_MS]))


def _crowd(found: Imported, state: _State, timing: dict[str, Any]) -> list[str]:
    """What to say of one more job at midnight."""
    at_midnight = timing.get("cron", "") in ("@daily", "@midnight") or timing.get("cron", "").startswith("0 0 ")
    if not at_midnight or "window" in timing or found.wishes.window is not None:
        return []
    state.midnight += 1
    there = f" ({state.midnight - 1} there)" if state.midnight > 1 else ""
    return [f"{timing['cron']} puts 1 more job on midnight{there}; --window 30m spreads it"]


# What


def _payload(state: _State, command: str, user: str | None) -> tuple[dict[str, Any], list[str]]:
    payload: dict[str, Any] = {}
    notes = []
    payload["command"], stdin = _split_percent(command)
    if stdin is not None:
        payload["stdin"] = stdin
        notes.append("what stands behind the first % is the command's stdin, each further % a new line of it")
    if "\\%" in command:
        notes.append(r"\% is a percent sign to cron, and stands without its backslash here")
    if command.endswith("\\"):
        notes.append("cron knows no continued lines: the backslash at the end is part of the command, as it was")
    if user is not None:
        payload["user"] = user
        notes.append(f"it ran as {user}; here it runs as whoever started the worker")
    if re.match(r"(\S*/)?flock\s", command):
        notes.append("overlap: skip does what flock does here")
    if state.env:
        payload["env"] = dict(state.env)
    return payload, notes


def _split_percent(command: str) -> tuple[str, str | None]:
    """(command, stdin) as cron splits them: at the first % without a backslash."""
    parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", command)]
    return parts[0], "\n".join(parts[1:]) + "\n" if len(parts) > 1 else None


def _name(command: str) -> str:
    """A name from what is done: `cd /app && ./bin/backup.sh --all` is backup."""
    for part in re.split(r"&&|\|\||;", _split_percent(command)[0]):
        words = [word.strip("\"'(){}") for word in part.split()]
        words = [word for word in words if word and word not in ("!", "then") and "=" not in word]
        if not words or words[0] in _GUARDS:
            continue
        skip = False
        for word in words:
            stem = word.rstrip("/").split("/")[-1]
            if word[0] in "-<>|&$" or stem in _WRAPPERS or not stem:
                continue
            if skip or word[0].isdigit():
                skip = False
            elif stem in _WITH_WORD:
                skip = True
            else:
                return re.sub(r"\.(sh|py|pl|php|rb|js|jar)$", "", stem)
    return "command"
