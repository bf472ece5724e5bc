"""The counts of the harness itself: what it takes for lost, early and unexplained, and how it puts events in order."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.model.time import rfc3339
from schedkit.sim.history import Event
from tests.chaos.judging import counted, duplicates
from tests.chaos.recording import arrow_of, merged

DUE = 1_800_000_000_000
JOB = "job_A"
LEASE_END = DUE + 61_000


def commit(t: int, sort: str, before: dict[str, Any] | None, after: dict[str, Any]) -> Event:
    place = {"partition": f"JOB#{JOB}", "sort": sort, "arrow": arrow_of(sort, before, after)}
    owner = (after.get("lease_owner") or (before or {}).get("lease_owner") or "world").partition(".")[0]
    rest = {"tag": None, "batch": None, "own": None}
    return {"t": t, "node": owner, "kind": "store.commit", **place, "before": before, "after": after, **rest}


def run(status: str, epoch: int, owner: str | None) -> dict[str, Any]:
    held = {"lease_owner": owner, "claim_token": f"{owner}/{epoch}", "lease_expires_at": LEASE_END}
    return {"status": status, "epoch": epoch, "attempt": 1, **(held if owner else {})}


def claim(t: int, epoch: int, owner: str, before: dict[str, Any] | None = None) -> Event:
    return commit(t, f"RUN#{DUE:015}", before, run("RUNNING", epoch, owner))


def call(t: int, number: int, token: int) -> Event:
    key = f"{JOB}:{rfc3339(DUE)}"
    about = {"call": number, "key": key, "job": JOB, "scheduled_for": DUE, "token": token, "attempt": 1}
    return {"t": t, "node": "world", "kind": "target.call", **about, "timeout_ms": 1_000, "own": None, "url": "/ok"}


def nemesis(t: int, fault: str, on: str, **details: Any) -> Event:
    return {"t": t, "node": "world", "kind": "nemesis", "fault": fault, "on": on, **details}


def called_twice(second_at: int, *between: Event) -> list[Event]:
    first = claim(DUE, 1, "node-1.1")
    second = claim(second_at - 1, 2, "node-2.1", first["after"])
    return merged([first, call(DUE + 5, 1, 1), *between, second, call(second_at, 2, 2)])


def test_a_second_call_that_nothing_explains_is_told() -> None:
    explained, unexplained = duplicates(called_twice(DUE + 1_000))
    assert explained == 0
    assert len(unexplained) == 1


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_a_fault_of_the_first_caller_explains_a_second_call_and_one_of_another_does_not(fault: str) -> None:
    assert duplicates(called_twice(DUE + 1_000, nemesis(DUE + 500, fault, "node-1"))) == (1, [])
    assert duplicates(called_twice(DUE + 1_000, nemesis(DUE + 500, fault, "node-3")))[0] == 0


def test_a_lease_that_is_over_explains_a_second_call() -> None:
    assert duplicates(called_twice(LEASE_END + 5_001))[0] == 1
    assert duplicates(called_twice(LEASE_END + 4_999))[0] == 0


def test_a_call_gets_its_caller_from_the_claim_and_its_time_from_that_callers_clock() -> None:
    events = merged(
        [nemesis(DUE - 9, "skew", "node-1", offset_ms=-300), claim(DUE, 1, "node-1.4"), call(DUE + 5, 1, 1)]
    )
    made = events[-1]
    assert (made["node"], made["own"]) == ("node-1", DUE - 295)
    assert counted(events, [], set()).figures["early"] == 1


def test_what_arrives_from_the_dead_was_sent_before_they_died() -> None:
    events = called_twice(DUE + 9_000, nemesis(DUE + 2, "kill", "node-1"), nemesis(DUE + 50, "boot", "node-1"))
    first = next(event for event in events if event["kind"] == "target.call")
    assert first["t"] == DUE + 2


def test_within_a_millisecond_a_claim_comes_before_its_call_and_an_answer_before_its_record() -> None:
    claimed = claim(DUE, 1, "node-1.1")
    settled = commit(DUE, f"RUN#{DUE:015}", claimed["after"], run("SUCCEEDED", 1, None))
    replied = {"t": DUE, "node": "ok", "kind": "target.reply", "call": 1, "status": 200}
    kinds = [event["kind"] for event in merged([replied, call(DUE, 1, 1), claimed])]
    assert kinds == ["store.commit", "target.call", "target.reply"]
    kinds = [event["kind"] for event in merged([call(DUE - 1, 1, 1), settled, replied])]
    assert kinds == ["target.call", "target.reply", "store.commit"]


@pytest.mark.parametrize(
    ("status", "reason", "lost"),
    [("COMPLETED", None, 1), ("FAILED", "UNKNOWN", 0), ("CANCELLED", None, 1), ("SCHEDULED", None, 1)],
)
def test_a_job_that_was_acknowledged_and_never_called_is_lost_unless_it_may_be_called_at_most_once(
    status: str, reason: str | None, lost: int
) -> None:
    events = [commit(DUE, "JOB", None, {"status": status, "status_reason": reason, "version": 1})]
    assert counted(events, [JOB], set()).figures["lost"] == lost


def test_a_job_that_is_not_there_is_lost_and_one_that_was_cancelled_need_not_run() -> None:
    assert counted([], [JOB], set()).figures["lost"] == 1
    events = [commit(DUE, "JOB", None, {"status": "CANCELLED", "version": 1})]
    assert counted(events, [JOB], {JOB}).figures["lost"] == 0
