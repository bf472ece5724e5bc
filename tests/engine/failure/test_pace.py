"""H6: how many runs of lost workers may be given to others, and when none may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.engine.failure.pace import (
    HEARTBEATS_MISSING,
    LEAST_A_WINDOW,
    MASS_EXPIRY,
    NOBODY_HEARD,
    RECOVERING,
    SHARE_A_WINDOW,
    WELL_FOR_MS,
    WINDOW_MS,
    Census,
    Pace,
    heartbeat_every_ms,
    paced,
    spent,
)
from schedkit.model.time import SECOND_MS

GOING = Pace(suspended=None, well_since=0)
PASS_MS = 5 * SECOND_MS


def census(live: int = 100, ended: int = 1, heartbeats: int | None = None, heard: bool = True) -> Census:
    return Census(live, ended, 3 * live if heartbeats is None else heartbeats, heard)


def test_a_few_lost_runs_are_given_back_at_once() -> None:
    pace, allowed = paced(GOING, census(ended=3), 60_000)
    assert (pace.suspended, allowed) == (None, 3)


def test_the_death_of_one_of_few_workers_is_no_outage() -> None:
    """Twenty of twenty leases: a large share, and a small number."""
    pace, allowed = paced(GOING, census(live=0, ended=20, heartbeats=0), 60_000)
    assert (pace.suspended, allowed) == (None, LEAST_A_WINDOW)


def test_no_more_go_back_in_one_window_than_its_cap() -> None:
    pace, allowed = paced(GOING, census(live=5_000, ended=40), 60_000)
    assert allowed == 40
    pace, allowed = paced(spent(pace, 40), census(live=5_000, ended=40), 60_000 + PASS_MS)
    assert allowed == 10
    _, allowed = paced(spent(pace, 10), census(live=5_000, ended=40), 60_000 + WINDOW_MS)
    assert allowed == 40


def test_nothing_goes_back_while_no_worker_is_heard_of() -> None:
    pace, allowed = paced(GOING, census(heard=False), 60_000)
    assert (pace.suspended, allowed) == (NOBODY_HEARD, 0)


def test_a_start_waits_until_workers_have_been_heard_of_for_half_a_minute() -> None:
    pace, allowed = paced(Pace(), census(), 0)
    assert (pace.suspended, allowed) == (RECOVERING, 0)
    pace, allowed = paced(pace, census(), WELL_FOR_MS - 1)
    assert allowed == 0
    pace, allowed = paced(pace, census(), WELL_FOR_MS)
    assert (pace.suspended, allowed) == (None, 1)


def test_leases_that_end_together_are_not_believed_for_half_a_minute_and_then_drain_at_the_cap() -> None:
    lost = census(live=900, ended=100)
    pace, allowed = paced(GOING, lost, 0)
    assert (pace.suspended, allowed) == (MASS_EXPIRY, 0)
    pace, allowed = paced(pace, lost, WELL_FOR_MS - 1)
    assert (pace.suspended, allowed) == (MASS_EXPIRY, 0)
    given_back, now = 0, WELL_FOR_MS
    while given_back < 100:
        pace, allowed = paced(pace, census(live=900, ended=100 - given_back), now)
        assert pace.suspended is None
        assert allowed <= LEAST_A_WINDOW
        given_back += allowed
        pace, now = spent(pace, allowed), now + PASS_MS
    assert now == WELL_FOR_MS + 9 * WINDOW_MS + PASS_MS


def test_missing_heartbeats_suspend_and_time_begins_anew_when_they_go_missing_again() -> None:
    few = census(live=1_000, ended=20, heartbeats=1_000)
    pace, allowed = paced(GOING, few, 0)
    assert (pace.suspended, allowed) == (HEARTBEATS_MISSING, 0)
    pace, _ = paced(pace, census(live=1_000, ended=20), 10_000)
    assert pace.suspended == RECOVERING
    pace, _ = paced(pace, few, 30_000)
    pace, _ = paced(pace, census(live=1_000, ended=20), 35_000)
    _, allowed = paced(pace, census(live=1_000, ended=20), 45_000)
    assert allowed == 0


def test_a_clock_that_is_set_back_delays_and_does_not_block() -> None:
    pace, _ = paced(Pace(), census(), 1_000_000)
    pace, allowed = paced(pace, census(), 500_000)
    assert allowed == 0
    _, allowed = paced(pace, census(), 500_000 + WELL_FOR_MS)
    assert allowed == 1


passes = st.lists(
    st.tuples(
        st.integers(1, 20_000),
        st.builds(Census, st.integers(0, 20_000), st.integers(0, 20_000), st.integers(0, 60_000), st.booleans()),
    ),
    max_size=60,
)


@given(passes)
def test_whatever_comes_no_window_gives_back_more_than_its_cap(story: list[tuple[int, Census]]) -> None:
    pace, now = Pace(), 0
    window: list[tuple[int, int, int]] = []
    for step_ms, found in story:
        now += step_ms
        pace, allowed = paced(pace, found, now)
        assert 0 <= allowed <= found.ended
        assert allowed == 0 or pace.suspended is None
        pace = spent(pace, allowed)
        window = [(at, count, cap) for at, count, cap in window if at >= pace.window_began]
        window.append((now, allowed, max(LEAST_A_WINDOW, int(SHARE_A_WINDOW * found.live))))
        assert sum(count for _, count, _ in window) <= max(cap for _, _, cap in window)


@pytest.mark.parametrize(("lease_s", "every_ms"), [(30, 10_000), (3_600, 10_000), (5, 1_666)])
def test_two_heartbeats_may_be_lost_before_a_lease_is(lease_s: int, every_ms: int) -> None:
    assert heartbeat_every_ms(lease_s * SECOND_MS) == every_ms
