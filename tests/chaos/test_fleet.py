"""Three real nodes on one file: the work is shared by claims alone, and a node that dies takes nothing along."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from schedkit.model.time import rfc3339
from schedkit.sim.history import Event, History
from tests.chaos import recording
from tests.chaos.harness import now_ms
from tests.chaos.judging import duplicates
from tests.chaos.machines import Machine, State, node
from tests.chaos.moods import target
from tests.e2e.processes import until

JOBS = 60
LEAD_MS = 1_500
SPREAD_MS = 2_000
OFFSETS_MS = (0, 300, -300)


@contextmanager
def fleet(folder: Path, history: History, failpoints: dict[str, str]) -> Iterator[list[Machine]]:
    database = folder / "shared.db"
    recording.watched(database)
    with ExitStack() as stack:
        nodes = [node(f"node-{n}", folder, database, history, offset) for n, offset in enumerate(OFFSETS_MS, 1)]
        for machine in nodes:
            stack.callback(machine.end)
            machine.boot(failpoints.get(machine.name))
        for machine in nodes:
            machine.wait_ready()
            history.add("world", "nemesis", fault="skew", on=machine.name, offset_ms=machine.offset_ms)
        yield nodes


def test_sixty_jobs_are_shared_by_three_nodes_one_of_which_dies_with_a_call_in_hand(tmp_path: Path) -> None:
    """Every job is called, or waits for the lease of the dead; none twice without a reason, none early."""
    history = History(now_ms)
    with (
        target(history, "fleet") as url,
        fleet(tmp_path, history, {"node-2": "after_call:kill"}) as nodes,
    ):
        jobs = create(nodes, url)
        until(lambda: nodes[1].state is State.DEAD or None, "the death of node-2")
        nodes[1].tell("kill")
        nodes[1].boot()

        def over() -> bool | None:
            left = jobs - {event["job"] for event in list(history.events) if event["kind"] == "target.call"}
            return left <= held_by_the_dead(list(recording.commits(tmp_path / "shared.db"))) or None

        until(over, "call of every job", patience_s=60)
        told = list(history.events)
        commits = list(recording.commits(tmp_path / "shared.db"))  # of every call that was told there is a claim
        events = recording.merged(told, commits)

    calls = [event for event in events if event["kind"] == "target.call"]
    assert not [call["key"] for call in calls if call["own"] < call["scheduled_for"]], "never early"
    explained, unexplained = duplicates(events)
    assert not unexplained
    assert explained == 0, "no lease has ended yet, so nobody may call again"
    assert len(held_by_the_dead(commits)) <= JOBS / len(nodes), "no more than it was given"
    owners = {event["node"] for event in calls}
    assert len(owners) >= 2, "who is first takes all, but the dead cannot"


def create(nodes: list[Machine], url: str) -> set[str]:
    """The ids of jobs that are due in a moment, made at all doors."""
    start = int(time.time() * 1_000) + LEAD_MS
    made = set()
    for number, machine in enumerate(nodes):
        jobs = [
            {
                "schedule": {"type": "ONCE", "run_at": rfc3339(start + n * SPREAD_MS // JOBS)},
                "target": {"url": f"{url}/ok", "timeout_seconds": 2},
            }
            for n in range(number, JOBS, len(nodes))
        ]
        answer = httpx.post(f"{machine.url}/v1/jobs:batchCreate", json={"jobs": jobs}, timeout=10)
        made |= {result["job"]["job_id"] for result in answer.json()["results"]}
    return made


def held_by_the_dead(commits: list[Event]) -> set[str]:
    """Jobs whose run was claimed in the life that ended, and not recorded: they wait for the end of its lease."""
    latest = {(event["partition"], event["sort"]): event["after"] for event in commits}
    return {run["job_id"] for run in latest.values() if run.get("lease_owner") == "node-2.1"}
