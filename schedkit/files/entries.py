"""One entry of a job file, read into the document the API takes. Every mistake in it is noted; nothing is raised."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from schedkit.engine.addresses import check_url
from schedkit.engine.when import cron as crons
from schedkit.engine.when import dialects, occurrences
from schedkit.errors import InvalidInput
from schedkit.files import scalars
from schedkit.files.documents import (
    BOUNDS,
    DEFAULT_METHOD,
    DEFAULT_RETRY,
    DEFAULT_TASK,
    DEFAULT_TIMEOUT_S,
    DEFAULTS,
    REFERENCES,
    UTC,
    Document,
    has_offset,
)
from schedkit.files.keys import BY_NAME, KEYS, PLACES, TIMINGS, Key, Kind
from schedkit.model.jobs import MAX_LEASE_MS, MAX_TASK_TIMEOUT_MS, MAX_TIMEOUT_MS, MIN_LEASE_MS
from schedkit.model.names import MAX_NAME_CHARS
from schedkit.model.schedules import LONGEST_EVERY_MS, Cron, DayRule, GapPolicy, RepeatPolicy
from schedkit.model.time import SECOND_MS, parse_rfc3339

T = TypeVar("T")

MAX_EVERY_S: Final = LONGEST_EVERY_MS // SECOND_MS
LEASES_S: Final = (MIN_LEASE_MS // SECOND_MS, MAX_LEASE_MS // SECOND_MS)
MAX_TASK_TIMEOUT_S: Final = MAX_TASK_TIMEOUT_MS // SECOND_MS
MAX_RUNS: Final = 1_000_000_000
MAX_PATH_CHARS: Final = 1_024
ANY_NETWORK: Final = ("0.0.0.0/0", "::/0")  # which networks may be called is the deployment's to say
_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IN_FILES: Final = {"schedule.cron": "cron", "schedule.time_zone": "tz", "schedule.end_at": "end"}
_OF_CRON: Final = ("dialect", "day_rule", "dst_gap", "dst_overlap")
_OF_PLACE: Final = {
    "url": ("method", "headers", "timeout", *REFERENCES),
    "target": ("path", "method", "headers", "timeout"),
    "queue": ("task_type", "lease", "timeout"),
}


@dataclass(slots=True)
class Entry:
    """The keys of one job while they are read. `refuse` is told (key, message, fix); `inherited` are the keys that
    stand in `defaults`, where they may have no meaning for this job."""

    said: Mapping[str, Any]
    refuse: Callable[[str, str, tuple[str, ...]], None]
    inherited: frozenset[str] = frozenset()
    wrong: set[str] = field(default_factory=set)  # nothing more is said of these

    def no(self, key: str, message: str, *fix: str) -> None:
        """Refuse a key, once."""
        if key not in self.wrong:
            self.wrong.add(key)
            self.refuse(key, message, fix)

    def has(self, key: str) -> bool:
        return self.said.get(key) is not None and key not in self.wrong

    def of(self, key: str, read: Callable[[Any], T]) -> T | None:
        """The value of a key as `read` makes it; None where it is absent or refused."""
        if not self.has(key):
            return None
        try:
            return read(self.said[key])
        except InvalidInput as refusal:
            self.no(_IN_FILES.get(refusal.field or "", key), refusal.detail, *refusal.fix)
            return None

    def word(self, key: str, default: str) -> str:
        return self.of(key, lambda value: scalars.word(key, value)) or default

    def only_with(self, owner: str, keys: tuple[str, ...]) -> None:
        """Refuse keys that mean nothing here, unless they came from `defaults`."""
        for key in keys:
            if self.has(key) and key not in self.inherited:
                self.no(key, f"it goes with {owner}", f"take {key} out")


def document_of(name: str, entry: Entry) -> Document | None:
    """The document of an entry, or None where something in it was refused."""
    for key in entry.said:
        if key not in BY_NAME:
            near = difflib.get_close_matches(key, BY_NAME, n=1)
            entry.no(key, "there is no such key", f"write {near[0]}" if near else f"known: {', '.join(BY_NAME)}")
    document: Document = {**DEFAULTS, "name": name, "labels": {}}
    document |= {"schedule": _schedule(entry), "target": _target(entry)}
    for plain in KEYS:
        if plain.api and entry.has(plain.name):
            document[plain.api] = _plain(entry, plain)
    _other_spellings(entry, document)
    document["payload"] = entry.said.get("payload")
    document["retry_policy"] = entry.of("retry", scalars.retry) or dict(DEFAULT_RETRY)
    window, expires = document["dispatch_window_seconds"], document["expires_after_seconds"]
    if expires is not None and window and expires <= window:
        entry.no("expires_after", f"it has to be longer than the window of {window} s, or runs expire in it")
    return None if entry.wrong else document


def _plain(entry: Entry, key: Key) -> Any:
    """The value of a key that the API takes as it is."""
    match key.kind:
        case Kind.WORD:
            return entry.of(key.name, lambda value: scalars.word(key.name, value))
        case Kind.SPAN:
            return entry.of(key.name, lambda value: scalars.whole_seconds(key.name, value))
        case Kind.PAIRS:
            return entry.of(key.name, scalars.pairs)
        case Kind.COUNT:
            return entry.of(key.name, lambda value: scalars.count(value, MAX_RUNS))
        case Kind.FLAG:
            return entry.of(key.name, scalars.flag)
        case _:
            return entry.of(key.name, scalars.text)


def _other_spellings(entry: Entry, document: Document) -> None:
    """`strict: true` and `at_most_once: true`, which say what `window` and `delivery` say."""
    for key, other, api, value in (
        ("strict", "window", "dispatch_window_seconds", 0),
        ("at_most_once", "delivery", "delivery", "AT_MOST_ONCE"),
    ):
        if not entry.of(key, scalars.flag):
            continue
        if entry.has(other) and other not in entry.inherited and document[api] != value:
            entry.no(key, f"it contradicts {other}: {entry.said[other]}", f"keep one of {key} and {other}")
        document[api] = value


def _one_of(entry: Entry, keys: tuple[str, ...], what: str) -> str | None:
    chosen = [name for name in keys if entry.said.get(name) is not None]
    if len(chosen) == 1:
        return chosen[0]
    has = " and ".join(chosen) if chosen else "none"
    entry.no(chosen[0] if chosen else keys[0], f"a job has one {what}, and this has {has}", f"give one of {_or(keys)}")
    return None


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


# When


def _schedule(entry: Entry) -> dict[str, Any]:
    zone = entry.of("tz", scalars.zone) or UTC
    policies = {
        "dst_gap_policy": entry.word("dst_gap", GapPolicy.FIRST_VALID.value),
        "dst_overlap_policy": entry.word("dst_overlap", RepeatPolicy.FIRST.value),
    }
    match _one_of(entry, TIMINGS, "schedule"):
        case "cron":
            return _cron(entry, zone, policies)
        case "at":
            return _once(entry, zone, policies)
        case "every":
            return _interval(entry, zone)
        case _:
            return {}


def _cron(entry: Entry, zone: str, policies: dict[str, str]) -> dict[str, Any]:
    entry.only_with("every", ("anchor",))
    dialect, rule = entry.word("dialect", "unix"), entry.word("day_rule", DayRule.OR.value)
    gap, repeat = GapPolicy(policies["dst_gap_policy"]), RepeatPolicy(policies["dst_overlap_policy"])

    def read(value: Any) -> str:
        said = scalars.text(value)
        unix = said if dialect == "unix" else dialects.convert(said, dialect, "unix")
        crons.check(Cron(unix, zone, gap, repeat, DayRule(rule)), 0)
        return unix

    cron = {"type": "CRON", "cron": entry.of("cron", read), "time_zone": zone, **policies, "day_rule": rule}
    return cron | _bounds(entry, zone)


def _once(entry: Entry, zone: str, policies: dict[str, str]) -> dict[str, Any]:
    entry.only_with("cron or every", ("start", "end"))
    entry.only_with("cron", ("dialect", "day_rule"))
    entry.only_with("every", ("anchor",))
    said = entry.of("at", scalars.text) or ""
    offset = has_offset(said)
    own = entry.has("tz") and "tz" not in entry.inherited
    located = zone if own or not offset else None  # an offset says it all
    gap, repeat = GapPolicy(policies["dst_gap_policy"]), RepeatPolicy(policies["dst_overlap_policy"])
    entry.of("at", lambda _: occurrences.resolve_once(said, located, gap, repeat))
    once = {"type": "ONCE", "run_at": said}
    return once if located is None else {**once, "time_zone": located, **policies}


def _interval(entry: Entry, zone: str) -> dict[str, Any]:
    entry.only_with("cron", _OF_CRON)
    every = entry.of("every", lambda value: scalars.bounded_seconds(value, 1, MAX_EVERY_S))
    anchor = entry.of("anchor", lambda value: scalars.instant(value, zone))
    schedule = {"type": "INTERVAL", "every_seconds": every} | ({"anchor_at": anchor} if anchor is not None else {})
    return schedule | _bounds(entry, zone)


def _bounds(entry: Entry, zone: str) -> dict[str, str]:
    found = {api: entry.of(name, lambda value: scalars.instant(value, zone)) for name, api in BOUNDS.items()}
    bounds = {api: said for api, said in found.items() if said is not None}
    if len(bounds) == len(BOUNDS) and parse_rfc3339(bounds["start_at"]) >= parse_rfc3339(bounds["end_at"]):
        entry.no("end", "it has to be later than start")
    return bounds


# Where


def _target(entry: Entry) -> dict[str, Any]:
    place = _one_of(entry, PLACES, "place to go to")
    if place is None:
        return {}
    for owner, keys in _OF_PLACE.items():
        entry.only_with(owner, tuple(key for key in keys if owner != place and key not in _OF_PLACE[place]))
    if place == "queue":
        return _queue(entry)
    target: dict[str, Any] = {"type": "HTTP"}
    if place == "url":
        target["url"] = entry.of("url", _url)
    else:
        target |= {"target_id": entry.of("target", _registered), "path": entry.of("path", _path) or ""}
    timeout = entry.of("timeout", lambda value: scalars.bounded_seconds(value, 1, MAX_TIMEOUT_MS // SECOND_MS))
    return target | {
        "method": entry.word("method", DEFAULT_METHOD),
        "timeout_seconds": DEFAULT_TIMEOUT_S if timeout is None else timeout,
        "headers": entry.of("headers", scalars.headers) or {},
        "auth": _auth(entry),
    }


def _auth(entry: Entry) -> dict[str, str] | None:
    """How calls are signed: references of secrets, and never a secret."""
    said = {name: entry.of(name, scalars.reference) for name in REFERENCES}
    refs = {name: ref for name, ref in said.items() if ref is not None}
    if refs and "secret_ref" not in refs:
        entry.no("previous_secret_ref", "it goes with secret_ref, the reference of the new secret")
    return {"type": "HMAC_SHA256", **refs} if refs else None


def _queue(entry: Entry) -> dict[str, Any]:
    said = {
        "task_queue": entry.of("queue", _queue_name),
        "task_type": entry.of("task_type", _queue_name),
        "lease_seconds": entry.of("lease", lambda value: scalars.bounded_seconds(value, *LEASES_S)),
        "timeout_seconds": entry.of("timeout", lambda value: scalars.bounded_seconds(value, 1, MAX_TASK_TIMEOUT_S)),
    }
    return {"type": "TASK_QUEUE", **DEFAULT_TASK} | {name: value for name, value in said.items() if value is not None}


def _queue_name(value: Any) -> str:
    said = _short(value)
    if not _QUEUE_NAME.fullmatch(said):
        raise scalars.wrong(
            f"{scalars.shown(said)} is no such name: letters, digits, dots, - and _, a letter or digit first"
        )
    return said


def _short(value: Any) -> str:
    said = scalars.text(value)
    if len(said) > MAX_NAME_CHARS:
        raise scalars.wrong(f"the name has {len(said)} characters; {MAX_NAME_CHARS} at most")
    return said


def _url(value: Any) -> str:
    said = scalars.text(value)
    check_url(said, loopback_allowed=True, allowed_networks=ANY_NETWORK, field="url")
    return said


def _registered(value: Any) -> str:
    said = _short(value)
    if "://" in said:
        raise scalars.wrong(f"{said} is no registered target", f"write url: {said}")
    return said


def _path(value: Any) -> str:
    said = scalars.text(value)
    if not said.startswith("/") or len(said) > MAX_PATH_CHARS or not all("!" <= char <= "~" for char in said):
        raise scalars.wrong(f"{scalars.shown(said)} is no path: it begins with / and has no blanks")
    return said
