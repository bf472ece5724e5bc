"""What a run amounts to: the checker's verdict, and a few counts of our own that do not share its code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedkit.model.keys import run_key
from schedkit.model.runs import RECLAIM_MARGIN_MS
from schedkit.sim.checker import check
from schedkit.sim.history import Event

OPEN = ("RUNNING", "RETRY_WAIT")
DOWN = ("kill", "stop")


@dataclass
class Judgement:
    """The figures of one history and everything that is wrong with it."""

    figures: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    checked: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Claim:
    t: int
    node: str | None
    lease_end: int


def judged(events: list[Event], acked: Iterable[str], cancelled: set[str]) -> Judgement:
    """Count, and ask the checker."""
    judgement = counted(events, acked, cancelled)
    verdict = check(events)
    judgement.checked = {name: value for name, value in verdict.figures.items() if name != "lags_ms"}
    judgement.wrong += [f"{found.invariant} {found.check} {found.key}: {found.text}" for found in verdict.violations]
    return judgement


def counted(events: list[Event], acked: Iterable[str], cancelled: set[str]) -> Judgement:
    """The figures, and what is lost, early or unexplained."""
    ended = {(e["partition"], e["sort"]): e["after"] for e in events if e["kind"] == "store.commit" and e["after"]}
    calls = [event for event in events if event["kind"] == "target.call"]
    downs = [e for e in events if e["kind"] == "nemesis" and e["fault"] in DOWN]
    lost = sorted(_lost(acked, cancelled, ended, {call["job"] for call in calls}))
    early = [f"{call['key']} was called early" for call in calls if call["own"] < call["scheduled_for"]]
    explained, unexplained = duplicates(events)
    runs = [item for (_, sort), item in ended.items() if sort.startswith("RUN#")]
    return Judgement(
        {
            "jobs": sum(sort == "JOB" for _, sort in ended),
            "runs": len(runs),
            "calls": len(calls),
            "explained": explained,
            "unexplained": len(unexplained),
            "stale": sum(event["kind"] == "store.refused" for event in events),
            "kills": sum(event["fault"] == "kill" for event in downs),
            "stops": sum(event["fault"] == "stop" for event in downs),
            "lost": len(lost),
            "early": len(early),
        },
        [*lost, *early, *unexplained],
    )


def _lost(
    acked: Iterable[str], cancelled: set[str], ended: Mapping[tuple[str, str], Mapping[str, Any]], called: set[str]
) -> Iterable[str]:
    """Jobs that were acknowledged and are not there, not over, or never called; runs without an end.

    One that is to be called at most once may never be, where its executor died: it ends UNKNOWN.
    """
    for job_id in acked:
        item = ended.get((f"JOB#{job_id}", "JOB"))
        if item is None:
            yield f"{job_id} was acknowledged and is not there"
        elif item["status"] == "SCHEDULED":
            yield f"{job_id} has not ended"
        elif job_id not in cancelled and job_id not in called and item.get("status_reason") != "UNKNOWN":
            yield f"{job_id} was never called"
    for (partition, sort), item in ended.items():
        if sort.startswith("RUN#") and item["status"] in OPEN:
            yield f"{partition} {sort} has not ended: {item['status']}"


def duplicates(events: list[Event]) -> tuple[int, list[str]]:
    """Second calls of one attempt: how many a fault explains, and those that nothing does."""
    explained, unexplained = 0, []
    claims = _claims(events)
    downs = [event for event in events if event["kind"] == "nemesis" and event["fault"] in DOWN]
    latest: dict[tuple[str, int], Event] = {}
    for call in events:
        if call["kind"] != "target.call":
            continue
        first = latest.get((call["key"], call["attempt"]))
        latest[call["key"], call["attempt"]] = call
        if first is None:
            continue
        claim = claims.get((*run_key(call["job"], call["scheduled_for"]), first["token"]))
        if claim is not None and _fault_between(claim, call, downs):
            explained += 1
        else:
            unexplained.append(f"{call['key']} attempt {call['attempt']} was called again, and nothing explains it")
    return explained, unexplained


def _claims(events: list[Event]) -> dict[tuple[str, str, int], _Claim]:
    """Who held each epoch, from when on, and until when as it was said last."""
    claims: dict[tuple[str, str, int], _Claim] = {}
    for event in events:
        after = event.get("after")
        if event["kind"] == "store.commit" and after and after.get("claim_token") is not None:
            place = (event["partition"], event["sort"], after["epoch"])
            began = claims[place].t if place in claims else event["t"]
            claims[place] = _Claim(began, event["node"], after["lease_expires_at"])
    return claims


def _fault_between(claim: _Claim, second: Event, downs: list[Event]) -> bool:
    """Its caller was killed or stopped before the second call, or its lease had run out."""
    if second["t"] > claim.lease_end + RECLAIM_MARGIN_MS:
        return True
    return any(down["on"] == claim.node and claim.t <= down["t"] <= second["t"] for down in downs)
