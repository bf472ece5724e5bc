"""Reports: bars that say what was measured, and the line that does the same again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from schedkit.errors import InvalidInput
from schedkit.sim import report
from schedkit.sim.faults import Fault, Profile
from schedkit.sim.simulation import Settings


def test_every_lag_is_in_one_bar_and_empty_ends_are_left_out() -> None:
    lags = [-3, 0, 1, 1, 4, 999, 1_000, 59_999, 60_000, 7_200_000]
    found = report.bars(lags)
    assert sum(bar.runs for bar in found) == len(lags)
    assert [(bar.low_ms, bar.runs) for bar in found if bar.runs == 2] == [(1, 2)]
    assert found[0].high_ms == 0
    assert found[-1].low_ms == 3_600_000
    assert all(low.high_ms == high.low_ms for low, high in pairwise(found))
    assert [bar.low_ms for bar in report.bars([7, 70])] == [5, 10, 20, 50]
    assert report.bars([]) == []


def test_bars_read_as_spans_of_time() -> None:
    lines = report.histogram([-1, 0, 3, 700, 20_000, 4_000_000], 60)
    spans = [line[: line.index("  ")] for line in lines]
    assert [spans[0], spans[1], spans[2], spans[-1]] == ["early: clock ahead", "under 1 ms", "1 to 2 ms", "over 1 h"]
    assert {"2 to 5 ms", "500 ms to 1 s", "10 to 30 s", "30 s to 1 min", "1 to 2 min", "30 min to 1 h"} <= set(spans)


@pytest.mark.parametrize("plain", [False, True])
def test_a_bar_is_as_long_as_its_share_and_never_nothing_for_something(plain: bool) -> None:
    lines = report.histogram([1] * 1_000 + [3] * 500 + [30], 60, plain=plain)
    lengths = [len(line.split("  ")[-1]) if not line.endswith(" 0") else 0 for line in lines]
    assert max(map(len, lines)) <= 60
    assert lengths[1] == pytest.approx(lengths[0] / 2, abs=1)
    assert lengths[-1] == 1
    assert all(line.isascii() for line in lines) is plain
    assert report.histogram([], 60) == []


def test_what_brings_it_back_is_no_fault_and_a_crash_point_is_not_counted_twice() -> None:
    faults = {"kill": 5, "crash": 2, "boot": 5, "up": 1, "down": 1}
    assert report.injected(faults) == {"kills": 3, "crash points hit": 2, "outages": 1}
    assert report.injected({"kill": 2, "crash": 2}) == {"crash points hit": 2}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (Settings(7), "schedkit sim run --seed 7"),
        (Settings(7, hours=0.25, jobs=5, slots=2), "schedkit sim run --seed 7 --hours 0.25 --jobs 5 --slots 2"),
        (Settings(7, profile=Profile.CELL, faults=[]), "schedkit sim run --seed 7 --profile cell --faults none"),
        (Settings(7, faults=[Fault.STOP, Fault.KILL]), "schedkit sim run --seed 7 --faults kill,stop"),
        (Settings(7, faults=list(Fault)), "schedkit sim run --seed 7 --faults all"),
    ],
)
def test_the_line_to_repeat_says_what_was_chosen_and_no_more(settings: Settings, line: str) -> None:
    assert report.repeat(settings) == line


def test_shares() -> None:
    assert report.share_within([1, 2, 3, 4], 3) == 0.75
    assert report.share_within([], 3) == 1.0


def test_a_picture_has_a_panel_for_each(tmp_path: Path) -> None:
    path = tmp_path / "late.png"
    report.check_picture(path)
    report.picture(path, "late", {"5m": [1, 2, 3_000], "30m": [1], "none": []})
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidInput, match="cannot be written"):
        report.picture(tmp_path / "no" / "late.png", "late", {"5m": [1]})


def test_every_fault_has_its_words() -> None:
    assert set(report.WORDS) == set(Fault)
