"""What becomes of a run whose holder let its lease end (skew-01, C7, F7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedkit.engine.failure.reap import MAX_RECLAIMS, Reclaim, Wait, reap
from schedkit.model.calls import Dead, Unknown
from schedkit.model.jobs import Delivery
from schedkit.model.time import parse_rfc3339
from tests.cases import load
from tests.engine.making import claimed

SKEW = next(case for case in load() if case.id == "skew-01")
LEASE_END = parse_rfc3339(SKEW.input["lease_expires_at"])
LOST = replace(claimed(), lease_expires_at=LEASE_END)


@pytest.mark.parametrize(
    ("clock", "reclaims"), list(zip(SKEW.input["reaper_clocks"], SKEW.expected["reclaim"], strict=True))
)
def test_a_lease_has_ended_when_it_ended_more_than_the_margin_ago(clock: str, reclaims: bool) -> None:
    decision = reap(LOST, Delivery.AT_LEAST_ONCE, parse_rfc3339(clock))
    assert isinstance(decision, Reclaim) is reclaims, SKEW.why
    if not reclaims:
        assert decision == Wait(LEASE_END + SKEW.input["margin_seconds"] * 1_000 + 1)


def test_an_at_most_once_run_is_unknown_once_its_lease_has_ended_and_not_before() -> None:
    assert isinstance(reap(LOST, Delivery.AT_MOST_ONCE, LEASE_END + 5_000), Wait)
    assert isinstance(reap(LOST, Delivery.AT_MOST_ONCE, LEASE_END + 5_001), Unknown)


def test_a_run_that_lost_ten_holders_in_a_row_is_dead() -> None:
    """poison-01: with the first claim, ten."""
    now = LEASE_END + 60_000
    assert isinstance(reap(replace(LOST, reclaims=MAX_RECLAIMS - 1), Delivery.AT_LEAST_ONCE, now), Reclaim)
    dead = reap(replace(LOST, reclaims=MAX_RECLAIMS), Delivery.AT_LEAST_ONCE, now)
    assert isinstance(dead, Dead)
    assert (dead.reason, MAX_RECLAIMS) == ("POISON", 9)
    assert dead.error.startswith("10 ")
