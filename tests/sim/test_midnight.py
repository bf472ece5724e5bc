"""Midnight: the source's figures, and a night that is really run: calm, without its cache, with too few executors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedkit.errors import InvalidInput
from schedkit.sim import midnight
from schedkit.sim.faults import Fault
from schedkit.sim.midnight import Night

USUAL = Night(10_000_000, 5_000, 114, 500, 100, frozenset(), 1)
SMALL = replace(USUAL, factor=100_000)
FIVE_MINUTES, HALF_AN_HOUR = 300_000, 1_800_000


@pytest.mark.parametrize(
    ("window_ms", "per_second", "executors"), [(FIVE_MINUTES, 36_782, 114), (HALF_AN_HOUR, 9_005, 29)]
)
def test_the_figures_of_the_usual_night(window_ms: int, per_second: int, executors: int) -> None:
    assert round(USUAL.needed(window_ms)) == per_second
    assert USUAL.executors_needed(window_ms) == executors
    assert USUAL.strict_executors == 15
    assert USUAL.had() == 57_000
    assert replace(USUAL, latency_ms=3_000).had() == pytest.approx(14_943, abs=1)


def test_a_calm_night_is_on_time_and_the_same_twice() -> None:
    doc, lags_ms = midnight.midnight(SMALL, [FIVE_MINUTES])
    (variant,) = doc["variants"]
    assert variant["due"] == variant["started"] > 100
    assert variant["slo_kept"] == {"crowd": True, "strict": True}
    assert variant["violations"] == []
    assert variant["called_again"] == 0
    assert len(lags_ms["5m"]) == 100
    assert min(lags_ms["5m"]) >= 0
    again, _ = midnight.midnight(SMALL, [FIVE_MINUTES])
    assert again["variants"][0]["digest"] == variant["digest"]
    assert doc["answer"] == "Every job starts: none is lost. All of the crowd start within 1 s of their place."


def test_without_its_cache_the_night_is_late_and_nothing_is_lost() -> None:
    doc, lags_ms = midnight.midnight(replace(SMALL, faults=frozenset({Fault.CACHE})), [FIVE_MINUTES])
    (variant,) = doc["variants"]
    assert variant["due"] == variant["started"]
    assert variant["violations"] == []
    assert not variant["slo_kept"]["crowd"]
    assert 5_000 < max(lags_ms["5m"]) < 45_000, "I13"
    assert doc["question"].endswith("what happens to them if the cache dies?")
    assert "fills them again from the store" in doc["answer"]


def test_too_few_executors_are_named() -> None:
    doc, _ = midnight.midnight(replace(SMALL, executors=5), [60_000])
    (variant,) = doc["variants"]
    assert variant["started"] < variant["due"]
    assert "2,500 runs/s are too few for 170,116." in doc["answer"]


def test_executors_that_die_and_targets_that_fail_lose_nothing() -> None:
    faults = frozenset({Fault.KILL, Fault.CRASH, Fault.TARGETS, Fault.DUPLICATE})
    (variant,) = midnight.midnight(replace(SMALL, faults=faults), [FIVE_MINUTES])[0]["variants"]
    assert variant["due"] == variant["started"]
    assert variant["violations"] == []


def test_a_scale_that_says_nothing_is_refused_with_one_that_does() -> None:
    midnight.check(USUAL, [FIVE_MINUTES])
    for night in (replace(USUAL, factor=5_000_000), replace(USUAL, factor=1), replace(USUAL, jobs=5, factor=1)):
        with pytest.raises(InvalidInput) as refusal:
            midnight.check(night, [FIVE_MINUTES])
        assert refusal.value.field == "--factor"
        assert refusal.value.fix
