"""Crons: the dialect, the days, the notes, and the bounds (W1, W3, W4, W5, W15)."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from schedkit.engine.when import cron as crons
from schedkit.engine.when import cron_fields
from schedkit.engine.when.calendar import days_of_month
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import Cron, DayRule, GapPolicy, RepeatPolicy
from schedkit.model.time import DAY_MS, MAX_INSTANT, MIN_INSTANT, parse_rfc3339, rfc3339

NEW_YEAR_2026 = parse_rfc3339("2026-01-01T00:00:00Z")


def refused(expression: str, **fields: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        crons.check(Cron(expression, **fields), NEW_YEAR_2026)  # type: ignore[arg-type]
    return caught.value


def run(cron: Cron, after: str, count: int) -> list[str]:
    found, at = [], parse_rfc3339(after)
    for _ in range(count):
        occurrence = crons.next_after(cron, at)
        if occurrence is None:
            break
        at = occurrence.scheduled_for
        found.append(rfc3339(at))
    return found


def notes(cron: Cron, after: str, count: int) -> list[tuple[str, ...]]:
    found, at = [], parse_rfc3339(after)
    for _ in range(count):
        occurrence = crons.next_after(cron, at)
        assert occurrence is not None
        at = occurrence.scheduled_for
        found.append(occurrence.notes)
    return found


# ---- the dialect


@pytest.mark.parametrize(
    ("field", "text", "values"),
    [
        (0, "*/20", (0, 20, 40)),
        (0, "5/20", (5, 25, 45)),
        (0, "50-10/5", (0, 5, 10, 50, 55)),
        (0, "10-10/5", (10,)),
        (0, "1,3-5,*/30", (0, 1, 3, 4, 5, 30)),
        (0, "*/100", (0,)),
        (1, "22-2/2", (0, 2, 22)),
        (1, "00,08", (0, 8)),
        (3, "nov-FEB", (1, 2, 11, 12)),
        (3, "jan/6", (1, 7)),
    ],
)
def test_plain_fields(field: int, text: str, values: tuple[int, ...]) -> None:
    fields = ["*"] * 5
    fields[field] = text
    read = cron_fields.parse(" ".join(fields))
    assert (read.minutes, read.hours, None, read.months)[field] == values


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("fri-mon", (0, 1, 5, 6)),
        ("5-7", (0, 5, 6)),
        ("7-2", (0, 1, 2)),
        ("6-1", (0, 1, 6)),
        ("0-7", tuple(range(7))),
        ("7", (0,)),
        ("7/2", (0,)),
        ("1/2", (1, 3, 5)),
        ("*/2", (0, 2, 4, 6)),
        ("mon-fri/2", (1, 3, 5)),
        ("sat-sun", (0, 6)),
        ("sun-sat", tuple(range(7))),
    ],
)
def test_weekdays(text: str, days: tuple[int, ...]) -> None:
    read = cron_fields.parse(f"0 0 * * {text}").week_days
    assert read.days == days
    assert read.restricted


def test_only_a_star_or_a_question_mark_leaves_a_day_field_unrestricted() -> None:
    for text in ("*", "?"):
        read = cron_fields.parse(f"0 0 {text} * {text}")
        assert not read.month_days.restricted
        assert not read.week_days.restricted
    for text in ("*/1", "1-31", "*/2", "*,5", "L"):
        assert cron_fields.parse(f"0 0 {text} * *").month_days.restricted


@pytest.mark.parametrize("hours", ["*", "*/1", "0-23", "0/1", "12-11", ",".join(map(str, range(24)))])
def test_an_hour_field_that_covers_the_day_is_free(hours: str) -> None:
    assert cron_fields.parse(f"0 {hours} * * *").hour_is_free
    assert not cron_fields.parse("0 0-22 * * *").hour_is_free


@pytest.mark.parametrize("macro", list(cron_fields.MACROS))
def test_macros_stand_for_five_fields(macro: str) -> None:
    assert cron_fields.parse(f" {macro.upper()}\t") == cron_fields.parse(cron_fields.MACROS[macro])


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "0 0 * * 9",
            "0 0 * * -1",
            "0 0 * * 1#6",
            "0 0 * * 1#0",
            "0 0 * * 1#",
            "0 0 * * #1",
            "0 0 * * 8L",
            "0 0 * * L",
        ),
        *("0 0 LW * *", "0 0 L-3 * *", "0 0 32W * *", "0 0 W * *", "0 0 0W * *", "0 0 15w-16 * *", "0 0 1-2W * *"),
        *("? * * * *", "* ? * * *", "* * * ? *", "0 0 ?/2 * *", "0 0 ?,1 * *", "0 0 1? * *"),
        *(
            "-5 * * * *",
            "5- * * * *",
            "1--2 * * * *",
            "*-5 * * * *",
            "/5 * * * *",
            "*/ * * * *",
            "*5 * * * *",
            "+5 * * * *",
        ),
        *(", * * * *", "1, * * * *", "100 * * * *", "1e1 * * * *", "0x5 * * * *", "1_0 * * * *", "*/1000 * * * *"),
        *("0 mon * * *", "0 0 feb * *", "0 0 * sun *", "0 0 * * jan", "0 0 * * monday", "0 0 * * mo"),
        *("@", "@daily 5", "@noon", "@ daily", "daily", "@daily @daily", "0 0 * * *\n", "0 0 * * *\r", "\x000 0 * * *"),
        *("0\v0 * * *", "0 0 * * * *", "0 0 * * * * * *", "*" * 257, "\u00e9 * * * *", "0 0 * * \u0661"),
    ],
)
def test_everything_else_is_refused(expression: str) -> None:
    error = refused(expression)
    assert error.reason is Reason.INVALID_CRON
    assert error.field == "schedule.cron"
    assert error.detail


def test_a_refusal_names_the_field_and_the_value() -> None:
    assert refused("0 24 * * *").detail == 'hour "24": 24 is outside 0-23'
    assert refused("*/0 * * * *").detail == 'minute "*/0": a step of 0 never moves'
    assert refused("0 0 * january *").fix == ("write jan",)
    assert "has 4 fields" in refused("* * * *").detail
    assert "minute: an item is missing" in refused("1,,2 * * * *").detail
    assert "'\\xa0'" in refused("0\u00a00 * * *").detail


# ---- days


def naive_days(text: str, rule: DayRule, year: int, month: int) -> list[int]:
    read = cron_fields.parse(text)
    first = date(year, month, 1)
    length = ((first + timedelta(days=31)).replace(day=1) - first).days
    return list(days_of_month(read.month_days, read.week_days, rule, first.isoweekday() % 7, length))


@pytest.mark.parametrize(
    ("day", "weekday", "rule", "month", "days"),
    [
        ("15W", "*", DayRule.OR, (2026, 8), [14]),  # the 15th is a Saturday
        ("15W", "*", DayRule.OR, (2026, 11), [16]),  # a Sunday
        ("1W", "*", DayRule.OR, (2026, 8), [3]),  # Saturday the 1st: not back into July
        ("31W", "*", DayRule.OR, (2026, 5), [29]),  # Sunday the 31st: not on into June
        ("30W", "*", DayRule.OR, (2026, 8), [31]),
        ("31W", "*", DayRule.OR, (2026, 6), []),
        ("L", "*", DayRule.OR, (2028, 2), [29]),
        ("1,L", "*", DayRule.OR, (2026, 2), [1, 28]),
        ("*", "5L", DayRule.OR, (2026, 7), [31]),
        ("*", "sunL,1#5", DayRule.OR, (2026, 8), [30, 31]),
        ("*", "1#5", DayRule.OR, (2026, 7), []),
        ("13", "5", DayRule.OR, (2026, 2), [6, 13, 20, 27]),
        ("13", "5", DayRule.AND, (2026, 2), [13]),
        ("1", "1#1", DayRule.OR, (2026, 2), [1, 2]),
        ("L", "5L", DayRule.AND, (2026, 7), [31]),
        ("15W", "3", DayRule.OR, (2026, 8), [5, 12, 14, 19, 26]),
        ("1-31", "4", DayRule.OR, (2026, 2), list(range(1, 29))),
        ("1-31", "4", DayRule.AND, (2026, 2), [5, 12, 19, 26]),
        ("*/2", "1", DayRule.OR, (2026, 2), [1, 2, 3, 5, 7, 9, 11, 13, 15, 16, 17, 19, 21, 23, 25, 27]),
        ("*/2", "?", DayRule.OR, (2026, 2), list(range(1, 29, 2))),
        ("?", "0-7", DayRule.OR, (2026, 2), list(range(1, 29))),
    ],
)
def test_the_days_of_a_month(day: str, weekday: str, rule: DayRule, month: tuple[int, int], days: list[int]) -> None:
    assert naive_days(f"0 0 {day} * {weekday}", rule, *month) == days


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("0 0 30 2 *", DayRule.OR),
        ("0 0 31 2,4,6,9,11 ?", DayRule.OR),
        ("0 0 30W feb *", DayRule.OR),
        ("0 0 30 2 1", DayRule.AND),
        ("0 0 1 * 1#2", DayRule.AND),
        ("0 0 L * 1#1", DayRule.AND),
        ("0 0 22-31 * 1#3", DayRule.AND),
        ("* * 31 4 0-7", DayRule.AND),
    ],
)
def test_what_no_calendar_has_never_fires(expression: str, rule: DayRule) -> None:
    error = refused(expression, day_rule=rule)
    assert error.reason is Reason.CRON_NEVER_FIRES
    assert error.fix
    assert crons.next_after(Cron(expression, day_rule=rule), NEW_YEAR_2026) is None


def test_rare_days_are_found_across_2100() -> None:
    cron = Cron("0 0 29 2 1", day_rule=DayRule.AND)
    assert run(cron, "2072-03-01T00:00:00Z", 2) == ["2112-02-29T00:00:00Z", "2140-02-29T00:00:00Z"]
    assert run(Cron("0 0 31 * 1", day_rule=DayRule.AND), "2026-01-01T00:00:00Z", 1) == ["2026-08-31T00:00:00Z"]
    assert run(Cron("0 0 29 2 *", "America/New_York"), "2096-03-01T00:00:00Z", 1) == ["2104-02-29T05:00:00Z"]


def test_a_cron_that_names_only_skipped_times_is_refused_in_that_zone() -> None:
    cron = Cron("30 2 * 3 0#2", "America/New_York", GapPolicy.SKIP)
    with pytest.raises(InvalidInput) as caught:
        crons.check(cron, NEW_YEAR_2026)
    assert caught.value.reason is Reason.CRON_NEVER_FIRES
    assert "America/New_York" in caught.value.detail
    crons.check(Cron("30 2 * 3 0#2", "America/New_York"), NEW_YEAR_2026)
    crons.check(Cron("30 2 * 3 0#2", "Europe/London", GapPolicy.SKIP), NEW_YEAR_2026)


# ---- bounds


def test_start_and_end_bound_the_occurrences() -> None:
    cron = Cron(
        "0 * * * *", start_at=parse_rfc3339("2026-01-01T05:00:00Z"), end_at=parse_rfc3339("2026-01-01T07:00:00Z")
    )
    assert run(cron, "2026-01-01T00:00:00Z", 9) == ["2026-01-01T05:00:00Z", "2026-01-01T06:00:00Z"]
    crons.check(cron, NEW_YEAR_2026)
    with pytest.raises(InvalidInput) as caught:
        crons.check(cron, parse_rfc3339("2026-01-01T06:00:00Z"))
    assert caught.value.reason is Reason.NO_FURTHER_OCCURRENCE
    assert caught.value.field == "schedule.end_at"


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Midway", "America/New_York"])
def test_any_instant_may_be_asked_about(zone: str) -> None:
    for after in (MIN_INSTANT - DAY_MS, MIN_INSTANT, MAX_INSTANT - DAY_MS, MAX_INSTANT, MAX_INSTANT + DAY_MS):
        for expression in ("* * * * *", "0 8 * * *", "0 0 29 2 *"):
            occurrence = crons.next_after(Cron(expression, zone), after)
            assert occurrence is None or MIN_INSTANT <= occurrence.scheduled_for <= MAX_INSTANT
            assert (occurrence is None) == (after > MAX_INSTANT - 2 * DAY_MS)


def test_an_unknown_zone_is_refused_by_name() -> None:
    assert refused("0 8 * * *", time_zone="Mars/Olympus").reason is Reason.INVALID_TIME_ZONE


# ---- notes


def test_notes_on_a_repeated_time_say_which_pass_runs() -> None:
    after, expression, zone = "2026-10-30T12:00:00Z", "30 1 * * *", "America/New_York"
    changed = "clocks changed: same local time, -1 h offset, UTC time moves"
    twice = "01:30 happens twice this day (clocks go back): "
    assert notes(Cron(expression, zone), after, 4) == [(), (twice + "runs once, the first time",), (changed,), ()]
    second = Cron(expression, zone, repeat=RepeatPolicy.SECOND)
    assert notes(second, after, 3) == [(), (twice + "runs once, the second time",), ()]
    both = Cron(expression, zone, repeat=RepeatPolicy.BOTH)
    assert notes(both, after, 4) == [
        (),
        (twice + "runs both times, this is the first",),
        ("second pass of the repeated hour",),
        (),
    ]


def test_notes_on_a_missing_time_say_what_happens_instead() -> None:
    after, zone = "2027-03-12T12:00:00Z", "America/New_York"
    missing = "does not exist this day (clocks go forward): "
    assert notes(Cron("30 2 * * *", zone), after, 3) == [(), (f"02:30 {missing}runs at the first minute after",), ()]
    assert notes(Cron("30 2 * * *", zone, GapPolicy.SHIFT_FORWARD), after, 3) == [
        (),
        (f"02:30 {missing}runs 1 h later, at 03:30",),
        (),
    ]
    assert notes(Cron("30 2 * * *", zone, GapPolicy.SKIP), after, 3) == [
        (),
        (
            "2027-03-14 02:30 does not exist (clocks go forward): skipped",
            "clocks changed: same local time, +1 h offset, UTC time moves",
        ),
        (),
    ]
    assert notes(Cron("*/15 2 * * *", zone), after, 5)[4] == (
        "02:00, 02:15, 02:30 and 02:45 do not exist this day (clocks go forward): run once, at the first minute after",
    )
    assert notes(Cron("*/5 2 * * *", zone), after, 13)[12][0].startswith("02:00, 02:05, 02:10 and more times do not")


def test_a_fixed_time_far_from_the_change_moves_in_utc_only() -> None:
    assert notes(Cron("0 8 * * *", "America/New_York"), "2026-10-30T16:00:00Z", 3) == [
        (),
        ("clocks changed: same local time, -1 h offset, UTC time moves",),
        (),
    ]
    lord_howe = notes(Cron("0 8 * * *", "Australia/Lord_Howe"), "2026-04-03T00:00:00Z", 2)
    assert lord_howe[1] == ("clocks changed: same local time, -30 min offset, UTC time moves",)


def test_notes_of_elapsed_time_crons() -> None:
    cron = Cron("*/30 * * * *", "America/New_York")
    assert notes(cron, "2026-11-01T05:15:00Z", 4) == [
        (),
        ("second pass of the repeated hour",),
        ("second pass of the repeated hour",),
        (),
    ]
    assert notes(cron, "2026-03-08T06:30:00Z", 2) == [
        ("clocks go forward: 02:00 to 03:00 does not exist this day",),
        (),
    ]
    half = notes(Cron("*/15 * * * *", "Australia/Lord_Howe"), "2026-04-04T14:45:00Z", 2)
    assert half == [("second pass of the repeated half hour",)] * 2
    apia = notes(Cron("0 * * * *", "Pacific/Apia"), "2011-12-30T09:00:00Z", 2)
    assert apia == [("the calendar jumps: 2011-12-30 00:00 to 2011-12-31 00:00 does not exist",), ()]
