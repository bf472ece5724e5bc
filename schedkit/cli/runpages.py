"""Pages of runs: a list, one run with its attempts, and the one-line form that `tail` and `job show` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schedkit.cli import lists, show
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, raw
from schedkit.cli.show import DASH
from schedkit.model.runs import RunStatus
from schedkit.model.time import parse_rfc3339, rfc3339

Doc = Mapping[str, Any]

SCHEMA: Final = "schedkit.run/v1"
SHORT: Final = {  # five letters, so that a log stays in columns
    "SUCCEEDED": "ok",
    "FAILED": "fail",
    "RETRY_WAIT": "retry",
    "RUNNING": "runs",
    "CANCELLED": "stop",
    "SUCCEEDED_AFTER_CANCEL": "late",
    "SKIPPED": "skip",
    "UNKNOWN": "?",
}


def called(run: Doc) -> str:
    return str(run.get("job_name") or run.get("job_id"))


def _last(run: Doc) -> Doc:
    attempts = run.get("attempts") or [run]  # a job's recent runs have no attempts, and the last one's answer instead
    last: Doc = attempts[-1]
    return last


def took_ms(run: Doc) -> int | None:
    """How long its last attempt took."""
    last = _last(run)
    if not last.get("started_at") or not last.get("finished_at"):
        return None
    return parse_rfc3339(last["finished_at"]) - parse_rfc3339(last["started_at"])


def tries(run: Doc) -> int:
    """The tries made; while a run waits for its next one, `attempt` counts that one already."""
    attempt = int(run.get("attempt") or 0)
    if run.get("status") != "RETRY_WAIT":
        return attempt
    return len(run["attempts"]) if "attempts" in run else max(0, attempt - 1)


def waits_since(run: Doc) -> str | None:
    """Since when it has been waiting in its task queue for its first worker; None where it is not."""
    waits = run.get("status") == "RETRY_WAIT" and run.get("task_queue") and run.get("attempt") == 1
    return str(run.get("not_before") or run.get("scheduled_for")) if waits else None


def _standing(run: Doc) -> str:
    """Its status, and that it was asked to stop while it has not."""
    status = raw(run.get("status"))
    return f"{status}, asked to stop" if run.get("cancel_requested") and not RunStatus(status).final else status


def _took(run: Doc) -> str:
    span_ms = took_ms(run)
    return DASH if span_ms is None else show.span(span_ms)


def ending(run: Doc) -> str:
    """How it went: `200 in 4 ms`, `503 server error`, `OVERLAP`."""
    last = _last(run)
    parts = [raw(last.get("http_status"))]
    if last.get("error"):
        parts.append(raw(last["error"]))
    text = " ".join(part for part in parts if part)
    if text and took_ms(run) is not None and not last.get("error"):
        text += f" in {_took(run)}"
    return text or raw(run.get("reason")) or ("waits for a worker" if waits_since(run) else DASH)


def run_items(me: Invocation, items: list[Doc], cursor: str | None, empty: str) -> Items:
    columns = (
        Column("JOB", "job_name", called),
        Column("SCHEDULED FOR", "scheduled_for", lambda run: show.stamp(run.get("scheduled_for"), me.zone)),
        Column("STATUS", "status"),
        Column("TRY", "attempt", lambda run: str(tries(run)), right=True),
        Column(
            "LATE", "lag_ms", lambda run: DASH if run.get("lag_ms") is None else show.span(run["lag_ms"]), right=True
        ),
        Column("TOOK", "", _took, right=True),
        Column("ENDED WITH", "reason", ending, cut=True),
        Column("RUN_ID", "run_id", wide=True),
        Column("JOB_ID", "job_id", wide=True),
        Column("EPOCH", "epoch", right=True, wide=True),
        Column("PRIORITY", "priority", wide=True),
        Column("OWNER", "lease_owner", lambda run: raw(run.get("lease_owner")) or DASH, wide=True),
        Column("QUEUE", "task_queue", lambda run: show.task_queue(run) or DASH, wide=True),
        Column("FINISHED", "finished_at", lambda run: show.stamp(run.get("finished_at"), me.zone), wide=True),
    )
    return Items(SCHEMA, items, columns, "run_id", empty, cursor, lists.more(cursor))


def run_line(run: Doc, zone: str | None, *, dated: bool = True) -> str:
    """`23:40:05.003 +02:00  ok     hello         200 in 4 ms, 3 ms after its time`"""
    at = parse_rfc3339(str(run.get("finished_at") or run.get("started_at") or run.get("scheduled_for")))
    clock = show.stamp(rfc3339(at), zone) if dated else show.clock(at, zone)
    word = "waits" if waits_since(run) else SHORT.get(raw(run.get("status")), raw(run.get("status")))
    again = f"try {tries(run)}, " if tries(run) > 1 else ""
    lag = f", {show.span(run['lag_ms'])} after its time" if run.get("lag_ms") is not None else ""
    return show.line(f"{clock}  {word:<5}  {called(run):<12}  {again}{ending(run)}{lag}")


def run_page(run: Doc, zone: str | None, *, response: bool) -> One:
    """One run: where it stands, who holds it, and each attempt."""
    waited = waits_since(run)
    wanted = (
        ("run id", run.get("run_id")),
        ("job", f"{called(run)} ({run.get('job_id')})" if run.get("job_name") else run.get("job_id")),
        ("status", _standing(run)),
        ("because", run.get("reason")),
        ("scheduled", show.stamp(run.get("scheduled_for"), zone)),
        ("started", show.stamp(run.get("started_at"), zone)),
        ("finished", show.stamp(run.get("finished_at"), zone)),
        ("late", None if run.get("lag_ms") is None else show.span(run["lag_ms"])),
        ("priority", run.get("priority")),
        ("queue", show.task_queue(run)),
        ("epoch", run.get("epoch")),
        ("attempt", tries(run)),
        ("worker" if run.get("task_queue") else "owner", run.get("lease_owner")),
        ("lease ends", show.stamp(run["lease_expires_at"], zone) if run.get("lease_expires_at") else None),
        ("progress", run.get("progress")),
        ("waits", f"for a worker since {show.stamp(waited, zone)}" if waited else None),
        ("next try", show.stamp(run["not_before"], zone) if run.get("not_before") and not waited else None),
        ("asked", _asked(run)),
        ("key", run.get("run_id")),
    )
    lines: list[str | tuple[str, str]] = [
        (label, raw(value)) for label, value in wanted if value not in (None, "", DASH)
    ]
    if run.get("attempts"):
        lines += ["", "attempts", *(f"  {_attempt(attempt, zone)}" for attempt in run["attempts"])]
    if response and run.get("result") is not None:
        lines += ["", "answer", *(f"  {show.line(part)}" for part in raw(run["result"]).splitlines())]
    return One(SCHEMA, run, lines, "run_id")


def _asked(run: Doc) -> str | None:
    flags = {
        "triggered": "by hand",
        "backfilled": "by a backfill",
        "misfired": "after its time",
        "cancel_requested": "to stop",
    }
    return ", ".join(text for field, text in flags.items() if run.get(field)) or None


def _attempt(attempt: Doc, zone: str | None) -> str:
    span = ""
    if attempt.get("started_at") and attempt.get("finished_at"):
        span = show.span(parse_rfc3339(attempt["finished_at"]) - parse_rfc3339(attempt["started_at"]))
    facts = (
        show.stamp(attempt.get("started_at"), zone),
        raw(attempt.get("outcome")) or "running",
        raw(attempt.get("http_status")),
        f"in {span}" if span else "",
        raw(attempt.get("error")),
        f"({show.span(attempt['lag_ms'])} late)" if attempt.get("lag_ms") else "",
    )
    return show.line(
        f"{attempt.get('attempt')}  epoch {attempt.get('epoch')}  " + "  ".join(fact for fact in facts if fact)
    )
