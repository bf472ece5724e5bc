"""The swarm: one document a seed, in order, whatever becomes of the processes that make them."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from schedkit.sim import swarm
from schedkit.sim.simulation import Settings
from schedkit.sim.swarm import Totals

SHORT = Settings(0, hours=0.05, jobs=3)
SEEDS = Path(__file__).with_name("seeds.txt")
DIES = 3


def fake(settings: Settings) -> dict[str, Any]:
    """A seed that takes no time; one of them takes its process with it."""
    if settings.seed == DIES:
        os._exit(1)
    return {"seed": settings.seed}


def quick(settings: Settings) -> dict[str, Any]:
    return {"seed": settings.seed}


def test_seeds_in_processes_are_told_in_order_and_say_what_they_say_here() -> None:
    here = [swarm.simulated(Settings(seed, SHORT.hours, SHORT.jobs)) for seed in (5, 6)]
    there = list(swarm.swarm(SHORT, [5, 6], workers=2))
    assert [doc["seed"] for doc in there] == [5, 6]
    assert [doc["digest"] for doc in there] == [doc["digest"] for doc in here]
    assert "lags_ms" not in there[0]["figures"]
    assert there[0]["repeat"] == "schedkit sim run --seed 5 --hours 0.05 --jobs 3"


def test_a_worker_that_dies_is_its_seeds_failure_and_no_others() -> None:
    told = list(swarm.swarm(SHORT, [1, DIES, 4], workers=2, simulate_one=fake))
    assert [doc["seed"] for doc in told] == [1, DIES, 4]
    assert told[1]["violations"][0]["check"] == "worker_died"
    assert [doc["seed"] for doc in told if "violations" in doc] == [DIES]
    assert multiprocessing.active_children() == []


def test_who_stops_listening_leaves_no_process_behind() -> None:
    told = swarm.swarm(SHORT, range(50), workers=2, simulate_one=quick)
    assert next(told)["seed"] == 0
    told.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_what_raises_is_a_failure_of_that_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: Settings) -> None:
        raise RuntimeError(f"no world for {settings.seed}")

    monkeypatch.setattr(swarm, "simulate", broken)
    (doc,) = swarm.swarm(SHORT, [9], workers=4)
    assert doc["violations"][0]["text"] == "RuntimeError: no world for 9"
    totals = Totals()
    totals.add(doc)
    assert (totals.failed, totals.document["violations"]) == (1, {"raised": 1})


def test_totals_add_up() -> None:
    docs = list(swarm.swarm(SHORT, [5, 6], workers=1))
    totals = Totals()
    for doc in docs:
        totals.add(doc)
    assert totals.document["seeds"] == 2
    assert totals.document["simulated_hours"] == 0.1
    assert totals.document["calls"] == sum(doc["figures"]["calls"] for doc in docs)
    assert totals.machine["cpu_seconds"] >= 0
    assert Totals().machine["simulated_per_cpu_second"] is None


def test_the_seeds_of_the_repository_can_be_read() -> None:
    assert len(swarm.read_seeds(SEEDS)) == len(set(swarm.read_seeds(SEEDS)))
