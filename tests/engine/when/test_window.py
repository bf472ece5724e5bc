"""Where in its window a job starts (W6)."""

from __future__ import annotations

from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from schedkit.engine.when.window import dispatch_at, offset_ms
from tests.engine.making import NOON, job


@given(st.text(st.characters(codec="utf-8"), max_size=40), st.integers(1, 86_400_000))
def test_a_place_is_a_hash_of_the_id_within_the_window(job_id: str, window_ms: int) -> None:
    digest = int.from_bytes(blake2b(job_id.encode(), digest_size=8).digest(), "big")
    assert offset_ms(job_id, window_ms) == digest % window_ms < window_ms


def test_a_place_is_the_same_on_every_machine_and_in_every_version() -> None:
    """A change of these numbers would move every job of every user."""
    ids = ("job_x", "job_01ARZ3NDEKTSV4RRFFQ69G5FAV", "")
    assert [offset_ms(job_id, 300_000) for job_id in ids] == [83107, 176083, 69876]


@given(st.integers(0, 86_400_000), st.integers(0, 10**12))
def test_a_window_moves_a_start_later_and_never_earlier_by_the_same_each_time(window_ms: int, at: int) -> None:
    windowed = job(window_ms=window_ms)
    assert at <= dispatch_at(windowed, at) < at + max(1, window_ms)
    assert dispatch_at(windowed, at) - at == dispatch_at(windowed, NOON) - NOON


def test_a_strict_job_has_no_offset() -> None:
    assert dispatch_at(job(window_ms=0), NOON) == NOON


def test_places_of_many_jobs_spread_over_the_whole_window() -> None:
    tenths = [offset_ms(f"job_{n}", 1_000) // 100 for n in range(5_000)]
    counts = [tenths.count(tenth) for tenth in range(10)]
    assert min(counts) > 400
    assert max(counts) < 600
