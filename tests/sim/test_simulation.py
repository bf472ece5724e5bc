"""A whole simulation: one seed is one history, whatever machine runs it; and what goes wrong in it is seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from schedkit.roles.executor import Executor
from schedkit.sim.faults import Fault, Profile, drawn
from schedkit.sim.fleet import MEMBERS
from schedkit.sim.simulation import Result, Settings, simulate
from schedkit.sim.storm import Storm

HOURS = 0.15
JOBS = 12
DIGESTS = f"""
from schedkit.sim.faults import Fault, Profile
from schedkit.sim.simulation import Settings, simulate
for profile in Profile:
    print(simulate(Settings(5, hours={HOURS}, jobs={JOBS}, profile=profile, faults=tuple(Fault))).digest)
"""


def short(seed: int = 1, **settings: object) -> Result:
    return simulate(Settings(seed, hours=HOURS, jobs=JOBS, **settings))  # type: ignore[arg-type]


def kinds(result: Result) -> Counter[str]:
    return Counter(event["kind"] for event in result.history.events)


def test_one_seed_is_one_history_in_two_processes_under_two_hash_seeds() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(set(told[0].split())) == len(Profile)


def test_two_seeds_are_two_histories() -> None:
    assert short(1).digest != short(2).digest


@pytest.mark.parametrize("profile", Profile)
def test_in_calm_weather_every_run_is_called_once_and_on_time(profile: Profile) -> None:
    """I11: with no fault there is no duplicate; the promise of lateness is a second for a strict job."""
    result = short(3, profile=profile, faults=())
    assert result.verdict.violations == ()
    seen = kinds(result)
    assert seen["target.call"] == seen["target.effect"] == seen["target.reply"] > JOBS
    assert seen["nemesis"] == 0
    calls = Counter(event["key"] for event in result.history.events if event["kind"] == "target.call")
    assert set(calls.values()) == {1}


@pytest.mark.parametrize("profile", Profile)
def test_with_every_fault_on_every_promise_holds(profile: Profile) -> None:
    result = short(4, profile=profile, faults=tuple(Fault))
    assert result.verdict.violations == ()
    assert kinds(result)["nemesis"] > len(MEMBERS[profile])


def test_when_all_buckets_are_lost_everything_is_back_within_45_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """I13: their mark is gone with them, so nothing has to wait for the sweep."""

    async def lose_all(self: Storm, chance: Random) -> None:
        self._ground.nemesis("lose_buckets", "buckets", share=1.0, lost=self._fleet.buckets.lose(1.0, chance))

    monkeypatch.setattr(Storm, "_lose_buckets", lose_all)
    result = simulate(Settings(3, hours=0.4, jobs=20, profile=Profile.CELL, faults=[Fault.CACHE]))
    assert result.verdict.violations == ()
    assert any(event.get("lost") for event in result.history.events)
    assert 1_000 < max(result.verdict.figures["lags_ms"]) < 45_000


def test_what_the_product_raises_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Executor, timer: object) -> None:
        raise IndexError("a bug")

    monkeypatch.setattr(Executor, "handle", broken)
    found = {violation.check for violation in short(1, faults=()).verdict.violations}
    assert "raised" in found


def test_a_process_that_answers_nothing_is_seen_by_what_it_did_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(self: Executor, timer: object) -> None:
        return None

    monkeypatch.setattr(Executor, "handle", idle)
    found = {violation.invariant for violation in short(1, faults=()).verdict.violations}
    assert "I2" in found


def test_a_seed_draws_its_weather_and_what_is_asked_for_is_not_drawn() -> None:
    worlds = [drawn(seed) for seed in range(300)]
    assert {world.profile for world in worlds} == set(Profile)
    assert {fault for world in worlds for fault in world.faults} == set(Fault)
    assert {world.mode for world in worlds} == {"swarm", "crash", "single", "all", "calm"}
    chosen = drawn(7, Profile.EMBEDDED, [Fault.KILL, Fault.CUT])
    assert chosen.profile is Profile.EMBEDDED
    assert chosen.faults == {Fault.KILL}, "a process that is alone cannot be cut off from itself"


def test_a_document_has_what_a_program_needs() -> None:
    document = short(1).document
    assert {"seed", "digest", "violations", "figures", "profile", "faults"} <= document.keys()
    assert document["violations"] == []
