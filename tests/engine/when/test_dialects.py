"""Other dialects are recognised, named and converted; an expression is put into words, and its traps are named (W1)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedkit.engine.when import cron as crons
from schedkit.engine.when import cron_fields
from schedkit.engine.when.dialects import convert
from schedkit.engine.when.explain import explain, traps
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import DayRule
from schedkit.model.time import parse_rfc3339

NEW_YORK = "America/New_York"


@pytest.mark.parametrize(
    ("text", "named", "first_fix"),
    [
        ("0 0 12 * * 5", "seconds field", "0 12 * * 5"),
        ("0 30 8 * * MON-FRI", "seconds field", "30 8 * * mon-fri"),
        ("* * * * * *", "seconds field", "use an INTERVAL schedule: every 1 second (every_seconds 1)"),
        ("*/10 * * * * *", "seconds field", "use an INTERVAL schedule: every 10 seconds (every_seconds 10)"),
        ("30 * * * * *", "seconds field", "* * * * *"),
        ("0 0/5 * * * ?", "Quartz", "*/5 * * * *"),
        ("0 15 10 ? * 6L", "Quartz", "15 10 * * 5L"),
        ("0 15 10 L * ?", "Quartz", "15 10 L * *"),
        ("0 0 12 * * 5 2027", "Quartz", "0 12 * * 4"),
        ("0 0 12 ? * MON-FRI *", "Quartz", "0 12 * * MON-FRI"),
        ("0 10 * * ? 2027", "EventBridge", "0 10 * * *"),
        ("cron(0 12 * * ? *)", "EventBridge", "0 12 * * *"),
        (" CRON(0/15 8-17 ? * 2-6 *) ", "EventBridge", "*/15 8-17 * * 1-5"),
        ("rate(5 minutes)", "EventBridge", "use an INTERVAL schedule: every 300 seconds (every_seconds 300)"),
        ("rate(1 day)", "EventBridge", "use an INTERVAL schedule: every 86400 seconds (every_seconds 86400)"),
        ("at(2027-01-01T00:00:00)", "EventBridge", "use a ONCE schedule with run_at 2027-01-01T00:00:00"),
        ("H H * * *", "Jenkins", "0 0 * * *"),
        ("H/15 * * * *", "Jenkins", "*/15 * * * *"),
        ("H(0-29)/10 2 * * *", "Jenkins", "*/10 2 * * *"),
        ("R * * * *", "random", "0 * * * *"),
        ("0~30 * * * *", "random", "0 * * * *"),
        ("@reboot", "@reboot", "trigger the job when you deploy"),
        ("@every 5m", "@every", "use an INTERVAL schedule: every 300 seconds (every_seconds 300)"),
        ("@every 1h30m", "@every", "use an INTERVAL schedule: every 5400 seconds (every_seconds 5400)"),
        ("@every soon", "@every", "use an INTERVAL schedule with every_seconds"),
        ("@dayly", "not a macro", "@daily"),
        ("TZ=UTC 0 0 * * *", "zone", "0 0 * * * with time_zone UTC"),
        ("CRON_TZ=Europe/Berlin 0 8 * * *", "zone", "0 8 * * * with time_zone Europe/Berlin"),
        ("0 5 * * * /usr/bin/backup --all", "crontab line", "0 5 * * *"),
    ],
)
def test_another_dialect_is_named_and_its_unix_form_given(text: str, named: str, first_fix: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        crons.parsed(text)
    assert caught.value.reason is Reason.INVALID_CRON
    assert named in caught.value.detail
    assert caught.value.fix[0] == first_fix


def test_a_year_is_kept_with_the_bounds() -> None:
    with pytest.raises(InvalidInput) as caught:
        crons.parsed("0 0 12 ? * 2 2027-2029")
    assert caught.value.fix == ("0 12 * * 1", "and keep the year 2027-2029 with start_at and end_at")


def test_an_ambiguous_weekday_is_pointed_out() -> None:
    with pytest.raises(InvalidInput) as caught:
        crons.parsed("0 0 12 * * 5")
    assert "1 is Sunday there, and Monday here" in caught.value.fix[1]


def test_a_systemd_calendar_is_named() -> None:
    with pytest.raises(InvalidInput, match="systemd"):
        crons.parsed("Mon *-*-* 10:00")


@pytest.mark.parametrize(
    ("expression", "quartz", "eventbridge"),
    [
        ("0 12 * * *", "0 0 12 * * ?", "cron(0 12 * * ? *)"),
        ("@daily", "0 0 0 * * ?", "cron(0 0 * * ? *)"),
        ("*/15 9-17 * * 1-5", "0 */15 9-17 ? * MON-FRI", "cron(0/15 9-17 ? * MON-FRI *)"),
        ("0 9 * * 7", "0 0 9 ? * SUN", "cron(0 9 ? * SUN *)"),
        ("0 9 * * 5-7", "0 0 9 ? * SUN,FRI,SAT", "cron(0 9 ? * SUN,FRI,SAT *)"),
        ("0 9 L jan,jul ?", "0 0 9 L JAN,JUL ?", "cron(0 9 L JAN,JUL ? *)"),
        ("0 9 15W * *", "0 0 9 15W * ?", "cron(0 9 15W * ? *)"),
        ("0 9 * * 5L", "0 0 9 ? * 6L", "cron(0 9 ? * 6L *)"),
        ("0 9 * * mon#2", "0 0 9 ? * 2#2", "cron(0 9 ? * 2#2 *)"),
        ("0 22-2 * nov-feb *", "0 0 0,1,2,22,23 * 1,2,11,12 ?", "cron(0 0,1,2,22,23 * 1,2,11,12 ? *)"),
        ("0 0 */5 * *", "0 0 0 */5 * ?", "cron(0 0 1/5 * ? *)"),
    ],
)
def test_unix_goes_out_to_the_others_and_comes_back(expression: str, quartz: str, eventbridge: str) -> None:
    meaning = cron_fields.parse(expression)
    for dialect, text in (("quartz", quartz), ("eventbridge", eventbridge)):
        assert convert(expression, "unix", dialect) == text
        back = cron_fields.parse(convert(text, dialect, "unix"))
        assert (back.minutes, back.hours, back.months) == (meaning.minutes, meaning.hours, meaning.months)
        assert (back.month_days, back.week_days) == (meaning.month_days, meaning.week_days)


@pytest.mark.parametrize(
    ("text", "source", "to", "expected"),
    [
        ("0 0 12 ? * 2-6", "quartz", "unix", "0 12 * * 1-5"),
        ("0 0 12 ? * 1", "quartz", "unix", "0 12 * * 0"),
        ("0 0 12 ? * L", "quartz", "unix", "0 12 * * 6"),
        ("0 0/10 10/2 1/3 1/2 ?", "quartz", "unix", "*/10 10/2 */3 */2 *"),
        ("00 0 12 ? * 7#1 *", "quartz", "unix", "0 12 * * 6#1"),
        ("0 12 ? * 3L *", "eventbridge", "quartz", "0 0 12 ? * 3L"),
        ("0 12 * * ? *", "eventbridge", "eventbridge", "cron(0 12 * * ? *)"),
    ],
)
def test_conversions(text: str, source: str, to: str, expected: str) -> None:
    assert convert(text, source, to) == expected


@pytest.mark.parametrize(
    ("text", "source", "to", "why"),
    [
        ("30 0 12 * * ?", "quartz", "unix", "seconds field"),
        ("0 0 12 * * ? 2027", "quartz", "unix", "year field"),
        ("0 12 * * ? 2027", "eventbridge", "unix", "year field"),
        ("0 0 12 1 * 2", "quartz", "unix", "one of them must be"),
        ("0 12 1 * 2", "unix", "quartz", "both a day-of-month and a day-of-week"),
        ("0 12 1,L * *", "unix", "quartz", "in a list"),
        ("0 12 * * 1L,5#2", "unix", "eventbridge", "in a list"),
        ("0 0 12 LW * ?", "quartz", "unix", "only Quartz"),
        ("0 0 12 ? * 8", "quartz", "unix", "outside 1-7"),
        ("0 12 * * *", "quartz", "unix", "6 or 7 fields"),
        ("rate(5 minutes)", "eventbridge", "unix", "interval"),
    ],
)
def test_what_cannot_be_carried_over_is_refused(text: str, source: str, to: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        convert(text, source, to)


def test_an_unknown_dialect_is_an_argument_error() -> None:
    with pytest.raises(InvalidInput) as caught:
        convert("0 0 * * *", "unix", "jenkins")
    assert caught.value.reason is Reason.INVALID_ARGUMENT


@given(
    st.lists(
        st.sampled_from(["0", "5", "*", "?", "L", "1-3", "*/5", "0/5", "MON", "2#1", "6L", "2027", "H"]), max_size=8
    ),
    st.sampled_from(["unix", "quartz", "eventbridge"]),
    st.sampled_from(["unix", "quartz", "eventbridge"]),
)
@settings(derandomize=True, deadline=None, database=None, max_examples=500)
def test_a_conversion_is_readable_by_its_own_dialect_or_refused(fields: list[str], source: str, to: str) -> None:
    try:
        text = convert(" ".join(fields), source, to)
    except InvalidInput:
        return
    back = cron_fields.parse(convert(text, to, "unix"))
    assert back.minutes == cron_fields.parse(convert(" ".join(fields), source, "unix")).minutes


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("0 8 * * *", "At 08:00 every day"),
        ("0 8,20 * * *", "At 08:00 and 20:00 every day"),
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 * * * *", "Every hour, on the hour"),
        ("30 * * * *", "Every hour at minute 30"),
        ("*/15 9-17 * * 1-5", "Every 15 minutes from 09:00 to 17:45, Monday to Friday"),
        ("0 9 * * 1-5", "At 09:00, Monday to Friday"),
        ("0 9 * * 6,0", "At 09:00 on Saturdays and Sundays"),
        ("0 */2 * * *", "Every 2 hours from 00:00 every day"),
        ("@monthly", "At 00:00 on day 1 of every month"),
        ("@yearly", "At 00:00 on day 1 of January"),
        ("0 0 L * *", "At 00:00 on the last day of every month"),
        ("0 9 15W 1-3 *", "At 09:00 on the weekday nearest to day 15 of January to March"),
        ("0 9 * jul mon#1", "At 09:00 on the first Monday of the month in July"),
        ("0 9 * * 5L", "At 09:00 on the last Friday of the month"),
        ("0 0 13 * 5", "At 00:00 on day 13 of the month or on Fridays (either is enough)"),
    ],
)
def test_an_expression_in_words(expression: str, sentence: str) -> None:
    assert explain(expression).sentence == sentence


def test_the_day_rule_is_put_into_words() -> None:
    sentence = explain("0 0 13 * 5", DayRule.AND).sentence
    assert sentence == "At 00:00 on day 13 of the month and on Fridays (only when both hold)"


def test_an_expression_field_by_field() -> None:
    fields = explain("*/15 9-17 1,2,3,10 jan,jul fri-sun").fields
    assert [(field.name, field.text, field.meaning) for field in fields] == [
        ("minute", "*/15", "every 15 minutes, from 0"),
        ("hour", "9-17", "hours 9 to 17"),
        ("day-of-month", "1,2,3,10", "days 1 to 3 and 10"),
        ("month", "jan,jul", "January and July"),
        ("day-of-week", "fri-sun", "Friday to Sunday"),
    ]


@given(st.from_regex(r"\A([0-9*?,/#LW-]{1,6} ){4}[0-9*?#L-]{1,4}\Z"))
@settings(derandomize=True, deadline=None, database=None, max_examples=250)
def test_whatever_can_be_read_can_be_explained(text: str) -> None:
    try:
        crons.parsed(text)
    except InvalidInput:
        return
    assert explain(text).sentence
    traps(text, NEW_YORK)


@pytest.mark.parametrize(
    ("expression", "codes"),
    [
        ("15 9 * * *", []),
        ("*/5 * * * *", []),
        ("0 0 * * *", ["MIDNIGHT_CROWD"]),
        ("15 9 1 * 1", ["DAY_OR"]),
        ("15 9 29 2 *", ["LEAP_DAY"]),
        ("15 9 31 * *", ["SHORT_MONTHS"]),
        ("15 9 L * *", []),
        ("15 9 29-31 * 1", ["DAY_OR"]),
        ("*/7 * * * *", ["UNEVEN_STEP"]),
        ("15 */5 * * *", ["UNEVEN_STEP"]),
        ("15 9 */2 * *", ["UNEVEN_STEP"]),
        ("*/90 * * * *", ["STEP_TOO_LARGE"]),
        ("30 2 * * *", ["DST_HOUR"]),
        ("30 1 * * *", ["DST_HOUR"]),
        ("30 1,2 * * *", ["DST_HOUR", "DST_HOUR"]),
        ("30 2 * * 1-5", []),  # clocks change on Sundays
        ("0 0 30 2 *", ["NEVER_FIRES"]),
    ],
)
def test_traps_are_named(expression: str, codes: list[str]) -> None:
    assert [trap.code for trap in traps(expression, NEW_YORK)] == codes


def test_traps_say_where_and_when() -> None:
    since = parse_rfc3339("2026-06-01T00:00:00Z")
    (trap,) = traps("30 2 * * *", NEW_YORK, since=since)
    assert "02:30 falls into the hour that is skipped on 2027-03-14 in America/New_York" in trap.sentence
    assert traps("30 2 * * *", "UTC", since=since) == ()
    assert traps("15 9 1 * 1", "UTC", DayRule.AND, since) == ()
    (uneven,) = traps("*/7 * * * *", "UTC")
    assert "56 is followed by 0" in uneven.sentence
