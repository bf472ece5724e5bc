"""From model values to the JSON that goes out: RFC 3339 times, seconds, the field names of the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from schedkit.api.dead_out import DeadLetterOut, RedriveOut
from schedkit.api.jobs_out import (
    BoundsOut,
    CronOut,
    HttpTargetOut,
    IntervalOut,
    JobOut,
    OccurrenceOut,
    OnceOut,
    RetryOut,
    ScheduleOut,
    TargetOut,
)
from schedkit.api.ops_out import KeyOut, KeyState, RecordOut
from schedkit.api.past_out import BackfillOut
from schedkit.api.runs_out import AttemptOut, RecentRunOut, RunOut
from schedkit.api.target_auth import auth_out
from schedkit.engine.when import zones
from schedkit.engine.when.window import dispatch_at
from schedkit.model.access import ApiKey
from schedkit.model.audit import Record
from schedkit.model.events import Event
from schedkit.model.jobs import Job, JobStatus, RetryPolicy, Target, TaskTarget
from schedkit.model.keys import run_id
from schedkit.model.redrives import DeadFilter, PastRange, Redrive
from schedkit.model.runs import Attempt, Run
from schedkit.model.schedules import Cron, Interval, Occurrence, Once, Schedule
from schedkit.model.time import SECOND_MS, Instant, rfc3339
from schedkit.model.writes import Item


def next_run(job: Job) -> Instant | None:
    """When it runs next; None where it is paused, has ended, or waits for its last run."""
    return job.next_run_at if job.status is JobStatus.SCHEDULED else None


def job_out(job: Job, registered: Mapping[str, str]) -> JobOut:
    """A job as the API shows it. A paused job has no next run; `registered` says where a target_id leads now."""
    next_run_at = next_run(job)
    return {
        "job_id": job.job_id,
        "tenant_id": job.tenant_id,
        "team_id": job.team_id,
        "name": job.name,
        "description": job.description,
        "status": job.status.value,
        "status_reason": job.status_reason,
        "schedule": schedule_out(job.schedule),
        "target": target_out(job.target, registered),
        "payload": json.loads(job.payload) if job.payload is not None else None,
        "priority": job.priority.value,
        "dispatch_window_seconds": seconds(job.window_ms),
        "retry_policy": retry_out(job.retry),
        "misfire_policy": job.misfire.value,
        "misfire_grace_seconds": seconds(job.misfire_grace_ms),
        "overlap_policy": job.overlap.value,
        "delivery": job.delivery.value,
        "region_policy": job.region_policy.value,
        "labels": dict(job.labels),
        "max_runs": job.max_runs,
        "expires_after_seconds": seconds(job.expires_after_ms) if job.expires_after_ms is not None else None,
        "next_run_at": time_out(next_run_at),
        "next_run_local": local_out(job.schedule, next_run_at) if next_run_at is not None else None,
        "dispatch_at": time_out(dispatch_at(job, next_run_at)) if next_run_at is not None else None,
        "adjusted": bool(job.notes),
        "notes": list(job.notes),
        "run_count": job.run_count,
        "last_run_at": time_out(job.last_run),
        "held_run_at": time_out(job.held),
        "paused_until": time_out(job.paused_until),
        "pause_reason": job.pause_reason,
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
        "version": job.version,
        "managed_by": job.managed_by,
        "applied_version": job.applied_version,
    }


def run_out(run: Run) -> RunOut:
    """A run as the API shows it. `lag_ms` is the first attempt's: its start - (scheduled_for + offset)."""
    first = run.attempts[0] if run.attempts else None
    return {
        "run_id": run_id(run.job_id, run.scheduled_for),
        "job_id": run.job_id,
        "job_name": run.job_name,
        "target_id": run.target_id,
        "task_queue": run.task_queue,
        "task_type": run.task_type,
        "tenant_id": run.tenant_id,
        "team_id": run.team_id,
        "scheduled_for": rfc3339(run.scheduled_for),
        "status": run.status.value,
        "reason": run.reason,
        "epoch": run.epoch,
        "attempt": run.attempt,
        "priority": run.priority.value,
        "lease_owner": run.lease_owner,
        "lease_expires_at": time_out(run.lease_expires_at),
        "not_before": time_out(run.not_before),
        "cancel_requested": run.cancel_requested,
        "triggered": run.triggered,
        "backfilled": run.backfilled,
        "misfired": run.misfired,
        "attempts": [attempt_out(attempt) for attempt in run.attempts],
        "progress": json.loads(run.progress) if run.progress is not None else None,
        "result": run.result,
        "started_at": time_out(first.started_at if first else None),
        "finished_at": time_out(run.finished_at),
        "lag_ms": first.lag_ms if first else None,
        "series": run.series,
        "redrive_id": run.redrive_id,
        "dropped_at": time_out(run.dropped_at),
        "resolved_at": time_out(run.resolved_at),
        "note": run.note,
    }


def dead_letter_out(run: Run) -> DeadLetterOut:
    """A dead letter in a list: the run, how it failed last, and when."""
    last = run.attempts[-1] if run.attempts else None
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "job_name": run.job_name,
        "target_id": run.target_id,
        "tenant_id": run.tenant_id,
        "team_id": run.team_id,
        "scheduled_for": rfc3339(run.scheduled_for),
        "status": run.status.value,
        "reason": run.reason,
        "error": last.error if last else None,
        "http_status": last.http_status if last else None,
        "attempt": run.attempt,
        "attempts_made": len(run.attempts),
        "series": run.series,
        "epoch": run.epoch,
        "redrive_id": run.redrive_id,
        "failed_at": time_out(run.finished_at),
    }


def redrive_out(redrive: Redrive) -> RedriveOut:
    """A redrive as the API shows it: what was asked for, and how far it has come. Without a team it is of them all."""
    dead = redrive.filter
    assert isinstance(dead, DeadFilter), "a backfill is shown as what it is"
    return {
        "redrive_id": redrive.redrive_id,
        "tenant_id": redrive.tenant_id,
        "team_id": dead.team_id,
        "state": redrive.state.value,
        "state_reason": redrive.state_reason,
        "paused_from": redrive.paused_from.value if redrive.paused_from else None,
        "filter": {
            "target_id": dead.target_id,
            "job_id": dead.job_id,
            "reason": dead.reason,
            "failed_after": time_out(dead.failed_after),
            "failed_before": time_out(dead.failed_before),
            "run_ids": list(dead.run_ids),
        },
        "max_per_second": redrive.max_per_second,
        "canary": redrive.canary,
        "canary_runs": list(redrive.first),
        "goes_on": redrive.goes_on,
        "include_unknown": redrive.include_unknown,
        "limit": redrive.limit,
        "total": redrive.total,
        "redriven": redrive.redriven,
        "open": len(redrive.open),
        "succeeded": redrive.succeeded,
        "failed": redrive.failed,
        "cancelled": redrive.cancelled,
        "skipped": dict(redrive.skipped),
        "owner": redrive.owner,
        "note": redrive.note,
        "created_at": rfc3339(redrive.created_at),
        "updated_at": rfc3339(redrive.updated_at),
        "finished_at": time_out(redrive.finished_at),
    }


def backfill_out(backfill: Redrive, job_name: str | None) -> BackfillOut:
    """A backfill as the API shows it: what was asked for, and how far it has come."""
    past = backfill.filter
    assert isinstance(past, PastRange), "a redrive is shown as what it is"
    return {
        "backfill_id": backfill.redrive_id,
        "tenant_id": backfill.tenant_id,
        "team_id": past.team_id,
        "job_id": past.job_id,
        "job_name": job_name,
        "from": rfc3339(past.since),
        "to": rfc3339(past.until),
        "order": past.order.value,
        "one_by_one": past.one_by_one,
        "max_per_second": backfill.max_per_second,
        "state": backfill.state.value,
        "state_reason": backfill.state_reason,
        "occurrences": past.occurrences,
        "total": backfill.total,
        "left": dict(backfill.skipped),
        "started": backfill.redriven,
        "open": len(backfill.open),
        "succeeded": backfill.succeeded,
        "failed": backfill.failed,
        "cancelled": backfill.cancelled,
        "owner": backfill.owner,
        "note": backfill.note,
        "created_at": rfc3339(backfill.created_at),
        "updated_at": rfc3339(backfill.updated_at),
        "finished_at": time_out(backfill.finished_at),
    }


def recent_run_out(run: Run) -> RecentRunOut:
    """A run in a job's `recent_runs`: one line of it."""
    last = run.attempts[-1] if run.attempts else None
    return {
        "run_id": run_id(run.job_id, run.scheduled_for),
        "scheduled_for": rfc3339(run.scheduled_for),
        "status": run.status.value,
        "outcome": run.status.value,
        "reason": run.reason,
        "attempt": run.attempt,
        "epoch": run.epoch,
        "http_status": last.http_status if last else None,
        "error": last.error if last else None,
        "finished_at": time_out(run.finished_at),
    }


def attempt_out(attempt: Attempt) -> AttemptOut:
    return {
        "attempt": attempt.attempt,
        "epoch": attempt.epoch,
        "started_at": rfc3339(attempt.started_at),
        "finished_at": time_out(attempt.finished_at),
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "http_status": attempt.http_status,
        "error": attempt.error,
        "lag_ms": attempt.lag_ms,
    }


def schedule_out(schedule: Schedule) -> ScheduleOut:
    match schedule:
        case Once():
            once: OnceOut = {"type": "ONCE", "run_at": schedule.text}
            if schedule.time_zone is not None:
                once["time_zone"] = schedule.time_zone
                once["dst_gap_policy"], once["dst_overlap_policy"] = schedule.gap.value, schedule.repeat.value
            return once
        case Cron():
            cron: CronOut = {
                "type": "CRON",
                "cron": schedule.expression,
                "time_zone": schedule.time_zone,
                "dst_gap_policy": schedule.gap.value,
                "dst_overlap_policy": schedule.repeat.value,
                "day_rule": schedule.day_rule.value,
            }
            return {**cron, **_bounds(schedule)}
        case Interval():
            interval: IntervalOut = {
                "type": "INTERVAL",
                "every_seconds": seconds(schedule.every_ms),
                "anchor_at": rfc3339(schedule.anchor_at),
            }
            return {**interval, **_bounds(schedule)}


def occurrence_out(occurrence: Occurrence, start_at: Instant) -> OccurrenceOut:
    return {
        "scheduled_for": rfc3339(occurrence.scheduled_for),
        "local": occurrence.local,
        "dispatch_at": rfc3339(start_at),
        "notes": list(occurrence.notes),
    }


def target_out(target: Target, registered: Mapping[str, str]) -> TargetOut:
    if isinstance(target, TaskTarget):
        return {
            "type": "TASK_QUEUE",
            "task_queue": target.task_queue,
            "task_type": target.task_type,
            "lease_seconds": seconds(target.lease_ms),
            "timeout_seconds": seconds(target.timeout_ms) if target.timeout_ms is not None else None,
        }
    shown: HttpTargetOut = {
        "type": "HTTP",
        "url": target.url_under(registered),
        "method": target.method,
        "timeout_seconds": seconds(target.timeout_ms),
        "headers": dict(target.headers),
    }
    if target.target_id is not None:
        shown["target_id"], shown["path"] = target.target_id, target.path
    if target.auth is not None:
        shown["auth"] = auth_out(target.auth)
    return shown


def retry_out(retry: RetryPolicy) -> RetryOut:
    return {
        "max_attempts": retry.max_attempts,
        "initial_backoff_seconds": seconds(retry.initial_backoff_ms),
        "max_backoff_seconds": seconds(retry.max_backoff_ms),
    }


def local_out(schedule: Schedule, at: Instant) -> str:
    """An instant on the wall clock of its schedule's zone."""
    name = None if isinstance(schedule, Interval) else schedule.time_zone
    return zones.local_text(zones.zone(name or "UTC"), at)


def time_out(at: Instant | None) -> str | None:
    return rfc3339(at) if at is not None else None


def seconds(duration_ms: int) -> int | float:
    whole, rest = divmod(duration_ms, SECOND_MS)
    return whole if rest == 0 else duration_ms / SECOND_MS


def _bounds(schedule: Cron | Interval) -> BoundsOut:
    bounds: BoundsOut = {}
    if schedule.start_at is not None:
        bounds["start_at"] = rfc3339(schedule.start_at)
    if schedule.end_at is not None:
        bounds["end_at"] = rfc3339(schedule.end_at)
    return bounds


def key_out(key: ApiKey, now: Instant) -> KeyOut:
    """An API key as the API shows it: neither its text nor its hash."""
    state = KeyState.REVOKED if key.revoked_at is not None else KeyState.LIVE if key.live(now) else KeyState.EXPIRED
    return {
        "key_id": key.key_id,
        "name": key.name,
        "tenant_id": key.tenant_id,
        "team_id": key.team_id,
        "role": key.role.value,
        "state": state.value,
        "created_at": rfc3339(key.created_at),
        "created_by": key.created_by,
        "expires_at": time_out(key.valid_until),
        "revoked_at": time_out(key.revoked_at),
        "last_used_at": time_out(key.last_used_at),
        "version": key.version,
    }


def event_out(event: Event) -> dict[str, Any]:
    """An event as a stream shows it."""
    said: dict[str, Any] = {"kind": event.kind.value, "what": event.what, "at": rfc3339(event.at)}
    said |= {"subject": event.subject, "who": event.who, "team_id": event.team_id}
    return said | {name: value for name, value in event.facts.items() if value is not None and name != "final"}


def record_out(item: Item) -> RecordOut:
    """An audit record as the API shows it: everything that its hash covers, and the hash as it is stored."""
    record = Record.of(item)
    optional: dict[str, Any] = {"key_id": None, "before": None, "after": None, "given": None, "resources": []}
    said = optional | record.content
    said |= {"at": rfc3339(record.at), "resources": list(record.entry.resources), "hash": item["hash"]}
    return cast(RecordOut, said)
