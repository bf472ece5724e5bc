"""`schedkit status`: one page of health, from one document of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from schedkit.cli import show, values
from schedkit.cli.failures import ExitCode
from schedkit.cli.frame import Watching
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.cli.show import count
from schedkit.model.time import SECOND_MS

Doc = Mapping[str, Any]
Line = str | tuple[str, str]

SECTIONS: Final = ("jobs", "lag", "queues", "runs", "safety", "alerts")


def status(
    me: Invocation,
    watching: Watching,
    section: Annotated[str | None, typer.Option("--section", metavar="S,S", help=f"{', '.join(SECTIONS)}.")] = None,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="warn|crit", help="Which alerts are unhealthy.")
    ] = "crit",
) -> None:
    """One-page health, exit 10 if unhealthy.

    Examples:
      schedkit status
      schedkit status --section lag,queues --fail-on warn
    """
    wanted = values.choices(section or ",".join(SECTIONS), SECTIONS, "--section")
    level = values.choice(fail_on, ("warn", "crit"), "--fail-on").upper()

    def look() -> tuple[One, bool]:
        with me.asking():
            snapshot = me.client.snapshot()
        healthy = not _troubles(snapshot, level)
        return One("schedkit.status/v1", {"healthy": healthy, **snapshot}, _lines(me, snapshot, wanted, level)), healthy

    if watching.watch:
        me.watch(lambda: look()[0], watching.interval)
    page, healthy = look()
    me.show(page)
    if not healthy:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _troubles(snapshot: Doc, level: str) -> list[str]:
    """Why this is unhealthy; empty when it is not."""
    levels = ("CRIT",) if level == "CRIT" else ("WARN", "CRIT")
    found = [alert["text"] for alert in snapshot.get("alerts") or () if alert.get("level") in levels]
    store = snapshot.get("store") or {}
    return ([] if store.get("ok", True) else [f"store: {store.get('detail')}"]) + found


def _lines(me: Invocation, snapshot: Doc, wanted: list[str], level: str) -> list[Line]:
    troubles = _troubles(snapshot, level)
    uptime = show.span((snapshot.get("uptime_seconds") or 0) * SECOND_MS)
    store = snapshot.get("store") or {}
    word = "healthy" if not troubles else f"unhealthy: {troubles[0]}"
    lines: list[Line] = [
        ("scheduler", f"{me.context.name} ({me.context.url})  {word}"),
        (
            "server",
            f"schedkit {snapshot.get('version')}, {snapshot.get('profile')}, {snapshot.get('node')}, up {uptime}",
        ),
        ("store", f"{'ok' if store.get('ok', True) else 'down'}  {store.get('detail') or ''}".rstrip()),
    ]
    if snapshot.get("data"):
        lines.append(("data", str(snapshot["data"])))
    pages = {
        "jobs": _jobs,
        "lag": _lag,
        "queues": _queues,
        "runs": _runs,
        "safety": _safety,
        "alerts": _alerts,
    }
    for name in wanted:
        lines += pages[name](snapshot)
    return lines


def _jobs(snapshot: Doc) -> list[Line]:
    jobs = snapshot.get("jobs") or {}
    return [("jobs", _counts(jobs, "no jobs yet"))]


def _lag(snapshot: Doc) -> list[Line]:
    lag = snapshot.get("lag") or {}
    if not lag.get("runs"):
        return [("late by", f"no runs in the last {show.seconds(lag.get('window_seconds'))}")]
    parts = [
        f"{name} {show.span(lag[f'{name}_ms'])}" for name in ("p50", "p99", "max") if lag.get(f"{name}_ms") is not None
    ]
    over = f"{count(lag['runs'], 'run')} in the last {show.seconds(lag.get('window_seconds'))}"
    return [("late by", f"{', '.join(parts)}   ({over})")]


def _queues(snapshot: Doc) -> list[Line]:
    queues = snapshot.get("queues") or {}
    return [
        (f"queue {name.lower()}", f"{queue.get('ready', 0):,} ready, {queue.get('running', 0):,} running")
        for name, queue in queues.items()
    ]


def _runs(snapshot: Doc) -> list[Line]:
    return [("runs/min", _counts(snapshot.get("runs_per_minute") or {}, "none"))]


def _safety(snapshot: Doc) -> list[Line]:
    return [("dead letters", f"{snapshot.get('dead_letters', 0):,}"), *_reaper(snapshot)]


def _reaper(snapshot: Doc) -> list[Line]:
    """What workers hold, and what was taken from those that were lost; nothing where no worker ever had anything."""
    reaper = snapshot.get("reaper") or {}
    if not any(reaper.get(name) for name in ("live", "expired", "reclaimed")):
        return []
    text = f"{count(reaper['live'], 'run')} with workers, {reaper['expired']:,} of lost ones, "
    text += f"{reaper['reclaimed']:,} given to others"
    return [("reaper", f"{text}; it waits: {reaper['suspended']}" if reaper.get("suspended") else text)]


def _alerts(snapshot: Doc) -> list[Line]:
    alerts = snapshot.get("alerts") or []
    if not alerts:
        return [("alerts", "none")]
    return [("alert", f"{alert.get('level')}  {alert.get('text')}") for alert in alerts]


def _counts(found: Doc, none: str) -> str:
    return (
        ", ".join(f"{number:,} {str(name).lower().replace('_', ' ')}" for name, number in found.items() if number)
        or none
    )
