"""`schedkit cron`: what a cron expression means and does, offline, by the very rules the server follows."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer

from schedkit.cli import jobspec, show, values
from schedkit.cli.cronpages import next_items
from schedkit.cli.failures import ExitCode
from schedkit.cli.frame import noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import Cron, GapPolicy, RepeatPolicy
from schedkit.model.time import MAX_INSTANT, Instant, from_datetime, rfc3339

app = noun("Cron expressions, clock changes (works offline)")

Option = typer.Option
Expr = Annotated[str, typer.Argument(metavar="EXPR", help='Five fields in quotes: "0 8 * * *".')]
Exprs = Annotated[list[str], typer.Argument(metavar="EXPR...", help='Each in quotes: "0 8 * * *".')]
Dialect = Annotated[str | None, Option("--dialect", metavar="D", help=f"Of EXPR: {jobspec.DIALECT_HELP}")]


@verb(app, "next")
def next_times(
    me: Invocation,
    expr: Expr,
    number: Annotated[int, Option("--count", "-n", min=1, max=10_000, metavar="N", help="How many.")] = 5,
    start: Annotated[str | None, Option("--from", metavar="T", help="After this time; now.")] = None,
    until: Annotated[str | None, Option("--until", metavar="T", help="Before this time.")] = None,
    window: Annotated[str | None, Option("--window", metavar="5m", help="With --id: the place in it.")] = None,
    job_id: Annotated[str | None, Option("--id", metavar="JOB", help="The job id that decides its place.")] = None,
    dialect: Dialect = None,
    dst: Annotated[str | None, Option("--dst", metavar="P", help=jobspec.DST_HELP)] = None,
) -> None:
    """Next times, with notes on clock changes.

    Examples:
      schedkit cron next "30 1 * * *" --tz America/New_York
      schedkit cron next "0 8 * * *" --tz Europe/Berlin -n 3 --from 2026-10-24T12:00Z
    """
    from schedkit.engine.when import cron as crons
    from schedkit.engine.when.window import offset_ms

    if (window is None) != (job_id is None):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "a place needs both --window 5m and --id JOB", field="--window")
    zone = me.zone or "UTC"
    now = values.instant(start, zone=zone, field="--from") if start else values.now_ms()
    end = values.instant(until, zone=zone, now=now, field="--until") if until else MAX_INSTANT
    cron = _cron(expr, dialect, zone, dst)
    crons.check(cron, now)
    place_ms = offset_ms(job_id, values.duration_ms(window, "--window")) if window and job_id else 0
    due: list[dict[str, Any]] = []
    at: Instant = now
    while len(due) < number:
        found = crons.next_after(cron, at)
        if found is None or found.scheduled_for >= end:
            break
        at = found.scheduled_for
        doc: dict[str, Any] = {"scheduled_for": rfc3339(at), "local": found.local, "notes": list(found.notes)}
        due.append(doc | ({"dispatch_at": rfc3339(at + place_ms)} if window else {}))
    empty = f"no time of {expr} in this range"
    me.show(next_items(me, due, zone, now, windowed=window is not None, empty=empty))


def _cron(expr: str, dialect: str | None, zone: str, dst: str | None) -> Cron:
    policies = jobspec.clock_changes(dst)
    return Cron(
        jobspec.unix(expr, dialect),
        zone,
        GapPolicy(policies.get("dst_gap_policy", "FIRST_VALID")),
        RepeatPolicy(policies.get("dst_overlap_policy", "FIRST")),
    )


@verb(app, "explain")
def explain(
    me: Invocation,
    expr: Expr,
    dialect: Dialect = None,
    lang: Annotated[str, Option("--lang", metavar="en", help="The language; there is one so far.")] = "en",
) -> None:
    """The expression in words, field by field.

    Examples:
      schedkit cron explain "*/15 9-17 * * 1-5"
      schedkit cron explain "0 0 12 ? * MON-FRI" --dialect quartz
    """
    from schedkit.engine.when import explain as words

    values.choice(lang, ("en",), "--lang")
    told = words.explain(jobspec.unix(expr, dialect))
    fields = [{"name": field.name, "text": field.text, "meaning": field.meaning} for field in told.fields]
    doc = {"expression": told.expression, "sentence": told.sentence, "fields": fields}
    width = max(len(field["text"]) for field in fields)
    lines: list[str | tuple[str, str]] = [told.sentence, ""]
    if me.style.screen.terminal:
        lines += [f"  {field['name']:<14}{field['text']:<{width}}   {field['meaning']}" for field in fields]
    else:
        lines = [told.sentence, *((field["name"], f"{field['text']}: {field['meaning']}") for field in fields)]
    me.show(One("schedkit.cron-explanation/v1", doc, lines, "expression"))


@verb(app, "check")
def check(
    me: Invocation,
    expr: Exprs,
    dialect: Dialect = None,
    strict: Annotated[bool, Option("--strict", help="Exit 10 when there is any trap.")] = False,
) -> None:
    """Traps: never fires, day AND/OR, midnight crowd, the hour of a clock change.

    Examples:
      schedkit cron check "0 0 1 * 1"
      schedkit cron check "0 2 * * *" "0 0 * * *" --tz America/New_York --strict
    """
    found = [_checked(text, dialect, me.zone or "UTC") for text in expr]
    lines: list[str | tuple[str, str]] = []
    for doc in found:
        said = [doc["error"]] if doc["error"] else [trap["sentence"] for trap in doc["traps"]]
        if me.style.screen.terminal:
            lines.append(
                f"{show.line(doc['expression'])}   {'no traps' if not said else doc['meaning'] or ''}".rstrip()
            )
            for text in said:
                marked = f"  {'X' if doc['error'] else '!'} {show.line(text)}"
                lines += textwrap.wrap(marked, me.style.screen.width, subsequent_indent="    ")
        else:
            lines += [(doc["expression"], text) for text in said] or [(doc["expression"], "no traps")]
    invalid = any(doc["error"] or any(trap["code"] == "NEVER_FIRES" for trap in doc["traps"]) for doc in found)
    columns = (Column("EXPRESSION", "expression"), Column("ERROR", "error"), Column("TRAPS", "traps"))
    if me.for_people and not me.style.fields:
        me.show(One("schedkit.cron-check/v1", {}, lines))
    else:
        me.show(Items("schedkit.cron-check/v1", found, columns, "expression", ""))
    if invalid:
        raise typer.Exit(ExitCode.INVALID)
    if strict and any(doc["traps"] for doc in found):
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _checked(text: str, dialect: str | None, zone: str) -> dict[str, Any]:
    from schedkit.engine.when import explain as words
    from schedkit.engine.when import zones

    zones.zone(zone)  # a wrong zone is wrong for all of them
    try:
        expression = jobspec.unix(text, dialect)
        meaning = words.explain(expression).sentence
        traps = [
            {"code": trap.code, "sentence": trap.sentence}
            for trap in words.traps(expression, zone, since=values.now_ms())
        ]
    except InvalidInput as refusal:
        fixes = "".join(f"; {fix}" for fix in refusal.fix)
        return {"expression": text, "error": f"{refusal.detail}{fixes}", "meaning": None, "traps": []}
    return {"expression": text, "error": None, "meaning": meaning, "traps": traps}


@verb(app, "convert")
def convert(
    me: Invocation,
    expr: Expr,
    source: Annotated[str, Option("--from", metavar="D", help=jobspec.DIALECT_HELP)] = "unix",
    to: Annotated[str, Option("--to", metavar="D", help=jobspec.DIALECT_HELP)] = "unix",
) -> None:
    """Between unix, quartz and eventbridge dialects; refused where something would be lost.

    Examples:
      schedkit cron convert "0 8 * * 1-5" --to quartz
      schedkit cron convert "0 0 12 ? * MON-FRI" --from quartz
    """
    from schedkit.engine.when import dialects

    known = dialects.DIALECTS
    source, to = values.choice(source, known, "--from"), values.choice(to, known, "--to")
    result = dialects.convert(expr, source, to)
    doc = {"expression": expr, "from": source, "to": to, "result": result}
    me.show(One("schedkit.cron-conversion/v1", doc, [result], "result", exact=True))


@verb(app, "dst")
def dst(
    me: Invocation,
    year: Annotated[int | None, Option("--year", min=1970, max=9998, metavar="Y", help="This one.")] = None,
) -> None:
    """Clock changes of a zone.

    Examples:
      schedkit cron dst --tz America/New_York
      schedkit cron dst --tz Europe/Berlin --year 2027
    """
    from datetime import UTC, datetime

    from schedkit.engine.when import zones

    zone = me.zone or "UTC"
    year = year or values.local(values.now_ms(), zone).year
    since = from_datetime(datetime(year, 1, 1, tzinfo=UTC))
    until = from_datetime(datetime(year + 1, 1, 1, tzinfo=UTC))
    found = [
        {
            "at": rfc3339(change.at),
            "local_before": zones.wall_text(change.at, change.offset_before_ms),
            "local_after": zones.wall_text(change.at, change.offset_after_ms),
            "shift_seconds": (change.offset_after_ms - change.offset_before_ms) // 1_000,
            "abbreviation_before": change.abbreviation_before,
            "abbreviation_after": change.abbreviation_after,
        }
        for change in zones.transitions(zone, since, until)
    ]
    columns = (
        Column("UTC", "at", lambda doc: show.utc(values.instant(doc["at"]))),
        Column("BEFORE", "local_before", lambda doc: _wall(doc, "before")),
        Column("AFTER", "local_after", lambda doc: _wall(doc, "after")),
        Column("CHANGE", "shift_seconds", _shift),
    )
    empty = f"clocks do not change in {zone} in {year} (tzdata {zones.TZDATA_VERSION})"
    me.show(Items("schedkit.clock-change/v1", found, columns, "at", empty))


def _wall(doc: Any, side: str) -> str:
    text = str(doc[f"local_{side}"])
    return f"{text[:10]} {text[11:16]} {doc[f'abbreviation_{side}']}"


def _shift(doc: Any) -> str:
    shift_ms = doc["shift_seconds"] * 1_000
    if not shift_ms:
        return "only its name"
    what = "forward: skipped" if shift_ms > 0 else "back: repeated"
    return f"{show.compact(abs(shift_ms))} {what}"
