"""EventBridge: what `aws scheduler get-schedule`, `aws scheduler list-schedules` and `aws events list-rules` print.

    cron(0 8 ? * MON-FRI *)    the Unix form; a year becomes start and end
    rate(5 minutes)            every: 5m
    at(2026-09-28T09:00:00)    at, read on the clock of ScheduleExpressionTimezone

Several documents may stand in one file, as `for name in ...; do aws scheduler get-schedule ...; done` writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from schedkit.engine.when import dialects
from schedkit.errors import InvalidInput, Reason
from schedkit.files import scalars
from schedkit.files.documents import has_offset
from schedkit.files.imported import Imported, Wishes
from schedkit.model.jobs import MAX_ATTEMPTS
from schedkit.model.time import SECOND_MS, Instant, parse_rfc3339, rfc3339

AWS_ATTEMPTS: Final = 185  # retries of a target that says nothing else
_CALL: Final = re.compile(r"\s*(cron|rate|at)\s*\((.*)\)\s*", re.IGNORECASE)
_RATE: Final = re.compile(r"\s*(\d+)\s+(minute|hour|day)s?\s*", re.IGNORECASE)
_YEARS: Final = re.compile(r"(\d{4})(?:-(\d{4}))?")
_EPOCH: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)  # seconds
_UNITS: Final = {"minute": "m", "hour": "h", "day": "d"}
_QUIET: Final = ("Arn", "CreationDate", "LastModificationDate", "Name", "GroupName", "ResponseMetadata", "EventBusName",
                 "State", "Description", "ScheduleExpression", "ScheduleExpressionTimezone", "StartDate", "EndDate",
                 "FlexibleTimeWindow", "Target", "CreatedBy", "RoleArn")  # fmt: skip
_LOST: Final = {
    "KmsKeyArn": "KmsKeyArn: payloads are not encrypted with a key of yours here",
    "ActionAfterCompletion": "ActionAfterCompletion DELETE: a job that has ended is kept for a while, then forgotten",
    "ManagedBy": "ManagedBy: another service of AWS keeps this rule, and will go on doing so",
}


def read(text: str, wishes: Wishes) -> Imported:
    """The jobs of what the AWS command line printed. Raises InvalidInput for what is no JSON."""
    found = Imported(wishes, "EventBridge")
    found.defaults = wishes.spread()
    found.note("EventBridge calls at least once and tries again, as here; dead letters are kept by schedkit itself")
    for document in _documents(text):
        listed = document.get("Schedules", document.get("Rules", document))
        for schedule in listed if isinstance(listed, list) else [listed]:
            try:
                _schedule(found, schedule)
            except (AttributeError, TypeError, ValueError) as problem:  # a field is not what its kind should be
                found.leave("a schedule", str(schedule)[:80], f"malformed: {problem}")
    return found


def _documents(text: str) -> Iterator[Mapping[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as problem:
            raise _no_json(str(problem)) from problem
        if not isinstance(document, Mapping):
            raise _no_json("it holds no object")
        yield document


def _no_json(problem: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"this is not what aws prints: {problem}",
        fix=["aws scheduler get-schedule --name NAME --output json"],
        field="FILE",
    )


def _schedule(found: Imported, said: Mapping[str, Any]) -> None:
    name = str(said.get("Name") or "schedule")
    expression = said.get("ScheduleExpression")
    if expression is None:
        what = "it matches events, and has no time" if "EventPattern" in said else "it has no ScheduleExpression"
        hint = "" if "EventPattern" in said else f": list-schedules leaves it out, get-schedule --name {name} has it"
        found.leave(name, str(said.get("Arn", name)), what + hint)
        return
    zone = str(said.get("ScheduleExpressionTimezone") or found.wishes.tz or "UTC")
    notes: list[str] = []
    try:
        entry = _when(str(expression), zone, notes)
        if "at" not in entry:
            _bound(entry, said, zone, notes)
    except InvalidInput as refusal:
        found.leave(name, str(expression), refusal.detail)
        return
    window = said.get("FlexibleTimeWindow") or {}
    if window.get("Mode") == "FLEXIBLE":
        entry["window"] = f"{window.get('MaximumWindowInMinutes', 1)}m"
    if said.get("State") == "DISABLED":
        entry["paused"] = True
    if said.get("Description"):
        entry["description"] = str(said["Description"])
    if said.get("GroupName") not in (None, "default"):
        entry["labels"] = {"group": str(said["GroupName"])}
    if said.get("ActionAfterCompletion") == "NONE":
        said = {key: value for key, value in said.items() if key != "ActionAfterCompletion"}
    notes += [_LOST.get(key, f"{key} has no meaning here") for key in said if key not in _QUIET]
    entry |= _target(found, name, said.get("Target") or {}, notes)
    found.add(name, str(expression), name, entry, notes)


def _when(expression: str, zone: str, notes: list[str]) -> dict[str, Any]:
    call = _CALL.fullmatch(expression)
    if call is None:
        raise dialects.recognised(expression) or InvalidInput(
            Reason.INVALID_CRON, f"{expression} is neither cron(...), rate(...) nor at(...)"
        )
    kind, inside = call[1].lower(), call[2]
    if kind == "at":
        return {"at": inside.strip(), "tz": zone}
    if kind == "rate":
        rate = _RATE.fullmatch(inside)
        if rate is None:
            raise InvalidInput(Reason.INVALID_CRON, f"{expression} is no rate that EventBridge knows")
        notes.append("a rate counts from the moment the job is made, as it did there: its minute changes")
        return {"every": f"{rate[1]}{_UNITS[rate[2].lower()]}"}
    return _cron(inside.split(), zone, notes)


def _cron(fields: list[str], zone: str, notes: list[str]) -> dict[str, Any]:
    bounds: dict[str, str] = {}
    if len(fields) == 6 and fields[5] not in ("*", "?"):
        years = _YEARS.fullmatch(fields[5])
        if years is None:
            raise InvalidInput(Reason.INVALID_CRON, f"the years {fields[5]} are no single year and no plain range")
        first, last = int(years[1]), int(years[2] or years[1])
        bounds = {"start": f"{first}-01-01T00:00:00", "end": f"{last + 1}-01-01T00:00:00"}
        notes.append(f"the year {fields[5]} became start and end")
    unix = dialects.convert(f"cron({' '.join([*fields[:5], '*'])})", "eventbridge", "unix")
    entry = {"cron": unix, "tz": zone, **bounds}
    if zone not in ("UTC", "Etc/UTC") and "*" not in unix.split()[1]:
        entry["dst_gap"] = "skip"
        notes.append("a time that clocks going forward leave out is skipped there, so dst_gap: skip")
    return entry


def _bound(entry: dict[str, Any], said: Mapping[str, Any], zone: str, notes: list[str]) -> None:
    """StartDate and EndDate, beside the years of the expression. Raises InvalidInput for what is no time."""
    for key, bound, tighter in (("start", "StartDate", max), ("end", "EndDate", min)):
        if said.get(bound) is None:
            continue
        text = str(said[bound])
        try:
            at = rfc3339(_instant(text))
        except (ValueError, OverflowError) as problem:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{bound}: {text} is no time: {problem}") from problem
        if not _EPOCH.fullmatch(text) and not has_offset(text):
            notes.append(f"{bound} {text} has no offset and is read in UTC, as AWS does")
        entry[key] = tighter(entry.get(key, at), at, key=lambda one: parse_rfc3339(scalars.instant(one, zone)))


def _instant(text: str) -> Instant:
    """A time as the versions of the AWS command line print it: with an offset, in UTC without one, or as seconds."""
    if _EPOCH.fullmatch(text):
        return round(float(text) * SECOND_MS)
    return parse_rfc3339(text if has_offset(text) else f"{text}Z")


def _target(found: Imported, name: str, target: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    arn = str(target.get("Arn") or "")
    queue = re.sub(r"[^A-Za-z0-9._-]", "-", re.split(r"[:/]", arn)[-1] or name).lstrip("-._") or "eventbridge"
    entry: dict[str, Any] = dict(found.wishes.place(queue))
    if found.wishes.target is None:
        what = arn or "its targets, which list-rules leaves out,"
        notes.append(f"{what} cannot be called from here: a worker on the queue {queue} has to, or say --target")
    if "Input" in target:
        text = str(target["Input"])
        try:
            entry["payload"] = json.loads(text)
        except ValueError:
            entry["payload"] = text
        if "<aws.scheduler." in text:
            notes.append("<aws.scheduler...> in Input is not replaced; each run has its own Idempotency-Key")
    retry = target.get("RetryPolicy") or {}
    attempts = int(retry.get("MaximumRetryAttempts", AWS_ATTEMPTS)) + 1
    if attempts > MAX_ATTEMPTS:
        notes.append(f"{attempts} tries became {MAX_ATTEMPTS}, the most there are here")
    entry["retry"] = {"max_attempts": min(attempts, MAX_ATTEMPTS), "backoff": "10s..15m"}
    if "MaximumEventAgeInSeconds" in retry:
        notes.append(f"tries do not end after {retry['MaximumEventAgeInSeconds']} s, but after their number")
    if target.get("DeadLetterConfig"):
        notes.append("DeadLetterConfig: failed runs are dead letters of schedkit's, not messages of your queue")
    known = ("Arn", "RoleArn", "Input", "RetryPolicy", "DeadLetterConfig")
    notes.extend(f"Target.{key} has no meaning here" for key in target if key not in known)
    return entry
