"""Examples of what requests say, for the OpenAPI document. The tests send each of them."""

from __future__ import annotations

from typing import Any, Final

DIGEST: Final[dict[str, Any]] = {
    "name": "digest",
    "schedule": {"type": "CRON", "cron": "0 8 * * *", "time_zone": "America/New_York"},
    "target": {"type": "HTTP", "url": "https://email.example/digests", "timeout_seconds": 30},
    "payload": {"kind": "daily_digest"},
    "retry_policy": {"max_attempts": 5, "initial_backoff_seconds": 10, "max_backoff_seconds": 600},
    "dispatch_window_seconds": 300,
    "labels": {"team": "growth"},
}
REBUILD: Final[dict[str, Any]] = {
    "name": "rebuild",
    "schedule": {"type": "INTERVAL", "every_seconds": 86_400},
    "target": {"type": "TASK_QUEUE", "task_queue": "ledgers", "timeout_seconds": 10_800},
    "payload": {"ledger": "EU"},
    "overlap_policy": "SKIP",
}
RUN_ID: Final = "job_01K6J9V3ZS4X5T8Q2N7C0M1R6E:2026-09-28T12:00:00Z"
ENDED: Final[dict[str, Any]] = {"epoch": 1, "outcome": "SUCCEEDED", "result": {"rows": 30}}

BODIES: Final[dict[str, list[Any]]] = {
    "JobCreate": [DIGEST, REBUILD],
    "BatchCreate": [{"jobs": [DIGEST | {"idempotency_key": "order-88"}, REBUILD]}],
    "JobPatch": [{"priority": "HIGH", "payload": None}, {"schedule": DIGEST["schedule"] | {"cron": "30 7 * * 1-5"}}],
    "PauseBody": [{"reason": "the mail server is being moved"}],
    "ResumeBody": [{"misfire": "RUN_ONCE"}],
    "TriggerBody": [{"payload": {"kind": "weekly_digest"}}],
    "SkipBody": [{"count": 2}, {"first": "2026-09-28T12:00:00Z"}],
    "BackfillBody": [
        {"from": "2026-09-21T00:00:00Z", "to": "2026-09-28T00:00:00Z", "max_per_second": 5, "dry_run": True}
    ],
    "PreviewBody": [{"schedule": DIGEST["schedule"], "after": "2026-10-31T05:30:00Z", "count": 5}],
    "PollBody": [{"worker_id": "ledgers-1", "wait_seconds": 0, "max_tasks": 4}, {"worker_id": "ledgers-1"}],
    "HeartbeatBody": [{"epoch": 1, "progress": {"rows": 10}}],
    "CompleteBody": [ENDED, {"epoch": 1, "outcome": "FAILED", "error": "the ledger is locked", "retryable": True}],
    "ReleaseBody": [{"epoch": 1}],
    "BatchHeartbeat": [{"heartbeats": [{"run_id": RUN_ID, "epoch": 1}]}],
    "BatchComplete": [{"completions": [{"run_id": RUN_ID, **ENDED}]}],
    "RetryBody": [{"include_unknown": True}],
    "ResolveBody": [{"as": "SUCCEEDED", "note": "the bank has it"}],
    "RedriveBody": [{"filter": {"reason": "ATTEMPTS_EXHAUSTED"}, "max_per_second": 50, "canary": 5, "dry_run": True}],
    "DropBody": [{"filter": {"failed_before": "2026-09-28T12:00:00Z"}, "note": "no such target", "dry_run": True}],
    "KeyCreate": [{"name": "deploy", "role": "operator", "team_id": "payments", "expires_in_seconds": 7_776_000}],
    "KeyRotate": [{"grace_seconds": 3_600}],
}
PARAMETERS: Final[dict[str, Any]] = {
    "ref": "digest",
    "run_id": RUN_ID,
    "redrive_id": "rd_01K6J9V3ZS4X5T8Q2N7C0M1R6E",
    "backfill_id": "bf_01K6J9V3ZS4X5T8Q2N7C0M1R6E",
    "key_id": "0Ab3dEf6hIj9kL",
    "task_queue": "ledgers",
    "Idempotency-Key": "order-88",
    "label": ["team=growth"],
    "group_by": "target,error",
}
