"""The engine agrees with the oracle on every night on which any zone changes its clocks, 2024 to 2030 (W3, W4, W5)."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from schedkit.engine.when import cron as crons
from schedkit.model.schedules import Cron, GapPolicy, RepeatPolicy
from schedkit.model.time import MINUTE_MS
from tests.engine.when.oracle import FIXED, FREE, Known, Night, first_after, rule_sets, utc

POLICIES = tuple(itertools.product(GapPolicy, RepeatPolicy))
SHARES = 12  # so that several processes can take a part each

# Nights outside 2024 to 2030 that taught somebody something.
ODD_NIGHTS = (
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),  # a day of the calendar left out
    ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),  # likewise
    ("America/St_Johns", "2010-11-07T02:31:00Z"),  # one minute past midnight, back to the day before
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),  # midnight missing
    ("Asia/Pyongyang", "2018-05-04T15:00:00Z"),  # half an hour, for good
    ("Europe/Dublin", "2019-10-27T01:00:00Z"),  # winter time written as negative summer time
    ("America/Caracas", "2016-05-01T07:00:00Z"),
    ("Antarctica/Casey", "2018-03-10T17:00:00Z"),  # three hours back
    ("Antarctica/Casey", "2020-10-03T16:01:00Z"),  # three hours forward, at one minute past
)


def chain(cron: Cron, start: int, end: int) -> list[int]:
    """The engine's occurrences in (start, end], each asked for from the one before, in UTC minutes."""
    found: list[int] = []
    at = start * MINUTE_MS
    while (occurrence := crons.next_after(cron, at)) is not None:
        assert occurrence.scheduled_for > at
        at = occurrence.scheduled_for
        minute, rest = divmod(at, MINUTE_MS)
        assert rest == 0
        if minute > end:
            break
        found.append(minute)
    return found


def agree(
    name: str, night: Night, change: int, known: Known, policies: tuple[tuple[GapPolicy, RepeatPolicy], ...]
) -> int:
    for gap, repeat in policies:
        cron = Cron(known.text, name, gap, repeat)
        due = night.occurrences(known, gap, repeat)
        found = chain(cron, night.start, night.end)
        if found != due:
            differing = [utc(minute) for minute in sorted(set(found) ^ set(due))]
            pytest.fail(f"{known.text} {name} {gap} {repeat} around {utc(change)}: {differing}")
        for asked in (change - 1, change):  # between two passes, on the jump itself
            expected = first_after(due, asked)
            if expected is not None:
                occurrence = crons.next_after(cron, asked * MINUTE_MS)
                assert occurrence is not None
                assert occurrence.scheduled_for == expected * MINUTE_MS, (known.text, name, gap, repeat, utc(asked))
    return len(policies)


@pytest.mark.parametrize("share", range(SHARES))
def test_every_clock_change_of_every_rule_set(share: int) -> None:
    nights = [(name, change) for name, changes in rule_sets() for change in changes]
    compared = 0
    for name, change in nights[share::SHARES]:
        night = Night(name, change)
        for known in FIXED:
            compared += agree(name, night, change, known, POLICIES)
        for known, policies in zip(FREE, (POLICIES[:1], POLICIES[4:5], POLICIES[-1:]), strict=True):
            compared += agree(name, night, change, known, policies)  # the odd nights below see all nine
    assert compared > 1_000


@pytest.mark.parametrize(("name", "text"), ODD_NIGHTS)
def test_odd_nights_of_the_past(name: str, text: str) -> None:
    change = int(datetime.fromisoformat(text).astimezone(UTC).timestamp()) // 60
    night = Night(name, change)
    assert night.jumps or any(len(passes) > 1 for passes in night.passes.values()), "not a night of change"
    for known in (*FIXED, *FREE):
        agree(name, night, change, known, POLICIES)


def test_the_oracle_sees_every_rule_set_of_the_zone_data() -> None:
    names = [name for name, _ in rule_sets()]
    assert len(names) >= 30
    assert {len(changes) for _, changes in rule_sets()} >= {14}
