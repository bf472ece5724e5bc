"""What holds for every cron in every zone: chains increase, leaps lose nothing, no text breaks it (W1, W5)."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedkit.engine.when import cron as crons
from schedkit.engine.when import cron_fields, zones
from schedkit.engine.when.calendar import days_of_month
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import Cron, DayRule, GapPolicy, RepeatPolicy
from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS, parse_rfc3339

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
REPEATABLE = settings.get_profile("repeatable")
NEW_YEAR_2026 = parse_rfc3339("2026-01-01T00:00:00Z")
ZONES = ("America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Antarctica/Troll", "Asia/Beirut", "UTC")


def matching_days(text: str, rule: DayRule, year: int, month: int) -> list[int]:
    read = cron_fields.parse(text)
    first = date(year, month, 1)
    length = ((first + timedelta(days=31)).replace(day=1) - first).days
    return list(days_of_month(read.month_days, read.week_days, rule, first.isoweekday() % 7, length))


def numbers(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=1, max_size=4, unique=True).map(sorted)


POLICIES = st.tuples(st.sampled_from(GapPolicy), st.sampled_from(RepeatPolicy))
INSTANTS = st.integers(parse_rfc3339("1995-01-01T00:00:00Z"), parse_rfc3339("2040-01-01T00:00:00Z"))
HOURS = st.one_of(st.just(list(range(24))), numbers(0, 4), numbers(0, 23))


def listed(values: list[int]) -> str:
    return ",".join(map(str, values))


@given(numbers(0, 59), HOURS, st.sampled_from(zones.names()), POLICIES, INSTANTS)
@settings(REPEATABLE, max_examples=300)
def test_a_chain_strictly_increases_and_keeps_to_the_wall_clock(
    minutes: list[int], hours: list[int], zone: str, policies: tuple[GapPolicy, RepeatPolicy], at: int
) -> None:
    cron = Cron(f"{listed(minutes)} {listed(hours)} * * *", zone, *policies)
    for _ in range(30):
        occurrence = crons.next_after(cron, at)
        assert occurrence is not None
        assert occurrence.scheduled_for > at
        at = occurrence.scheduled_for
        assert occurrence.local == zones.local_text(zones.zone(zone), at)
        local = datetime.fromisoformat(occurrence.local)
        if local.hour not in hours or local.minute not in minutes or local.second:
            assert len(hours) < 24
            assert cron.gap is not GapPolicy.SKIP
            assert "not exist this day" in occurrence.notes[0]


SPARSE = ("30 1 1 11 *", "30 2 8-14 3 *", "30 1 29 2 *", "30 2 * 3,10 0L", "30 1 L * *", "30 2 1 1 *", "30 1 1-7 4 sun")


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
def test_a_sparse_cron_runs_on_its_days_of_the_daily_one(zone: str) -> None:
    """The search leaps over empty years; it must land on what a search day by day finds."""
    start, end = parse_rfc3339("2023-06-01T00:00:00Z"), parse_rfc3339("2031-01-01T00:00:00Z")
    for (gap, repeat), time in itertools.product(itertools.product(GapPolicy, RepeatPolicy), ("30 1", "30 2")):
        daily = [(at, local_date(zone, at)) for at in every(Cron(f"{time} * * *", zone, gap, repeat), start, end)]
        for expression in [text for text in SPARSE if text.startswith(time)]:
            days = {
                date(year, month, day)
                for year, month in itertools.product(range(2023, 2032), cron_fields.parse(expression).months)
                for day in matching_days(expression, DayRule.OR, year, month)
            }
            found = every(Cron(expression, zone, gap, repeat), start, end)
            assert found == [at for at, local in daily if local in days], (expression, gap, repeat)


def every(cron: Cron, at: int, end: int) -> list[int]:
    found: list[int] = []
    while (occurrence := crons.next_after(cron, at)) is not None and occurrence.scheduled_for < end:
        at = occurrence.scheduled_for
        found.append(at)
    return found


def local_date(zone: str, at: int) -> date:
    return datetime.fromtimestamp(at // 1_000, zones.zone(zone)).date()


@given(
    st.sampled_from(("*/15 * * * *", "30 1,2 * * *", "0 0 1 * *", "0 12 29 2 *")),
    st.sampled_from(ZONES),
    POLICIES,
    INSTANTS,
)
@settings(REPEATABLE, max_examples=150)
def test_the_previous_occurrence_is_the_last_of_the_chain(
    expression: str, zone: str, policies: tuple[GapPolicy, RepeatPolicy], not_before: int
) -> None:
    cron = Cron(expression, zone, *policies)
    at = not_before + 3 * DAY_MS
    expected = [one for one in every(cron, not_before - 1, at + 1) if one <= at]
    assert crons.previous_at_or_before(cron, at, not_before) == (expected[-1] if expected else None)


def test_the_previous_occurrence_keeps_to_the_bounds() -> None:
    at = parse_rfc3339("2026-06-01T12:00:00Z")
    hourly = Cron("0 * * * *")
    assert crons.previous_at_or_before(hourly, at, 0) == at
    assert crons.previous_at_or_before(hourly, at - 1, 0) == at - HOUR_MS
    assert crons.previous_at_or_before(hourly, at - 1, at - MINUTE_MS) is None
    assert crons.previous_at_or_before(Cron("0 * * * *", end_at=at), at, 0) == at - HOUR_MS
    assert crons.previous_at_or_before(Cron("0 * * * *", start_at=at + 1), at, 0) is None


CRON_ALPHABET = "0123456789*,-/?#LWlwhHrR@ \tjanmonfrisu()~:"


@given(
    st.one_of(st.text(max_size=300), st.text(CRON_ALPHABET, max_size=256), st.from_regex(r"([0-9*?,/#LW-]{1,9} ){4,6}"))
)
@settings(REPEATABLE, max_examples=400)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        crons.check(Cron(text, "Europe/Berlin"), NEW_YEAR_2026)
    except InvalidInput as error:
        assert error.reason in (Reason.INVALID_CRON, Reason.CRON_NEVER_FIRES)  # noqa: PT017 - either is right
    else:
        assert crons.next_after(Cron(text, "Europe/Berlin"), NEW_YEAR_2026) is not None
