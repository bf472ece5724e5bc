"""The pace of a redrive: whatever stalls, no sliding second has more than the cap (I19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.engine.failure.redrive_pace import MAX_BATCH, pace_of
from schedkit.model.redrives import MAX_PER_SECOND

EARLY_MS = 0.9  # a sleep may end this much too soon
Second = tuple[float, int]


def most_in_a_second(events: list[Second]) -> int:
    """The largest sum of counts in any window of 1,000 ms, its end not included."""
    return max(sum(count for at, count in events if start <= at < start + 1_000) for start in (at for at, _ in events))


@given(
    cap=st.integers(1, MAX_PER_SECOND),
    stalls=st.lists(st.floats(0, 3_000) | st.just(0.0), min_size=1, max_size=120),
    early=st.floats(0, EARLY_MS),
)
def test_no_sliding_second_has_more_releases_than_the_cap(cap: int, stalls: list[float], early: float) -> None:
    pace, at, released = pace_of(cap), 0.0, list[Second]()
    for stall_ms in stalls:
        at += pace.gap_ms - early + stall_ms
        released.append((at, pace.batch))
    assert most_in_a_second(released) <= cap


@given(
    cap=st.integers(1, 300),
    waits=st.lists(st.floats(0, 40) | st.floats(900, 3_500), min_size=1, max_size=60),
)
def test_no_sliding_second_has_more_starts_than_one_over_the_cap(cap: int, waits: list[float]) -> None:
    """Executors stand still for as long as `waits` says, and then start at once whatever has piled up."""
    pace = pace_of(cap)
    at, free_at, waiting = 0.0, 0.0, 0
    starts: list[Second] = []
    for wait_ms in waits:
        at += pace.gap_ms
        if waiting + pace.batch > pace.unstarted:
            at = max(at, free_at + pace.gap_ms)
        if at >= free_at:
            if waiting:
                starts.append((free_at, waiting))
            waiting, free_at = 0, at + wait_ms
        waiting += pace.batch
        assert waiting <= max(pace.unstarted, pace.batch)
    starts.append((max(at, free_at), waiting))
    assert most_in_a_second(starts) <= cap + 1


@pytest.mark.parametrize("cap", [1, 2, 10, 49, 50, 51, 99, 100, 1_000, MAX_PER_SECOND])
def test_a_pace_uses_most_of_its_cap(cap: int) -> None:
    pace = pace_of(cap)
    assert 1 <= pace.batch <= min(pace.unstarted, MAX_BATCH)
    assert pace.per_second <= cap
    assert pace.per_second >= min(cap * 0.8, 5_000)
