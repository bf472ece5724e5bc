"""The timeline: the story of one run or one job, a line for each event that concerns it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from schedkit.model.time import SECOND_MS, Instant, parse_rfc3339
from schedkit.sim.history import Event

SHOWN: Final = ("epoch", "attempt", "lease_owner", "lease_expires_at", "not_before", "next_run_at", "held", "reason")
MOMENTS: Final = frozenset({"lease_expires_at", "not_before", "next_run_at", "held"})
CALLS: Final = frozenset({"target.effect", "target.reply"})
HEARD: Final = frozenset({"api.ok", "api.fail", "api.info"})


def timeline(events: Iterable[Event], key: str) -> list[str]:
    """The lines of a run id or a job id. Times are seconds from scheduled_for; of a job, from its first event."""
    job_id, _, when = key.partition(":")
    kept = list(_concerning(list(events), job_id, key if when else None))
    zero = parse_rfc3339(when) if when else (kept[0]["t"] if kept else 0)
    return [f"{_since(event['t'], zero)}  {event['node']:<12} {_told(event, zero)}" for event in kept]


def _concerning(events: list[Event], job_id: str, run_id: str | None) -> Iterator[Event]:
    partition = f"JOB#{job_id}"
    at = parse_rfc3339(run_id.partition(":")[2]) if run_id is not None else None
    calls = {e["call"] for e in events if e["kind"] == "target.call" and _called(e, job_id, at)}
    asked = {e["call"] for e in events if e["kind"].startswith("api.") and e.get("job") == job_id}
    holders = _holders(events, partition, at)
    for event in events:
        kind = event["kind"]
        if kind.startswith(("store.", "queue.")):
            if event["partition"] == partition and _item(event, at):
                yield event
        elif kind == "target.call" or kind in CALLS:
            if event["call"] in calls:
                yield event
        elif kind.startswith("api."):
            if event["call"] in asked:
                yield event
        elif kind == "nemesis":
            first, last = holders.get(event.get("on") or "", (1, 0))
            if first - 60 * SECOND_MS <= event["t"] <= last + 60 * SECOND_MS:
                yield event
        elif kind in ("heal", "end"):
            yield event


def _item(event: Event, at: Instant | None) -> bool:
    """Of the job, or of the one run; the job's own writes belong to the story of a run when they are about it."""
    sort = event["sort"]
    if at is None:
        return True
    if sort.startswith("RUN#"):
        return int(sort[4:]) == at
    before, after = event.get("before") or {}, event.get("after") or {}
    names = ("next_run_at", "held", "last_run", "last_triggered")
    if event["kind"] != "store.commit":
        return False
    return event.get("before") is None or any(at in (before.get(name), after.get(name)) for name in names)


def _called(event: Event, job_id: str, at: Instant | None) -> bool:
    return bool(event["job"] == job_id and (at is None or event["scheduled_for"] == at))


def _holders(events: list[Event], partition: str, at: Instant | None) -> dict[str, tuple[Instant, Instant]]:
    """From when to when each process had to do with it."""
    found: dict[str, tuple[Instant, Instant]] = {}
    for event in events:
        if event["kind"] != "store.commit" or event["partition"] != partition or not event["sort"].startswith("RUN#"):
            continue
        if at is not None and int(event["sort"][4:]) != at:
            continue
        for node in (event["node"], (event.get("after") or {}).get("lease_owner")):
            if node is not None:
                first, _ = found.get(node, (event["t"], event["t"]))
                found[node] = first, event["t"]
    return found


def _told(event: Event, zero: Instant) -> str:
    kind = event["kind"]
    match kind:
        case "store.commit":
            return _commit(event, zero)
        case "store.refused":
            return f"{event['arrow']} refused ({event['sort'][:3]}; tag {event.get('tag')}, epoch {event.get('epoch')})"
        case "target.call":
            off = event["own"] - event["t"] if event.get("own") is not None else 0
            clock = f", its clock {off:+} ms" if off else ""
            return f"CALL {event['call']} token {event['token']} attempt {event['attempt']}{clock}"
        case "target.effect":
            return f"call {event['call']} took effect"
        case "target.reply":
            return f"call {event['call']} answered {event.get('status')}"
        case "api.invoke":
            return f"asks {event['op']}"
        case "nemesis":
            known = ("t", "node", "kind", "fault", "on")
            rest = " ".join(f"{name}={value}" for name, value in event.items() if name not in known)
            return f"*** {event['fault']} {event.get('on') or ''} {rest}".rstrip()
    if kind in HEARD:
        return f"hears {kind.removeprefix('api.')} {event.get('status') or ''} {event.get('reason') or ''}".rstrip()
    if kind.startswith("queue."):
        return f"{kind} {event['sort'][:3]}"
    return f"*** {kind}"


def _commit(event: Event, zero: Instant) -> str:
    before: Any = event.get("before") or {}
    after: Any = event.get("after")
    what = "job" if not event["sort"].startswith("RUN#") else "run"
    if after is None:
        return f"{what}: forgotten"
    changed = []
    for name in SHOWN:
        if before.get(name) != after.get(name):
            value = after.get(name)
            shown = _since(value, zero).strip() if name in MOMENTS and value is not None else value
            changed.append(f"{name}={shown}")
    move = f"{before.get('status') or '(none)'} → {after.get('status')}"
    return f"{what}: {event['arrow']}: {move}  {' '.join(changed)}".rstrip()


def _since(t: Instant, zero: Instant) -> str:
    return f"{(t - zero) / SECOND_MS:+12.3f}"
