"""Pages of dead letters: lists, groups, what a redrive would do, how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from schedkit.cli import lists, show
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, raw
from schedkit.cli.runpages import called, took_ms
from schedkit.cli.show import DASH
from schedkit.model.time import SECOND_MS

Doc = Mapping[str, Any]

SCHEMA: Final = "schedkit.dead-letter/v1"
GROUP_SCHEMA: Final = "schedkit.dead-letter-group/v1"
PLAN_SCHEMA: Final = "schedkit.redrive-plan/v1"
REDRIVE_SCHEMA: Final = "schedkit.redrive/v1"
DROP_SCHEMA: Final = "schedkit.dead-letter-drop/v1"
BAR: Final = 24  # characters
MOST_CAUSES: Final = 4
GROUP_NAMES: Final = ("target_id", "job_name", "reason", "error")


def dead_items(me: Invocation, items: Sequence[Doc], cursor: str | None, empty: str) -> Items:
    columns = (
        Column("JOB", "job_name", called),
        Column("FAILED AT", "failed_at", lambda dead: show.stamp(dead.get("failed_at"), me.zone)),
        Column("STATUS", "status"),
        Column("TRIES", "attempts_made", right=True),
        Column("ERROR", "error", lambda dead: raw(dead.get("error")) or DASH, cut=True),
        Column("RUN_ID", "run_id"),
        Column("TARGET", "target_id", lambda dead: raw(dead.get("target_id")) or DASH, wide=True),
        Column("REASON", "reason", wide=True),
        Column("SERIES", "series", right=True, wide=True),
    )
    return Items(SCHEMA, items, columns, "run_id", empty, cursor, lists.more(cursor))


def group_items(me: Invocation, items: Sequence[Doc], empty: str, complete: bool) -> Items:
    named = [name for name in GROUP_NAMES if items and name in items[0]]
    columns = (
        Column("COUNT", "count", lambda group: f"{group['count']:,}", right=True),
        *(
            Column(name.removesuffix("_id").removesuffix("_name").upper(), name, _value(name), cut=name == "error")
            for name in named
        ),
        Column("OLDEST", "oldest", lambda group: show.stamp(group.get("oldest"), me.zone)),
        Column("NEWEST", "newest", lambda group: show.stamp(group.get("newest"), me.zone)),
    )
    more = None if complete else "there are more dead letters than one answer counts: the counts are at least"
    return Items(GROUP_SCHEMA, items, columns, named[0] if named else "", empty, None, more)


def _value(name: str) -> Any:
    return lambda group: raw(group.get(name)) or DASH


def redrive_items(me: Invocation, items: Sequence[Doc], cursor: str | None, empty: str) -> Items:
    columns = (
        Column("REDRIVE", "redrive_id"),
        Column("STATE", "state"),
        Column("DONE", "redriven", lambda one: f"{one['redriven']:,}/{one['total']:,}", right=True),
        Column("OK", "succeeded", lambda one: f"{one['succeeded']:,}", right=True),
        Column("FAILED", "failed", lambda one: f"{one['failed']:,}", right=True),
        Column("OPEN", "open", lambda one: f"{one['open']:,}", right=True),
        Column("RATE", "max_per_second", lambda one: f"{one['max_per_second']}/s", right=True),
        Column("BEGUN", "created_at", lambda one: show.stamp(one.get("created_at"), me.zone)),
        Column("BECAUSE", "state_reason", lambda one: raw(one.get("state_reason")) or DASH, wide=True),
        Column("NOTE", "note", lambda one: raw(one.get("note")) or DASH, wide=True),
    )
    return Items(REDRIVE_SCHEMA, items, columns, "redrive_id", empty, cursor, lists.more(cursor))


def plan_lines(me: Invocation, plan: Doc, what: str, *, asks: bool) -> list[str]:
    """What a person reads before saying yes; `asks`: and is asked again after the canary."""
    at_least = "" if plan["complete"] else "at least "
    head = f"{me.context.name}: {at_least}{show.count(plan['total'], 'dead letter')}{what}"
    if plan["total"]:
        head += f", oldest {show.stamp(plan['oldest'], me.zone)}, newest {show.stamp(plan['newest'], me.zone)}"
    lines = [head]
    causes = plan["causes"][:MOST_CAUSES]
    if causes:
        told = [f"{cause['error']} ({cause['count']:,})" for cause in causes]
        left = plan["total"] - sum(cause["count"] for cause in causes)
        lines.append(f"  cause     {', '.join([*told, f'others ({left:,})'] if left else told)}")
    if plan["total"]:
        took = show.span(plan["seconds"] * SECOND_MS)
        lines.append(f"  rate      at most {plan['max_per_second']}/s      done in about {took}")
        if plan["canary"]:
            then = "then stop and ask" if asks else "the rest if these go well"
            lines.append(f"  first     {show.count(min(plan['canary'], plan['total']), 'run')}, {then}")
        lines.append("  each run  new attempt series, epoch + 1, same idempotency key as before")
    return [show.line(line) for line in [*lines, *(f"  note      {note}" for note in plan["notes"])]]


def progress(redrive: Doc) -> str:
    """`redrive rd_7K2  ############------------  612/1,180  50/s  ok 611  failed 1  11 s left`"""
    total = max(redrive["total"] - sum(redrive["skipped"].values()), redrive["redriven"])
    left = total - redrive["redriven"]
    parts = [
        f"redrive {redrive['redrive_id']}",
        bar(redrive["redriven"], total),
        f"{redrive['redriven']:,}/{total:,}",
        f"{redrive['max_per_second']}/s",
        f"ok {redrive['succeeded']:,}",
        f"failed {redrive['failed']:,}",
    ]
    if redrive["state"] not in ("RUNNING", "CANARY"):
        parts.append(redrive["state"])
    elif left:
        parts.append(f"{show.span(left * SECOND_MS / redrive['max_per_second'])} left")
    elif redrive["open"]:
        parts.append(f"{redrive['open']:,} open")
    return "  ".join(parts)


def bar(done: int, total: int) -> str:
    """`############------------`"""
    full = BAR if not total else BAR * done // total
    return "#" * full + "-" * (BAR - full)


def redrive_page(redrive: Doc, zone: str | None) -> One:
    """How far it has come, and what to do next."""
    facts = (
        ("redrive", redrive["redrive_id"]),
        ("state", redrive["state"]),
        ("because", redrive.get("state_reason")),
        ("redriven", f"{redrive['redriven']:,} of {redrive['total']:,}"),
        ("ok", f"{redrive['succeeded']:,}"),
        ("failed", f"{redrive['failed']:,}"),
        ("cancelled", f"{redrive['cancelled']:,}" if redrive["cancelled"] else None),
        ("open", f"{redrive['open']:,}" if redrive["open"] else None),
        ("skipped", ", ".join(f"{count:,} {name}" for name, count in redrive["skipped"].items()) or None),
        ("rate", f"at most {redrive['max_per_second']}/s"),
        ("canary", redrive["canary"] or None),
        ("begun", show.stamp(redrive.get("created_at"), zone)),
        ("ended", show.stamp(redrive["finished_at"], zone) if redrive.get("finished_at") else None),
        ("note", redrive.get("note")),
    )
    lines: list[str | tuple[str, str]] = [(name, raw(value)) for name, value in facts if value is not None]
    return One(REDRIVE_SCHEMA, redrive, lines, "redrive_id")


def canary_line(redrive: Doc, runs: Sequence[Doc]) -> str:
    """`canary  5/5 ok, 240 ms median`"""
    times = [time for run in runs if (time := took_ms(run)) is not None]
    middle = f", {show.span(median(times))} median" if times else ""
    return f"canary  {redrive['succeeded']}/{redrive['redriven']} ok{middle}"
