"""A job as flags, and the flags as the API's body: what `job create` and `job update` share.

--cron "0 8 * * *" --tz America/New_York   →   {"schedule": {"type": "CRON", …}}
--every 10m    --at 09:00    --in 30s          exactly one of the four makes a schedule
--target demo-echo | https://host/path         a registered name, or a URL: it is called
--queue ledger-rebuild --task-type CHARGE      or its runs wait in a task queue for a worker
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from schedkit.cli import values
from schedkit.errors import InvalidInput, Reason
from schedkit.files.keys import OVERLAPS, REGIONS
from schedkit.model.jobs import MisfirePolicy, Priority
from schedkit.model.schedules import LONGEST_EVERY_MS
from schedkit.model.time import SECOND_MS, Instant, rfc3339

Option = typer.Option
CLOCK_CHANGES: Final = {  # each word decides one of the two policies (W3)
    "first": ("dst_overlap_policy", "FIRST"),
    "second": ("dst_overlap_policy", "SECOND"),
    "both": ("dst_overlap_policy", "BOTH"),
    "skip": ("dst_gap_policy", "SKIP"),
    "shift": ("dst_gap_policy", "SHIFT_FORWARD"),
}
DIALECT_HELP: Final = "unix, quartz or eventbridge."
REFERENCE_HELP: Final = "env:SCHEDKIT_SECRET_NAME, file:/folder/name"
UNSIGNED: Final = "none"
DST_HELP: Final = "When clocks change: first, second or both for a repeated time; skip or shift for a missing one."


@dataclass(frozen=True, slots=True)
class Spec:
    """Every flag that says something about a job; None where nothing was said."""

    name: Annotated[str | None, Option("--name", metavar="N", help="Its name; unique, usable wherever an id is.")] = (
        None
    )
    cron: Annotated[
        str | None, Option("--cron", metavar="EXPR", help="Five fields: minute hour day month weekday.")
    ] = None
    every: Annotated[str | None, Option("--every", metavar="10m", help="At a steady pace, whatever clocks do.")] = None
    at: Annotated[str | None, Option("--at", metavar="TIME", help="Once, at this time.")] = None
    in_: Annotated[str | None, Option("--in", metavar="30s", help="Once, this much from now.")] = None
    dialect: Annotated[str | None, Option("--dialect", metavar="D", help=f"Of --cron: {DIALECT_HELP}")] = None
    dst: Annotated[str | None, Option("--dst", metavar="P", help=DST_HELP)] = None
    start: Annotated[str | None, Option("--start", metavar="T", help="Not before this time.")] = None
    end: Annotated[str | None, Option("--end", metavar="T", help="Not at or after this time.")] = None
    target: Annotated[str | None, Option("--target", metavar="T", help="A target's name, or an http(s) URL.")] = None
    path: Annotated[str | None, Option("--path", metavar="/p", help="Below the target.")] = None
    method: Annotated[str | None, Option("--method", metavar="M", help="POST unless said.")] = None
    header: Annotated[list[str] | None, Option("--header", metavar="K=V", help="Sent along; nothing secret.")] = None
    hmac_secret_ref: Annotated[
        str | None, Option("--hmac-secret-ref", metavar="REF", help=f"Sign calls: {REFERENCE_HELP}, or {UNSIGNED}.")
    ] = None
    hmac_previous_ref: Annotated[
        str | None, Option("--hmac-previous-ref", metavar="REF", help="With the old secret too, while it is replaced.")
    ] = None
    queue: Annotated[str | None, Option("--queue", metavar="Q", help="Instead of a target: wait for a worker.")] = None
    task_type: Annotated[str | None, Option("--task-type", metavar="T", help="Which function of the worker.")] = None
    lease: Annotated[
        str | None, Option("--lease", metavar="30s", help="A worker that is silent for so long loses the run.")
    ] = None
    payload: Annotated[str | None, Option("--payload", metavar="JSON", help="JSON, @FILE, or - for stdin.")] = None
    run_timeout: Annotated[str | None, Option("--run-timeout", metavar="30s", help="Bound of one call, or task.")] = (
        None
    )
    priority: Annotated[str | None, Option("--priority", metavar="P", help="critical, high, default or low.")] = None
    window: Annotated[str | None, Option("--window", metavar="5m", help="May start anywhere in this long.")] = None
    strict: Annotated[bool, Option("--strict", help="No window: at its second.")] = False
    max_attempts: Annotated[int | None, Option("--max-attempts", metavar="N", help="Tries of one run.")] = None
    backoff: Annotated[str | None, Option("--backoff", metavar="10s..15m", help="First and longest wait between.")] = (
        None
    )
    misfire: Annotated[
        str | None, Option("--misfire", metavar="P", help="Of missed runs: run-once, skip or run-all.")
    ] = None
    misfire_grace: Annotated[str | None, Option("--misfire-grace", metavar="1h", help="Later than this is missed.")] = (
        None
    )
    overlap: Annotated[
        str | None, Option("--overlap", metavar="P", help="While one still runs: skip, allow or queue.")
    ] = None
    at_most_once: Annotated[bool, Option("--at-most-once", help="Never call twice; a lost answer ends UNKNOWN.")] = (
        False
    )
    region_policy: Annotated[
        str | None, Option("--region-policy", metavar="P", help="single, home-async or strict.")
    ] = None
    label: Annotated[list[str] | None, Option("--label", "-l", metavar="K=V", help="A label.")] = None


_TIMING: Final = ("cron", "every", "at", "in_")


def body(spec: Spec, *, zone: str | None, now: Instant, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields the flags speak of. `before`, a job as it stands, completes half a schedule, target or policy."""
    said: dict[str, Any] = {
        "name": spec.name,
        "schedule": _schedule(spec, zone, now, (before or {}).get("schedule")),
        "target": _target(spec, (before or {}).get("target")),
        "priority": _word(spec.priority, [word.value for word in Priority], "--priority"),
        "dispatch_window_seconds": _window(spec),
        "retry_policy": _retry(spec, (before or {}).get("retry_policy")),
        "misfire_policy": _word(spec.misfire, [word.value for word in MisfirePolicy], "--misfire"),
        "misfire_grace_seconds": _seconds(spec.misfire_grace, "--misfire-grace"),
        "overlap_policy": _mapped(spec.overlap, OVERLAPS, "--overlap"),
        "delivery": "AT_MOST_ONCE" if spec.at_most_once else None,
        "region_policy": _mapped(spec.region_policy, REGIONS, "--region-policy"),
    }
    found = {name: value for name, value in said.items() if value is not None}
    if spec.label:
        found["labels"] = {**((before or {}).get("labels") or {}), **values.pairs(spec.label, "--label")}
    if spec.payload is not None:
        line = "create --name report --in 1h --target demo-echo" if before is None else f"update {before['job_id']}"
        found["payload"] = values.payload(spec.payload, f"schedkit job {line}")
    return found


def _schedule(spec: Spec, zone: str | None, now: Instant, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    chosen = [name for name in _TIMING if getattr(spec, name) is not None]
    if len(chosen) > 1:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "a job has one schedule: give one of --cron, --every, --at and --in"
        )
    shaped = any(value is not None for value in (spec.dst, spec.start, spec.end, spec.dialect))
    if not chosen:
        if before is None:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "a job needs a schedule: one of --cron, --every, --at and --in",
                fix=['schedkit job create --name report --cron "0 8 * * *" --target demo-echo'],
                field="schedule",
            )
        if not shaped and zone is None:
            return None
        schedule = dict(before)
        if zone is not None and schedule["type"] == "CRON":
            schedule["time_zone"] = zone
        elif not shaped:
            return None
    else:
        schedule = _new_schedule(spec, chosen[0], zone, now, before)
    if schedule["type"] != "ONCE":
        for name, text in (("start_at", spec.start), ("end_at", spec.end)):
            if text is not None:
                schedule[name] = rfc3339(values.instant(text, zone=zone, now=now, field=name))
    return schedule | clock_changes(spec.dst)


def _new_schedule(
    spec: Spec, kind: str, zone: str | None, now: Instant, before: Mapping[str, Any] | None
) -> dict[str, Any]:
    match kind:
        case "cron":
            known = before or {}
            kept = {name: known[name] for name in _KEPT if known.get(name) is not None} if _is_cron(known) else {}
            expression = unix(spec.cron or "", spec.dialect)
            return {**kept, "type": "CRON", "cron": expression, "time_zone": zone or kept.get("time_zone", "UTC")}
        case "every":
            return {
                "type": "INTERVAL",
                "every_seconds": values.duration_seconds(spec.every or "", "--every", LONGEST_EVERY_MS),
            }
        case "at":
            return {"type": "ONCE", **values.run_at(spec.at or "", zone, now)}
        case _:
            due = now + values.duration_ms(spec.in_ or "", "--in")
            return {"type": "ONCE", "run_at": rfc3339(-(-due // SECOND_MS) * SECOND_MS)}  # never early


_KEPT: Final = ("time_zone", "dst_gap_policy", "dst_overlap_policy", "day_rule", "start_at", "end_at")


def _is_cron(schedule: Mapping[str, Any]) -> bool:
    return schedule.get("type") == "CRON"


def unix(expression: str, dialect: str | None) -> str:
    """The expression in the one dialect the API speaks."""
    if dialect in (None, "unix"):
        return expression
    from schedkit.engine.when import dialects

    return dialects.convert(expression, values.choice(str(dialect), dialects.DIALECTS, "--dialect"), "unix")


def clock_changes(text: str | None) -> dict[str, str]:
    """--dst as the API's two policies; `both,skip` says something about each."""
    found: dict[str, str] = {}
    for word in values.choices(text or "", list(CLOCK_CHANGES), "--dst"):
        policy, value = CLOCK_CHANGES[word]
        if policy in found:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"--dst says {policy} twice", field="--dst")
        found[policy] = value
    return found


_CALL: Final = ("target", "path", "method", "header", "hmac_secret_ref", "hmac_previous_ref")
_TASK: Final = ("queue", "task_type", "lease")


def _target(spec: Spec, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A call, or a task queue; half of one is completed by the target as it stands, where that is of the same kind."""
    calls, waits = (
        [f"--{name.replace('_', '-')}" for name in kind if getattr(spec, name) is not None] for kind in (_CALL, _TASK)
    )
    if calls and waits:
        told = f"a job is called, or waits for a worker: give one of {calls[0]} and {waits[0]}"
        raise InvalidInput(Reason.INVALID_ARGUMENT, told, field=waits[0])
    queued = before if before is not None and before.get("type") == "TASK_QUEUE" else None
    if waits or (queued and not calls):
        return _task_queue(spec, queued)
    if queued and spec.target is None:
        told = f"{calls[0]} is for a job that is called, and this one waits in {queued['task_queue']}"
        raise InvalidInput(Reason.INVALID_ARGUMENT, told, fix=["say --target too"], field=calls[0])
    return _call(spec, None if queued else before)


def _task_queue(spec: Spec, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    said = {
        "task_queue": spec.queue,
        "task_type": spec.task_type,
        "lease_seconds": _seconds(spec.lease, "--lease"),
        "timeout_seconds": _seconds(spec.run_timeout, "--run-timeout"),
    }
    found = {name: value for name, value in said.items() if value is not None}
    if not found:
        return None
    if spec.queue is None and before is None:
        told = "--task-type and --lease are for a job that waits for a worker: say which --queue"
        raise InvalidInput(Reason.INVALID_ARGUMENT, told, field="--queue")
    return {"type": "TASK_QUEUE", **(before or {}), **found}


def _call(spec: Spec, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    parts: dict[str, Any] = {}
    if spec.method is not None:
        parts["method"] = spec.method.upper()
    if spec.run_timeout is not None:
        parts["timeout_seconds"] = values.duration_seconds(spec.run_timeout, "--run-timeout")
    if spec.header:
        parts["headers"] = {**((before or {}).get("headers") or {}), **values.header_pairs(spec.header)}
    if (auth := _auth(spec)) is not None:
        parts["auth"] = auth
    if spec.target is None:
        if before is None:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "a job needs a target: --target NAME or --target https://host/path; or --queue NAME, for workers",
                fix=["schedkit job create --name tea --in 30s --target demo-echo"],
                field="target",
            )
        if not parts and spec.path is None:
            return None
        known = dict(before)
        if spec.path is not None:
            place, value = ("url", _joined(known["url"], spec.path)) if "url" in known else ("path", spec.path)
            known[place] = value
        return known | parts
    kept = (
        {name: before[name] for name in ("method", "timeout_seconds", "headers") if before.get(name)} if before else {}
    )
    if "://" in spec.target:
        if before is not None and before.get("auth"):
            kept["auth"] = before["auth"]
        return {**kept, "url": _joined(spec.target, spec.path), **parts}
    return {**kept, "target_id": spec.target, **({"path": spec.path} if spec.path else {}), **parts}


def _auth(spec: Spec) -> dict[str, str] | None:
    """How calls are signed. Flags name where secrets are; a secret itself is never a flag value."""
    if spec.hmac_secret_ref is None and spec.hmac_previous_ref is None:
        return None
    if spec.hmac_secret_ref is None or (spec.hmac_secret_ref == UNSIGNED and spec.hmac_previous_ref is not None):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "--hmac-previous-ref goes with --hmac-secret-ref, the reference of the new secret",
            field="--hmac-previous-ref",
        )
    if spec.hmac_secret_ref == UNSIGNED:
        return {"type": "NONE"}
    before = {} if spec.hmac_previous_ref is None else {"previous_secret_ref": spec.hmac_previous_ref}
    return {"type": "HMAC_SHA256", "secret_ref": spec.hmac_secret_ref, **before}


def _joined(url: str, path: str | None) -> str:
    return url if path is None else url.rstrip("/") + "/" + path.lstrip("/")


def _window(spec: Spec) -> int | None:
    if spec.strict and spec.window is not None:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "--strict is no window: give one of --strict and --window")
    return 0 if spec.strict else _seconds(spec.window, "--window")


def _retry(spec: Spec, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    policy: dict[str, Any] = {}
    if spec.max_attempts is not None:
        policy["max_attempts"] = spec.max_attempts
    if spec.backoff is not None:
        first, dots, longest = spec.backoff.partition("..")
        policy["initial_backoff_seconds"] = values.duration_seconds(first, "--backoff")
        if dots:
            policy["max_backoff_seconds"] = values.duration_seconds(longest, "--backoff")
            if policy["max_backoff_seconds"] < policy["initial_backoff_seconds"]:
                raise InvalidInput(
                    Reason.INVALID_ARGUMENT,
                    f"the first wait {first} is longer than the longest {longest}",
                    field="--backoff",
                )
    return {**(before or {}), **policy} if policy else None


def _seconds(text: str | None, flag: str) -> int | None:
    return None if text is None else values.duration_seconds(text, flag)


def _word(text: str | None, known: Sequence[str], flag: str) -> str | None:
    return None if text is None else values.choice(text, known, flag)


def _mapped(text: str | None, known: Mapping[str, Any], flag: str) -> str | None:
    return None if text is None else str(known[values.choice(text, list(known), flag)])
