"""What a target receives: the call with its key, its fencing token and the job's payload (F8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schedkit import __version__
from schedkit.model.calls import Call
from schedkit.model.jobs import HttpTarget, Job
from schedkit.model.keys import run_id, stable_hash
from schedkit.model.runs import Run

BODYLESS: Final = frozenset({"GET", "HEAD"})


def call_of(run: Run, job: Job, registered: Mapping[str, str]) -> Call:
    """The call of this attempt. A target that is not registered (any more) gives a URL that is refused when called."""
    target = job.target
    assert isinstance(target, HttpTarget), "a worker's run is never called"
    key = run_id(run.job_id, run.scheduled_for)
    payload = run.payload if run.payload is not None else job.payload
    body = payload.encode() if payload is not None and target.method not in BODYLESS else None
    given = {name.lower() for name in target.headers}
    usual = {"User-Agent": f"schedkit/{__version__}", "Content-Type": "application/json" if body is not None else None}
    headers = {
        **{name: value for name, value in usual.items() if value is not None and name.lower() not in given},
        **target.headers,
        "Idempotency-Key": key,
        "X-Fencing-Token": str(run.epoch),
        "X-Attempt": str(run.attempt),
        "traceparent": traceparent(key, run.epoch),
    }
    return Call(
        url=target.url_under(registered) or "",
        method=target.method,
        headers=headers,
        body=body,
        timeout_ms=target.timeout_ms,
    )


def traceparent(key: str, epoch: int) -> str:
    """W3C trace context: one trace for all tries of a run, one span for each."""
    trace = f"{stable_hash(key):016x}{stable_hash(key + '/trace'):016x}"
    return f"00-{trace}-{stable_hash(f'{key}/{epoch}') or 1:016x}-01"
