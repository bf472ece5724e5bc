"""Pages of backfills: what one would do, how far it has come, all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedkit.cli import lists, show
from schedkit.cli.dlqpages import bar
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, raw
from schedkit.cli.show import DASH
from schedkit.model.time import SECOND_MS

PLAN_SCHEMA: Final = "schedkit.backfill-plan/v1"
SCHEMA: Final = "schedkit.backfill/v1"
NO_RECORD: Final = "NO_RECORD"
LEFT: Final = {
    "RAN_ALREADY": "ran already, and will not run again",
    "CANCELLED_ALREADY": "were cancelled at work: schedkit job trigger runs the job once more",
    "FAILED_ALREADY": "failed: schedkit dlq redrive starts those",
    "UNDER_WAY": "are under way",
    "TOO_OLD": "are older than records are kept",
    "OUTCOME_UNKNOWN": "are from before the last restore: whether they ran is not known (at most once)",
    "JOB_PAUSED": "were left because the job was paused",
    "JOB_CANCELLED": "were left because the job was cancelled",
    "JOB_GONE": "were left because the job is gone",
    "CHANGED": "were left because they, or the schedule of the job, were changed meanwhile",
}

Doc = Mapping[str, Any]


def plan_lines(me: Invocation, plan: Doc) -> list[str]:
    """What a person reads before saying yes."""
    name = plan["job_name"] or plan["job_id"]
    span = f"{show.stamp(plan['from'], me.zone)} and {show.stamp(plan['to'], me.zone)}"
    lines = [f"{me.context.name}: {show.count(plan['occurrences'], 'occurrence')} of {name} between {span}"]
    starts = [f"{_told(why)} ({count:,})" for why, count in plan["starts"].items()]
    lines.append(f"  will run  {plan['total']:,}" + (f"   {', '.join(starts)}" if starts else ""))
    lines += [f"  left out  {told}" for told in _left(plan)]
    lines += [f"  note      {note}" for note in plan["notes"]]
    if plan["total"]:
        lines.append(
            f"  rate      at most {plan['max_per_second']}/s, {plan['order']} first      "
            f"done in about {show.span(plan['seconds'] * SECOND_MS)}" + (" at best" if plan["one_by_one"] else "")
        )
        if plan["one_by_one"]:
            lines.append("  each run  after the one before it has ended: runs of this job may not overlap")
        lines.append("  key       each run under its own time and key; the schedule stays where it is")
    return [show.line(line) for line in lines]


def _left(backfill: Doc) -> list[str]:
    return [f"{count:,} {LEFT.get(why, why)}" for why, count in backfill["left"].items()]


def _to_run(backfill: Doc) -> int:
    """How many it will have started in the end: what was planned, less what was left out besides, as far as known."""
    foreseen = backfill["occurrences"] - backfill["total"]
    besides: int = max(0, sum(backfill["left"].values()) - foreseen)
    return int(max(backfill["total"] - besides, backfill["started"]))


def _told(why: str) -> str:
    return "no record" if why == NO_RECORD else why


def backfill_items(me: Invocation, items: Sequence[Doc], cursor: str | None, empty: str) -> Items:
    """The list of backfills."""
    columns = (
        Column("BACKFILL", "backfill_id"),
        Column("JOB", "job_name", lambda one: raw(one.get("job_name")) or one["job_id"]),
        Column("STATE", "state"),
        Column("DONE", "started", lambda one: f"{one['started']:,}/{_to_run(one):,}", right=True),
        Column("OK", "succeeded", lambda one: f"{one['succeeded']:,}", right=True),
        Column("FAILED", "failed", lambda one: f"{one['failed']:,}", right=True),
        Column("OPEN", "open", lambda one: f"{one['open']:,}", right=True),
        Column("RATE", "max_per_second", lambda one: f"{one['max_per_second']}/s", right=True),
        Column("FROM", "from", lambda one: show.stamp(one.get("from"), me.zone), wide=True),
        Column("TO", "to", lambda one: show.stamp(one.get("to"), me.zone), wide=True),
        Column("BEGUN", "created_at", lambda one: show.stamp(one.get("created_at"), me.zone)),
        Column("BECAUSE", "state_reason", lambda one: raw(one.get("state_reason")) or DASH, wide=True),
    )
    return Items(SCHEMA, items, columns, "backfill_id", empty, cursor, lists.more(cursor))


def backfill_progress(backfill: Doc) -> str:
    """`backfill bf_7K2  ############------------  612/1,180  10/s  ok 611  failed 1  57s left`"""
    total = _to_run(backfill)
    parts = [
        f"backfill {backfill['backfill_id']}",
        bar(backfill["started"], total),
        f"{backfill['started']:,}/{total:,}",
        f"{backfill['max_per_second']}/s",
        f"ok {backfill['succeeded']:,}",
        f"failed {backfill['failed']:,}",
        *([f"cancelled {backfill['cancelled']:,}"] if backfill["cancelled"] else []),
    ]
    if backfill["state"] != "RUNNING":
        parts.append(backfill["state"])
    elif left := total - backfill["started"]:
        parts.append(f"{show.span(left * SECOND_MS / backfill['max_per_second'])} left")
    elif backfill["open"]:
        parts.append(f"{backfill['open']:,} open")
    return "  ".join(parts)


def backfill_page(backfill: Doc, zone: str | None) -> One:
    """How far it has come: started = ok + failed + cancelled + open, at its end occurrences = started + left out."""
    facts = (
        ("backfill", backfill["backfill_id"]),
        ("job", backfill["job_name"] or backfill["job_id"]),
        ("state", backfill["state"]),
        ("because", backfill.get("state_reason")),
        ("from", show.stamp(backfill["from"], zone)),
        ("to", show.stamp(backfill["to"], zone)),
        ("occurrences", f"{backfill['occurrences']:,}"),
        ("planned", f"{backfill['total']:,} to run, {backfill['order']} first"),
        ("started", f"{backfill['started']:,}"),
        ("ok", f"{backfill['succeeded']:,}"),
        ("failed", f"{backfill['failed']:,}"),
        ("cancelled", f"{backfill['cancelled']:,}" if backfill["cancelled"] else None),
        ("open", f"{backfill['open']:,}" if backfill["open"] else None),
        *(("left out", told) for told in _left(backfill)),
        ("rate", f"at most {backfill['max_per_second']}/s"),
        ("begun", show.stamp(backfill.get("created_at"), zone)),
        ("ended", show.stamp(backfill["finished_at"], zone) if backfill.get("finished_at") else None),
        ("note", backfill.get("note")),
    )
    lines: list[str | tuple[str, str]] = [(name, raw(value)) for name, value in facts if value is not None]
    return One(SCHEMA, backfill, lines, "backfill_id")
