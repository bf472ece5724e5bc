"""What a server answers: one of each document, as the command line's tests expect it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from schedkit.model.audit import Entry, Record, Recorded, Tip
from schedkit.model.time import rfc3339

JOB_ID = "job_01J9ZK8V4T6Q"
REDRIVE_ID = "rd_01J9ZK8V4T6Q"
RUN_ID = f"{JOB_ID}:2026-09-28T12:00:00Z"

JOB: dict[str, Any] = {
    "job_id": JOB_ID,
    "tenant_id": "default",
    "name": "digest",
    "description": None,
    "status": "SCHEDULED",
    "status_reason": None,
    "schedule": {
        "type": "CRON",
        "cron": "0 8 * * *",
        "time_zone": "America/New_York",
        "dst_gap_policy": "FIRST_VALID",
        "dst_overlap_policy": "FIRST",
        "day_rule": "OR",
    },
    "target": {
        "url": "https://email.example/" + "digests/" * 9,
        "method": "POST",
        "timeout_seconds": 30,
        "headers": {},
    },
    "payload": {"kind": "daily"},
    "priority": "DEFAULT",
    "dispatch_window_seconds": 0,
    "retry_policy": {"max_attempts": 5, "initial_backoff_seconds": 10, "max_backoff_seconds": 600},
    "misfire_policy": "RUN_ONCE",
    "misfire_grace_seconds": 60,
    "overlap_policy": "ALLOW",
    "delivery": "AT_LEAST_ONCE",
    "region_policy": "HOME_ASYNC",
    "labels": {},
    "max_runs": None,
    "expires_after_seconds": None,
    "next_run_at": "2099-09-28T12:00:00Z",
    "next_run_local": "2099-09-28T08:00:00-04:00",
    "paused_until": None,
    "pause_reason": None,
    "adjusted": False,
    "notes": [],
    "run_count": 3,
    "created_at": "2026-09-01T00:00:00Z",
    "updated_at": "2026-09-01T00:00:00Z",
    "version": 7,
}
RUN: dict[str, Any] = {
    "run_id": RUN_ID,
    "job_id": JOB_ID,
    "job_name": "digest",
    "scheduled_for": "2026-09-28T12:00:00Z",
    "status": "SUCCEEDED",
    "reason": None,
    "epoch": 1,
    "attempt": 1,
    "priority": "DEFAULT",
    "lease_owner": None,
    "lease_expires_at": None,
    "not_before": None,
    "cancel_requested": False,
    "triggered": False,
    "misfired": False,
    "attempts": [
        {
            "attempt": 1,
            "epoch": 1,
            "started_at": "2026-09-28T12:00:00.003Z",
            "finished_at": "2026-09-28T12:00:00.007Z",
            "outcome": "SUCCEEDED",
            "http_status": 200,
            "error": None,
            "lag_ms": 3,
        }
    ],
    "result": "done",
    "started_at": "2026-09-28T12:00:00.003Z",
    "finished_at": "2026-09-28T12:00:00.007Z",
    "lag_ms": 3,
    "series": 1,
    "redrive_id": None,
    "dropped_at": None,
    "resolved_at": None,
    "note": None,
}
DEAD: dict[str, Any] = {
    "run_id": RUN_ID,
    "job_id": JOB_ID,
    "job_name": "digest",
    "target_id": "reports_rollup",
    "tenant_id": "default",
    "team_id": "default",
    "scheduled_for": "2026-09-28T12:00:00Z",
    "status": "FAILED",
    "reason": "ATTEMPTS_EXHAUSTED",
    "error": "the target answered 504; attempt 5 of 5",
    "http_status": 504,
    "attempt": 5,
    "attempts_made": 5,
    "series": 1,
    "epoch": 5,
    "redrive_id": None,
    "failed_at": "2026-09-28T12:03:00Z",
}
PLAN: dict[str, Any] = {
    "total": 1_180,
    "oldest": "2026-09-28T23:09:00Z",
    "newest": "2026-09-28T23:40:00Z",
    "causes": [{"error": "the target answered 504", "count": 1_174}, {"error": "connection reset", "count": 6}],
    "unknown": 0,
    "skipped": {},
    "complete": True,
    "notes": [],
    "max_per_second": 50,
    "canary": 5,
    "include_unknown": False,
    "limit": None,
    "seconds": 24,
}
REDRIVE: dict[str, Any] = {
    "redrive_id": REDRIVE_ID,
    "tenant_id": "default",
    "team_id": None,
    "state": "DONE",
    "state_reason": None,
    "paused_from": None,
    "filter": {"target_id": "reports_rollup"},
    "max_per_second": 50,
    "canary": 5,
    "canary_runs": [RUN_ID],
    "goes_on": True,
    "include_unknown": False,
    "limit": None,
    "total": 1_180,
    "redriven": 1_180,
    "open": 0,
    "succeeded": 1_180,
    "failed": 0,
    "cancelled": 0,
    "skipped": {},
    "owner": None,
    "note": None,
    "created_at": "2026-09-28T23:41:00Z",
    "updated_at": "2026-09-28T23:41:30Z",
    "finished_at": "2026-09-28T23:41:30Z",
}
BACKFILL_ID = "bf_01J9ZK8V4T6Q"
BACKFILL_PLAN: dict[str, Any] = {
    "job_id": JOB_ID,
    "job_name": "digest",
    "from": "2026-09-21T12:00:00Z",
    "to": "2026-09-28T12:00:00Z",
    "order": "oldest",
    "one_by_one": False,
    "occurrences": 168,
    "total": 24,
    "starts": {"MISFIRED": 20, "NO_RECORD": 4},
    "left": {"RAN_ALREADY": 143, "FAILED_ALREADY": 1},
    "max_per_second": 2,
    "seconds": 12,
    "notes": [],
}
BACKFILL: dict[str, Any] = {
    "backfill_id": BACKFILL_ID,
    "tenant_id": "default",
    "team_id": "default",
    "job_id": JOB_ID,
    "job_name": "digest",
    "from": "2026-09-21T12:00:00Z",
    "to": "2026-09-28T12:00:00Z",
    "order": "oldest",
    "one_by_one": False,
    "max_per_second": 2,
    "state": "DONE",
    "state_reason": None,
    "occurrences": 168,
    "total": 24,
    "left": {"RAN_ALREADY": 143, "FAILED_ALREADY": 1},
    "started": 24,
    "open": 0,
    "succeeded": 24,
    "failed": 0,
    "cancelled": 0,
    "owner": None,
    "note": None,
    "created_at": "2026-09-28T12:00:00Z",
    "updated_at": "2026-09-28T12:00:13Z",
    "finished_at": "2026-09-28T12:00:13Z",
}
LEDGER: dict[str, Any] = {
    "job_id": JOB_ID,
    "name": "digest",
    "since": "2026-09-27T12:00:00Z",
    "until": "2026-09-28T12:00:00Z",
    "known_from": "2026-09-01T00:00:00Z",
    "expected": 24,
    "ran": 20,
    "late": 1,
    "cancelled": 0,
    "skipped": {"OVERLAP": 2},
    "missed": {"MISFIRED": 1},
    "waiting": 0,
    "unaccounted": 0,
    "unaccounted_times": [],
    "beside": 0,
    "balanced": True,
    "notes": [],
}
KEY_ID = "0Ab3dEf6hIj9kL"
API_KEY: dict[str, Any] = {
    "key_id": KEY_ID,
    "name": "deploy",
    "tenant_id": "default",
    "team_id": "payments",
    "role": "operator",
    "state": "LIVE",
    "created_at": "2026-09-01T00:00:00Z",
    "created_by": None,
    "expires_at": "2099-09-01T00:00:00Z",
    "revoked_at": None,
    "last_used_at": None,
    "version": 1,
}
SECRET = "sk_dev_0Ab3dEf6hIj9kL_" + "x" * 49
SNAPSHOT: dict[str, Any] = {
    "version": "0.1.0",
    "profile": "embedded",
    "node": "node-1",
    "now": "2026-09-28T12:00:00Z",
    "uptime_seconds": 90,
    "data": "./.schedkit/dev.db",
    "store": {"ok": True, "detail": ""},
    "jobs": {"SCHEDULED": 5, "PAUSED": 1},
    "lag": {"p50_ms": 3, "p99_ms": 6, "max_ms": 9, "window_seconds": 300, "runs": 14},
    "queues": {"CRITICAL": {"ready": 0, "running": 1}, "DEFAULT": {"ready": 2, "running": 0}},
    "runs_per_minute": {"SUCCEEDED": 12, "FAILED": 0},
    "dead_letters": 0,
    "alerts": [],
}
EVENT: dict[str, Any] = {
    "kind": "run",
    "what": "settle SUCCEEDED",
    "at": "2026-09-28T12:00:00.007Z",
    "subject": RUN_ID,
    "who": None,
    "team_id": "default",
    "job_name": "digest",
    "status": "SUCCEEDED",
    "epoch": 1,
    "attempt": 1,
}
LEASE: dict[str, Any] = EVENT | {"kind": "lease", "what": "claim", "who": "machine-7", "status": "RUNNING"}


def sse(*frames: tuple[str, Any]) -> str:
    """A stream that ends: (event, document) each."""
    return "".join(f"id: b-{n}\nevent: {name}\ndata: {json.dumps(doc)}\n\n" for n, (name, doc) in enumerate(frames))


EVENTS = ": a comment\n\n" + sse(("hello", {"boot": "b"}), ("event", LEASE), ("event", EVENT))
TASK: dict[str, Any] = {
    "run_id": RUN_ID,
    "job_id": JOB_ID,
    "job_name": "digest",
    "task_queue": "ledger",
    "task_type": None,
    "scheduled_for": "2026-09-28T12:00:00Z",
    "epoch": 1,
    "attempt": 1,
    "lease_expires_at": "2026-09-28T12:00:30Z",
    "heartbeat_every_seconds": 10.0,
    "deadline": None,
    "payload": {"kind": "daily"},
    "previous_progress": None,
    "idempotency_key": RUN_ID,
}
WORKER: dict[str, Any] = {
    "worker_id": "machine-7",
    "task_queues": ["ledger"],
    "held": 1,
    "first_seen_at": "2026-09-28T11:00:00Z",
    "last_seen_at": "2026-09-28T12:00:00Z",
}
OCCURRENCES: dict[str, Any] = {
    "occurrences": [
        {
            "scheduled_for": "2099-09-28T12:00:00Z",
            "local": "2099-09-28T08:00:00-04:00",
            "dispatch_at": "2099-09-28T12:02:41Z",
            "notes": ["01:30 happens twice this day (clocks go back): runs once, the first time"],
        }
    ]
}


def records(*actions: str) -> list[dict[str, Any]]:
    """Audit records of these actions as the API shows them, newest first, in one chain."""
    tip, shown = Tip(), []
    for number, action in enumerate(actions or ("create_job", "pause_job"), start=1):
        entry = Entry("default", "payments", "operator", action, JOB_ID, Recorded.DONE, f"req_{number}", "127.0.0.1")
        record = Record(entry, 0, tip.seq + 1, 1_790_000_000_000 + number, tip.hash)
        tip = record.tip
        shown.append({**record.content, "at": rfc3339(record.at), "hash": record.hash})
    return shown[::-1]


def page(*items: Mapping[str, Any], cursor: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "next_cursor": cursor}


def problem(status: int, reason: str, **rest: Any) -> dict[str, Any]:
    doc = {"type": "about:blank", "title": reason, "status": status, "detail": f"it is {reason}", "reason": reason}
    return {**doc, "request_id": "req_8f2a", **rest}
