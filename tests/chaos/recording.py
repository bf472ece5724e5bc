"""Where the history comes from: triggers in the file itself, the target's own log, the nodes' logs, the harness.

A trigger writes a commit down in the transaction that it is part of, so the history has what is on disk: nothing that
was not committed, and all that was.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.model.keys import run_key
from schedkit.sim.history import Event

NOW = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
WATCH = f"""
    CREATE TABLE history (
        n INTEGER PRIMARY KEY, t INTEGER NOT NULL, partition TEXT NOT NULL, sort TEXT NOT NULL, before BLOB, after BLOB
    );
    CREATE TRIGGER watch_insert AFTER INSERT ON items BEGIN
        INSERT INTO history (t, partition, sort, after) VALUES ({NOW}, new.partition, new.sort, new.body);
    END;
    CREATE TRIGGER watch_update AFTER UPDATE ON items BEGIN
        INSERT INTO history (t, partition, sort, before, after)
        VALUES ({NOW}, new.partition, new.sort, old.body, new.body);
    END;
    CREATE TRIGGER watch_delete AFTER DELETE ON items BEGIN
        INSERT INTO history (t, partition, sort, before) VALUES ({NOW}, old.partition, old.sort, old.body);
    END;
"""  # noqa: S608 - no value in it comes from outside
STALE = re.compile(
    r"^(?P<at>[\d.:]+)  WARNING  stale write refused job=(?P<job>\S+) scheduled_for=(?P<scheduled_for>\d+)"
    r" epoch=(?P<epoch>\d+) ",
    re.MULTILINE,
)
UNEXPECTED = re.compile(r"^.*  (?:CRITICAL|ERROR)  .*\n(?:Traceback[\s\S]*?\n(?=\d)|Traceback[\s\S]*)", re.MULTILINE)
RANKS = {"begin": 0, "api.invoke": 1, "store.commit": 3, "target.call": 4, "target.effect": 5, "target.reply": 6}
HEARD = 2  # an answer whose record is of the same millisecond
LAST = {"api.ok": 8, "api.fail": 8, "api.info": 8, "heal": 9, "end": 10}
OTHERS = 7


def watched(database: Path) -> None:
    """Make a new database that keeps its own history."""

    async def make() -> None:
        SqliteStore(database).close()

    asyncio.run(make())
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(WATCH)


def commits(database: Path) -> Iterator[Event]:
    """Every commit, in the order of commits."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT t, partition, sort, before, after FROM history ORDER BY n")
        for t, partition, sort, was, becomes in rows:
            before, after = (orjson.loads(body) if body is not None else None for body in (was, becomes))
            yield {
                "t": t,
                "node": node_of(after) or node_of(before) or "world",
                "kind": "store.commit",
                "partition": partition,
                "sort": sort,
                "arrow": arrow_of(sort, before, after),
                "before": before,
                "after": after,
                "tag": None,
                "batch": None,
                "own": None,
            }


def node_of(item: dict[str, Any] | None) -> str | None:
    """The machine that holds a run: `node-1` of `node-1.3`, and `main` for the one that is alone."""
    owner = (item or {}).get("lease_owner")
    if owner is None:
        return None
    return "main" if owner.startswith("embedded-") else str(owner.partition(".")[0])


def arrow_of(sort: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """The arrow as far as the states on its two sides tell."""
    if after is None:
        return "expire"
    if not sort.startswith("RUN#"):
        return "create" if before is None else "change"
    was, becomes = (before or {}).get("status"), after["status"]
    if becomes != "RUNNING":
        names = {"SKIPPED": "skip", "RETRY_WAIT": "trigger"}
        return names.get(becomes, "cancel") if was is None else f"settle {becomes}"
    if before is None or was != "RUNNING":
        return "claim"
    if before.get("claim_token") != after.get("claim_token"):
        return "reclaim"
    if before.get("lease_expires_at") == after.get("lease_expires_at"):
        return "cancel"
    return "extend" if after["lease_expires_at"] > before["lease_expires_at"] else "release"


def refusals(name: str, log: Path, epochs: dict[tuple[str, str], int]) -> Iterator[Event]:
    """The stale writes that a process was refused, as its log says. `epochs` are those of the end."""
    for found in STALE.finditer(log.read_text(errors="replace") if log.exists() else ""):
        key = run_key(found["job"], int(found["scheduled_for"]))
        yield {
            "t": _instant(found["at"], log),
            "node": name,
            "kind": "store.refused",
            "partition": key.partition,
            "sort": key.sort,
            "arrow": "settle",
            "tag": int(found["epoch"]),
            "epoch": epochs.get(key),
        }


def unexpected(log: Path) -> list[str]:
    """What a process logged with a traceback: nobody thought of it."""
    return UNEXPECTED.findall(log.read_text(errors="replace")) if log.exists() else []


def _instant(text: str, log: Path) -> int:
    if ":" not in text:
        return int(float(text) * 1_000)
    day = datetime.fromtimestamp(log.stat().st_mtime).astimezone()  # `schedkit up` writes the time of day only
    moment = datetime.strptime(text, "%H:%M:%S.%f").time()  # noqa: DTZ007
    return int(datetime.combine(day, moment, day.tzinfo).timestamp() * 1_000)


def merged(*parts: Iterable[Event]) -> list[Event]:
    """All events in the order of time; within a millisecond, as one thing follows from another."""
    everything = [event for part in parts for event in part]
    _claimed(everything)
    calls = {event["call"]: event for event in everything if event["kind"] == "target.call"}
    settled = {
        (event["t"], event["partition"], event["sort"], event["before"]["epoch"])
        for event in everything
        if event["kind"] == "store.commit" and event["arrow"].startswith("settle") and event["before"] is not None
    }

    def order(event: Event) -> tuple[int, int]:
        if event["kind"] == "target.reply":
            call = calls[event["call"]]
            key = run_key(call["job"], call["scheduled_for"])
            if (event["t"], key.partition, key.sort, call["token"]) in settled:
                return event["t"], HEARD
        return event["t"], (RANKS | LAST).get(event["kind"], OTHERS)

    return sorted(everything, key=order)


def _claimed(events: list[Event]) -> None:
    """Say of each call who made it, by its claim, and what the clock of that machine showed."""
    owners = {}
    for event in events:
        after = event.get("after")
        if event["kind"] == "store.commit" and after is not None and after.get("claim_token") is not None:
            owners[event["partition"], event["sort"], after["epoch"]] = node_of(after)
    offsets = {e["on"]: e["offset_ms"] for e in events if e["kind"] == "nemesis" and e["fault"] == "skew"}
    lives = _lives(events)
    for event in events:
        if event["kind"] == "target.call":
            key = run_key(event["job"], event["scheduled_for"])
            owner = owners.get((key.partition, key.sort, event["token"]))
            event["node"] = owner or "world"
            event["t"] = _sent_by(event["t"], lives.get(event["node"], []))
            event["own"] = event["t"] + offsets.get(event["node"], 0)


def _lives(events: list[Event]) -> dict[str, list[tuple[int, int]]]:
    """When each machine had no process, as (from, until)."""
    gaps: dict[str, list[tuple[int, int]]] = {}
    died: dict[str, int] = {}
    for event in sorted((e for e in events if e["kind"] == "nemesis"), key=lambda event: int(event["t"])):
        if event["fault"] == "kill":
            died[event["on"]] = event["t"]
        elif event["fault"] == "boot" and event["on"] in died:
            gaps.setdefault(event["on"], []).append((died.pop(event["on"]), event["t"]))
    return gaps


def _sent_by(t: int, gaps: list[tuple[int, int]]) -> int:
    """The dead send nothing: what arrives from a machine without a process was sent before it was killed."""
    return next((died for died, booted in gaps if died < t <= booted), t)
