"""A job as a document of the API, whole and in one form: what a file says and what a server has are compared as such.

    entry ──entries.document_of──► document ◄──spec_of── job as the server shows it
      ▲                               │
      └────────entry_of───────────────┘

`entry_of` says only what differs from the defaults of the format; read again, it is the same document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schedkit.files.keys import BY_NAME, KEYS, Key, Kind
from schedkit.model.jobs import RetryPolicy
from schedkit.model.schedules import DayRule, GapPolicy, RepeatPolicy
from schedkit.model.spans import span_text
from schedkit.model.time import SECOND_MS, split_rfc3339

Document = dict[str, Any]

UTC: Final = "UTC"
DEFAULT_METHOD: Final = "POST"
DEFAULT_TIMEOUT_S: Final = 30
DEFAULT_TASK: Final[Mapping[str, Any]] = {"task_type": None, "lease_seconds": 30, "timeout_seconds": None}
DEFAULT_RETRY: Final = {
    "max_attempts": RetryPolicy().max_attempts,
    "initial_backoff_seconds": RetryPolicy().initial_backoff_ms // SECOND_MS,
    "max_backoff_seconds": RetryPolicy().max_backoff_ms // SECOND_MS,
}
DEFAULT_POLICIES: Final = {
    "dst_gap_policy": GapPolicy.FIRST_VALID.value,
    "dst_overlap_policy": RepeatPolicy.FIRST.value,
}
DEFAULTS: Final[Mapping[str, Any]] = {
    "description": None,
    "payload": None,
    "priority": "DEFAULT",
    "dispatch_window_seconds": 0,
    "retry_policy": DEFAULT_RETRY,
    "misfire_policy": "RUN_ONCE",
    "misfire_grace_seconds": 60,
    "overlap_policy": "ALLOW",
    "delivery": "AT_LEAST_ONCE",
    "region_policy": "HOME_ASYNC",
    "labels": {},
    "max_runs": None,
    "expires_after_seconds": None,
    "paused": False,
}
FIELDS: Final = ("name", "schedule", "target", *DEFAULTS)
SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
REFERENCES: Final = ("secret_ref", "previous_secret_ref")
POLICIES: Final = {"dst_gap": "dst_gap_policy", "dst_overlap": "dst_overlap_policy", "day_rule": "day_rule"}
BOUNDS: Final = {"start": "start_at", "end": "end_at"}


def spec_of(job: Mapping[str, Any]) -> Document:
    """What a server's job was asked to be, without what became of it."""
    spec = {name: job.get(name, default) for name, default in DEFAULTS.items()}
    spec |= {"name": job.get("name"), "schedule": dict(job["schedule"]), "paused": job.get("status") == "PAUSED"}
    return spec | {"target": _target_spec(job["target"])}


def _target_spec(target: Mapping[str, Any]) -> Document:
    if target.get("type") == "TASK_QUEUE":
        return {**DEFAULT_TASK, **target}
    spec = {"type": "HTTP", **{name: value for name, value in target.items() if value is not None}}
    if "target_id" in spec:
        spec.pop("url", None)  # where it leads now is not what was asked for
    return {**spec, "auth": spec.get("auth")}


def entry_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a job file that means this document; its name stands above it, not in it."""
    entry = _schedule_entry(document["schedule"]) | _target_entry(document["target"])
    for key in KEYS:
        if key.api and document[key.api] != DEFAULTS[key.api]:
            entry[key.name] = _written(key, document[key.api])
    if document["payload"] is not None:
        entry["payload"] = document["payload"]
    if document["retry_policy"] != DEFAULT_RETRY:
        retry = document["retry_policy"]
        first, longest = (retry[name] for name in ("initial_backoff_seconds", "max_backoff_seconds"))
        spread = f"{_span(min(first, longest))}..{_span(longest)}"
        entry["retry"] = {"max_attempts": retry["max_attempts"], "backoff": spread}
    order = [key.name for key in KEYS]
    return {name: entry[name] for name in sorted(entry, key=order.index)}


def _schedule_entry(schedule: Mapping[str, Any]) -> dict[str, Any]:
    match schedule["type"]:
        case "CRON":
            entry = {"cron": schedule["cron"]}
            zone_said = schedule["time_zone"] != UTC
        case "ONCE":
            entry = {"at": schedule["run_at"]}
            zone_said = has_offset(schedule["run_at"]) or schedule.get("time_zone") != UTC
        case _:
            entry = {"every": _span(schedule["every_seconds"])}
            zone_said = False
            if "anchor_at" in schedule:
                entry["anchor"] = schedule["anchor_at"]
    if zone_said and schedule.get("time_zone") is not None:
        entry["tz"] = schedule["time_zone"]
    default = {**DEFAULT_POLICIES, "day_rule": DayRule.OR.value}
    for name, api in POLICIES.items():
        if schedule.get(api, default[api]) != default[api]:
            entry[name] = _written(BY_NAME[name], schedule[api])
    return entry | {name: schedule[api] for name, api in BOUNDS.items() if api in schedule}


def _target_entry(target: Mapping[str, Any]) -> dict[str, Any]:
    if target["type"] == "TASK_QUEUE":
        entry = {"queue": target["task_queue"]}
        if target["task_type"] is not None:
            entry["task_type"] = target["task_type"]
        spans = {"lease": "lease_seconds", "timeout": "timeout_seconds"}
        return entry | {name: _span(target[api]) for name, api in spans.items() if target[api] != DEFAULT_TASK[api]}
    entry = {"target": target["target_id"]} if "target_id" in target else {"url": target["url"]}
    if target.get("path"):
        entry["path"] = target["path"]
    if target["auth"] is not None:
        entry |= {name: target["auth"][name] for name in REFERENCES if name in target["auth"]}
    if target["method"] != DEFAULT_METHOD:
        entry["method"] = target["method"]
    if target["timeout_seconds"] != DEFAULT_TIMEOUT_S:
        entry["timeout"] = _span(target["timeout_seconds"])
    return entry | ({"headers": dict(target["headers"])} if target["headers"] else {})


def _written(key: Key, value: Any) -> Any:
    """A value of the API as the file says it."""
    match key.kind:
        case Kind.WORD:
            return next(word for word, meant in key.words.items() if meant == value)
        case Kind.SPAN:
            return _span(value)
        case Kind.PAIRS:
            return dict(value)
        case _:
            return value


def _span(seconds: float) -> str:
    return span_text(round(seconds * SECOND_MS))


def has_offset(text: str) -> bool:
    """Whether a time says its own offset. False for what is no time."""
    try:
        return split_rfc3339(text)[1] is not None
    except ValueError:
        return False


def secrets_in(document: Mapping[str, Any]) -> list[str]:
    """The headers of a document that no file should hold."""
    return [name for name in document["target"].get("headers", {}) if name.lower() in SECRET_HEADERS]
