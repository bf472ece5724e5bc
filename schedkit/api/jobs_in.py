"""From bodies to jobs: everything a job must satisfy before it is stored ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from schedkit.api import bodies, strict_json
from schedkit.api.target_auth import auth_in, auth_out
from schedkit.engine.addresses import check_url
from schedkit.engine.when import occurrences
from schedkit.engine.when.zones import TZDATA_VERSION
from schedkit.errors import InvalidInput, NotFound, Reason, TooLarge
from schedkit.model.access import Caller
from schedkit.model.jobs import MAX_PAYLOAD_BYTES, HttpTarget, Job, JobStatus, RetryPolicy, Target, TaskTarget
from schedkit.model.names import MAX_NAME_CHARS, NAME_RULE, may_be_name
from schedkit.model.schedules import Cron, Interval, Once, Schedule
from schedkit.model.time import MAX_INSTANT, SECOND_MS, Instant, parse_rfc3339
from schedkit.ports import World

RESERVED_HEADERS: Final = frozenset({
    "connection", "content-length", "expect", "host", "idempotency-key", "keep-alive", "proxy-authorization",
    "proxy-connection", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "webhook-id",
    "webhook-signature", "webhook-timestamp", "x-attempt", "x-fencing-token",
})  # fmt: skip

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def schedule_in(body: bodies.ScheduleBody, now: Instant) -> tuple[Schedule, tuple[str, ...]]:
    """The schedule and what was adjusted in it. Raises InvalidInput for one that can never be kept."""
    notes: tuple[str, ...] = ()
    schedule: Schedule
    match body:
        case bodies.OnceBody():
            schedule, _, notes = occurrences.resolve_once(
                body.run_at, body.time_zone, body.dst_gap_policy, body.dst_overlap_policy
            )
            if schedule.run_at < 0:
                raise InvalidInput(Reason.RUN_AT_IN_PAST, f"{body.run_at} lies before 1970", field="schedule.run_at")
        case bodies.CronBody():
            schedule = Cron(
                body.cron,
                body.time_zone,
                body.dst_gap_policy,
                body.dst_overlap_policy,
                body.day_rule,
                start_at=instant_in(body.start_at, "schedule.start_at"),
                end_at=instant_in(body.end_at, "schedule.end_at"),
            )
        case bodies.IntervalBody():
            anchor = instant_in(body.anchor_at, "schedule.anchor_at")
            schedule = Interval(
                milliseconds(body.every_seconds),
                now if anchor is None else anchor,
                start_at=instant_in(body.start_at, "schedule.start_at"),
                end_at=instant_in(body.end_at, "schedule.end_at"),
            )
    if not isinstance(schedule, Once) and (schedule.start_at or 0) >= (schedule.end_at or MAX_INSTANT):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "end_at must be later than start_at", field="schedule.end_at")
    return schedule, notes


def job_in(body: bodies.JobCreate, job_id: str, caller: Caller, world: World, now: Instant) -> Job:
    """The job that this body asks for, with its first occurrence."""
    schedule, notes = schedule_in(body.schedule, now)
    job = Job(
        job_id=job_id,
        schedule=schedule,
        target=target_in(body.target, world),
        created_at=now,
        updated_at=now,
        tenant_id=caller.tenant_id,
        team_id=caller.team_id,
        name=name_in(body.name),
        description=body.description,
        payload=payload_in(body.payload) if "payload" in body.model_fields_set else None,
        priority=body.priority,
        window_ms=body.dispatch_window_seconds * SECOND_MS,
        retry=retry_in(body.retry_policy),
        misfire=body.misfire_policy,
        misfire_grace_ms=body.misfire_grace_seconds * SECOND_MS,
        overlap=body.overlap_policy,
        delivery=body.delivery,
        region_policy=body.region_policy,
        labels=labels_in(body.labels),
        max_runs=body.max_runs,
        expires_after_ms=body.expires_after_seconds * SECOND_MS if body.expires_after_seconds else None,
        notes=notes,
        status=JobStatus.PAUSED if body.paused else JobStatus.SCHEDULED,
        paused_at=now if body.paused else None,
        managed_by=body.managed_by,
        applied_version=body.applied_version,
    )
    return scheduled(startable(job), now)


def startable(job: Job) -> Job:
    """Raises InvalidInput for a job whose every run would expire before its place in the window."""
    if job.expires_after_ms is not None and job.window_ms and job.expires_after_ms <= job.window_ms:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "expires_after_seconds must be longer than dispatch_window_seconds",
            field="expires_after_seconds",
            why="a run may start anywhere in its window, and one that has expired does not start",
        )
    return job


def scheduled(job: Job, now: Instant) -> Job:
    """The job with where its schedule counts from and its first occurrence. Raises InvalidInput where there is none."""
    if isinstance(job.schedule, Once):
        occurrences.refuse_past(job.schedule, now)
        counted_from = min(now, job.schedule.run_at - 1)
    else:
        counted_from = now  # so an interval without an anchor first runs one interval from now
    occurrences.check(job.schedule, counted_from)
    first = occurrences.next_after(job.schedule, counted_from)
    assert first is not None, "check refuses a schedule with no occurrence"
    return replace(
        job,
        counted_from=counted_from,
        known_since=counted_from,
        next_run_at=first.scheduled_for,
        zone_data=TZDATA_VERSION,
    )


def job_changed(job: Job, patch: bodies.JobPatch, world: World, now: Instant) -> Job:
    """The job as it would be after this patch: the given fields changed, every other one as it was."""
    given = patch.model_fields_set
    changes: dict[str, Any] = {}
    for name in ("schedule", "target", "priority", "retry_policy", "misfire_policy", "overlap_policy", "delivery",
                 "region_policy", "dispatch_window_seconds", "misfire_grace_seconds"):  # fmt: skip
        if name in given and getattr(patch, name) is None:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{name} cannot be taken away", field=name)
    if patch.schedule is not None:
        schedule, notes = schedule_in(patch.schedule, now)
        if isinstance(schedule, Interval) and isinstance(job.schedule, Interval) and patch.schedule.anchor_at is None:  # type: ignore[union-attr]
            schedule = replace(schedule, anchor_at=job.schedule.anchor_at)
        if schedule != job.schedule:
            changes |= {"schedule": schedule, "notes": notes}
            scheduled(replace(job, schedule=schedule), now)  # refuses what can never run
    if patch.target is not None:
        changes["target"] = target_changed(job.target, patch.target, world)
    if patch.retry_policy is not None:
        changes["retry"] = _retry_changed(job.retry, patch.retry_policy)
    if "payload" in given:
        changes["payload"] = payload_in(patch.payload) if patch.payload is not None else None
    if "name" in given:
        changes["name"] = name_in(patch.name)
    if "labels" in given:
        changes["labels"] = labels_in(patch.labels or {})
    if patch.dispatch_window_seconds is not None:
        changes["window_ms"] = patch.dispatch_window_seconds * SECOND_MS
    if patch.misfire_grace_seconds is not None:
        changes["misfire_grace_ms"] = patch.misfire_grace_seconds * SECOND_MS
    if "expires_after_seconds" in given:
        expires = patch.expires_after_seconds
        changes["expires_after_ms"] = expires * SECOND_MS if expires is not None else None
    plain = {"misfire_policy": "misfire", "overlap_policy": "overlap"} | {
        name: name
        for name in (
            "description",
            "priority",
            "delivery",
            "region_policy",
            "max_runs",
            "managed_by",
            "applied_version",
        )
    }
    changes |= {attribute: getattr(patch, name) for name, attribute in plain.items() if name in given}
    return startable(replace(job, **changes))


def target_in(body: bodies.TargetBody | bodies.TaskTargetBody, world: World) -> Target:
    """Raises InvalidInput (TARGET_NOT_ALLOWED, INVALID_HEADER), NotFound (TARGET_NOT_FOUND)."""
    if isinstance(body, bodies.TaskTargetBody):
        timeout = body.timeout_seconds
        return TaskTarget(
            body.task_queue,
            body.task_type,
            lease_ms=milliseconds(body.lease_seconds),
            timeout_ms=milliseconds(timeout) if timeout is not None else None,
        )
    if (body.url is None) == (body.target_id is None):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "a target has either a url or a target_id", field="target")
    if body.url is not None:
        check_url(
            body.url,
            loopback_allowed=world.loopback_allowed,
            allowed_networks=world.allowed_networks,
            field="target.url",
        )
        if body.path:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "path goes with a target_id; a url has its own", field="target.path"
            )
    elif body.target_id not in world.registered:
        known = ", ".join(sorted(world.registered)) or "none"
        raise NotFound(
            Reason.TARGET_NOT_FOUND,
            f"there is no target {body.target_id!r} here; registered: {known}",
            field="target.target_id",
            fix=("give the target as a url",),
        )
    auth = auth_in(body.auth, world.secrets)
    if auth is not None and body.url is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "auth goes with a url; a registered target has its own", field="target.auth"
        )
    headers_in(body.headers)
    return HttpTarget(
        url=body.url,
        target_id=body.target_id,
        path=body.path,
        method=body.method,
        timeout_ms=milliseconds(body.timeout_seconds),
        headers=dict(body.headers),
        auth=auth,
    )


def target_changed(target: Target, patch: bodies.TargetPatch | bodies.TaskTargetPatch, world: World) -> Target:
    """The target with the given fields changed; a new url replaces a target_id, and the reverse.

    A target of the other kind replaces it whole: it says where it leads.
    """
    given: dict[str, Any] = {name: getattr(patch, name) for name in patch.model_fields_set}
    before: dict[str, Any]
    if isinstance(target, TaskTarget):
        leads = {"type", "url", "target_id"} & given.keys()
        if isinstance(patch, bodies.TargetPatch) and leads:
            return target_in(bodies.read(bodies.TargetBody, given), world)
        before = {
            "task_queue": target.task_queue,
            "task_type": target.task_type,
            "lease_seconds": target.lease_ms / SECOND_MS,
            "timeout_seconds": target.timeout_ms / SECOND_MS if target.timeout_ms is not None else None,
        }
        return target_in(bodies.read(bodies.TaskTargetBody, before | given), world)
    if isinstance(patch, bodies.TaskTargetPatch):
        return target_in(bodies.read(bodies.TaskTargetBody, given), world)
    before = {
        "url": target.url,
        "target_id": target.target_id,
        "path": target.path,
        "method": target.method,
        "timeout_seconds": target.timeout_ms / SECOND_MS,
        "headers": dict(target.headers),
        "auth": auth_out(target.auth) if target.auth is not None else None,
    }
    if given.get("url") is not None:
        before |= {"target_id": None, "path": ""}
    if given.get("target_id") is not None:
        before |= {"url": None, "auth": None}
    return target_in(bodies.read(bodies.TargetBody, before | given), world)


def headers_in(headers: Mapping[str, str]) -> None:
    """Raises InvalidInput (INVALID_HEADER) for what could not be sent, at creation rather than at each attempt."""
    if len(headers) > bodies.MAX_HEADERS:
        raise _header("…", f"there are {len(headers)} headers, and {bodies.MAX_HEADERS} at most can be kept")
    if len({name.lower() for name in headers}) < len(headers):
        raise _header(next(iter(headers)), "a header's name stands twice, in other letters")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise _header(name, f"{name!r} is not a header name")
        if name.lower() in RESERVED_HEADERS:
            raise _header(name, f"{name} is set by schedkit itself")
        if len(value) > bodies.MAX_HEADER_CHARS or not _HEADER_VALUE.fullmatch(value):
            raise _header(name, f"the value of {name} has characters that a header cannot carry, or too many")


def name_in(name: str | None) -> str | None:
    if name is not None and not may_be_name(name):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{name[:60]!r} cannot be a name", field="name", why=NAME_RULE)
    return name


def labels_in(labels: Mapping[str, str]) -> dict[str, str]:
    if len(labels) > bodies.MAX_LABELS:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{len(labels)} labels; {bodies.MAX_LABELS} at most", field="labels"
        )
    for key in labels:
        if not key or len(key) > MAX_NAME_CHARS or not key.isprintable() or "=" in key:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"{key[:60]!r} cannot be a label's key", field=f"labels.{key[:60]}"
            )
    return dict(labels)


def payload_in(value: Any) -> str:
    """The payload as JSON text. Raises TooLarge (PAYLOAD_TOO_LARGE) above 64 KiB of UTF-8."""
    text = strict_json.dumps(value)
    size = len(text.encode())
    if size > MAX_PAYLOAD_BYTES:
        raise TooLarge(
            Reason.PAYLOAD_TOO_LARGE,
            f"the payload has {size:,} bytes; {MAX_PAYLOAD_BYTES:,} at most",
            field="payload",
            fix=("store the data elsewhere and send a reference to it",),
        )
    return text


def retry_in(body: bodies.RetryPolicyBody) -> RetryPolicy:
    return RetryPolicy(
        body.max_attempts, milliseconds(body.initial_backoff_seconds), milliseconds(body.max_backoff_seconds)
    )


def _retry_changed(retry: RetryPolicy, body: bodies.RetryPolicyBody) -> RetryPolicy:
    wanted, given = retry_in(body), body.model_fields_set
    return RetryPolicy(
        wanted.max_attempts if "max_attempts" in given else retry.max_attempts,
        wanted.initial_backoff_ms if "initial_backoff_seconds" in given else retry.initial_backoff_ms,
        wanted.max_backoff_ms if "max_backoff_seconds" in given else retry.max_backoff_ms,
    )


def instant_in(text: str | None, field: str) -> Instant | None:
    """Raises InvalidInput (INVALID_ARGUMENT) for what is not RFC 3339 with Z or an offset."""
    if text is None:
        return None
    try:
        at = parse_rfc3339(text)
        if at < 0:
            raise ValueError("times before 1970 are not kept")
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{field}: {text[:40]!r} is not a time: {error}",
            field=field,
            fix=("write it as 2026-09-28T09:00:00Z",),
        ) from None
    return at


def milliseconds(seconds: float) -> int:
    return round(seconds * SECOND_MS)


def _header(name: str, why: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_HEADER, why, field=f"target.headers.{name[:60]}")
