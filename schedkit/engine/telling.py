"""What a write that landed tells those who follow the scheduler: one event, or nothing.

Heartbeats and the steps of a job along its schedule are not told: there are too many of them, and the runs say it all.
"""

from __future__ import annotations

from typing import Final

from schedkit.model.events import Event, EventKind
from schedkit.model.jobs import DEFAULT_TEAM
from schedkit.model.keys import BACKFILL_ID_PREFIX, REDRIVE_ID_PREFIX, RUN_PREFIX
from schedkit.model.runs import RunStatus
from schedkit.model.time import Instant
from schedkit.model.writes import Item, Write

LEASE_ARROWS: Final = frozenset({"claim", "reclaim", "release", "give back", "let go", "take back"})
QUIET_OF_RUNS: Final = frozenset({"heartbeat", "extend", "reroute"})
QUIET_OF_REDRIVES: Final = frozenset({"take redrive", "let go of redrive", "release", "pass page", "follow"})
FINAL: Final = frozenset(status.value for status in RunStatus if status.final)


def event_of(write: Write, item: Item, now: Instant) -> Event | None:
    """What this write tells, given the item as it stands after it; None where it tells nothing."""
    sort = write.key.sort
    if sort.startswith(RUN_PREFIX):
        return _of_run(write, item, now) if write.arrow not in QUIET_OF_RUNS else None
    if sort.startswith((REDRIVE_ID_PREFIX, BACKFILL_ID_PREFIX)) and "state" in item:
        if write.arrow in QUIET_OF_REDRIVES:
            return None
        facts = {name: item.get(name) for name in ("state", "total", "redriven", "succeeded", "failed")}
        team = (item.get("filter") or {}).get("team_id")
        return Event(EventKind.REDRIVE, write.arrow, now, sort, item.get("owner"), item["tenant_id"], team, facts)
    if write.arrow == "audit":
        facts = {name: item.get(name) for name in ("outcome", "role", "request_id")}
        who = item.get("key_id") or item["address"]
        return Event(
            EventKind.AUDIT, item["action"], now, item["resource"], who, item["tenant_id"], item["team_id"], facts
        )
    return None


def _of_run(write: Write, item: Item, now: Instant) -> Event:
    kind = EventKind.LEASE if write.arrow in LEASE_ARROWS else EventKind.RUN
    facts = {name: item.get(name) for name in ("job_name", "status", "epoch", "attempt", "reason")}
    if kind is EventKind.RUN and item["status"] in FINAL and write.arrow != "drop":
        facts["final"] = True
    whose = item["tenant_id"], item.get("team_id", DEFAULT_TEAM)
    about, when = item["job_id"], item["scheduled_for"]
    return Event(kind, write.arrow, now, about, item.get("lease_owner"), *whose, facts, when)
