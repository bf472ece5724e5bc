# ruff: noqa: E501 - tables stand as they are printed
"""`schedkit cron`: offline, by the rules the server follows."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli

WIDE = {"SCHEDKIT_FORCE_TTY": "150"}


@pytest.mark.parametrize(
    ("args", "table"),
    [
        (
            ["30 1 * * *", "-n", "4", "--from", "2026-10-30T12:00Z"],
            """\
 #  local                        utc                         in   note
 1  Sat 2026-10-31 01:30 EDT     2026-10-31 05:30Z      17h 30m
 2  Sun 2026-11-01 01:30 EDT     2026-11-01 05:30Z   1d 17h 30m   ! 01:30 happens twice this day (clocks go back): runs once, the first time
 3  Mon 2026-11-02 01:30 EST     2026-11-02 06:30Z   2d 18h 30m     clocks changed: same local time, -1 h offset, UTC time moves
 4  Tue 2026-11-03 01:30 EST     2026-11-03 06:30Z   3d 18h 30m
""",
        ),
        (
            ["30 2 * * *", "-n", "3", "--from", "2027-03-12T12:00Z"],
            """\
 #  local                        utc                         in   note
 1  Sat 2027-03-13 02:30 EST     2027-03-13 07:30Z      19h 30m
 2  Sun 2027-03-14 03:00 EDT     2027-03-14 07:00Z    1d 19h 0m   ! 02:30 does not exist this day (clocks go forward): runs at the first minute after
 3  Mon 2027-03-15 02:30 EDT     2027-03-15 06:30Z   2d 18h 30m
""",
        ),
        (
            ["0 8 * * *", "-n", "3", "--from", "2026-10-30T16:00Z"],
            """\
 #  local                        utc                         in   note
 1  Sat 2026-10-31 08:00 EDT     2026-10-31 12:00Z       20h 0m
 2  Sun 2026-11-01 08:00 EST     2026-11-01 13:00Z    1d 21h 0m     clocks changed: same local time, -1 h offset, UTC time moves
 3  Mon 2026-11-02 08:00 EST     2026-11-02 13:00Z    2d 21h 0m
""",
        ),
    ],
)  # fmt: skip
def test_next_around_a_clock_change(args: list[str], table: str, offline: Cli) -> None:
    result = offline("cron", "next", *args, "--tz", "America/New_York", env=WIDE)
    assert result.stdout == table


def test_next_in_a_pipe_is_one_row_a_time(offline: Cli) -> None:
    line = ("cron", "next", "30 1 * * *", "--tz", "America/New_York", "-n", "2", "--from", "2026-10-30T12:00Z")
    rows = [row.split("\t") for row in offline(*line).stdout.splitlines()]
    assert rows[0] == ["1", "Sat 2026-10-31 01:30 EDT", "2026-10-31 05:30Z", "17h 30m", ""]
    assert rows[1][4].startswith("! 01:30 happens twice")


def test_notes_go_below_on_a_narrow_terminal(offline: Cli) -> None:
    line = ("cron", "next", "30 1 * * *", "--tz", "America/New_York", "-n", "2", "--from", "2026-10-30T12:00Z")
    lines = offline(*line, env={"SCHEDKIT_FORCE_TTY": "70"}).stdout.splitlines()
    assert max(map(len, lines)) <= 70
    assert lines[3].startswith("    ! 01:30 happens twice")


def test_next_shows_the_place_in_a_window(offline: Cli) -> None:
    line = ("cron", "next", "0 0 * * *", "-n", "1", "--from", "2026-10-30T12:00Z")
    found = json.loads(offline(*line, "--window", "5m", "--id", "job_1", "-o", "json").stdout)["items"][0]
    assert found["scheduled_for"] == "2026-10-31T00:00:00Z"
    assert "2026-10-31T00:00:00Z" <= found["dispatch_at"] < "2026-10-31T00:05:00Z"
    assert "    +1m45s" in offline(*line, "--window", "5m", "--id", "job_1", env=WIDE).stdout
    assert offline(*line, "--window", "5m").exit_code == 9


def test_next_stops_at_until_and_at_policies(offline: Cli) -> None:
    line = ("cron", "next", "30 2 * * *", "--tz", "America/New_York", "--from", "2027-03-13T12:00Z", "-q")
    assert offline(*line, "--until", "2d", "--dst", "skip").stdout == "2027-03-15T06:30:00Z\n"
    assert offline(*line, "-n", "1", "--dst", "shift").stdout == "2027-03-14T07:30:00Z\n"
    assert offline(*line, "--until", "1h").exit_code == 0


@pytest.mark.parametrize(
    ("expression", "code"),
    [("0 8 * *", "INVALID_CRON"), ("0 0 30 2 *", "CRON_NEVER_FIRES"), ("H 8 * * *", "INVALID_CRON")],
)
def test_next_refuses_what_the_server_would(expression: str, code: str, offline: Cli) -> None:
    result = offline("cron", "next", expression)
    assert result.exit_code == 9
    assert f"[{code}]" in result.stderr
    assert "[INVALID_TIME_ZONE]" in offline("cron", "next", "0 8 * * *", "--tz", "Mars/Base").stderr


def test_explain_in_words(offline: Cli) -> None:
    text = offline("cron", "explain", "*/15 9-17 * * 1-5", env=WIDE).stdout
    assert text.startswith("Every 15 minutes from 09:00 to 17:45, Monday to Friday\n")
    assert "  day-of-week   1-5    Monday to Friday" in text
    quartz = offline("cron", "explain", "0 0 12 ? * MON-FRI", "--dialect", "quartz").stdout
    assert quartz.startswith("At 12:00")


def test_check_names_the_traps(offline: Cli) -> None:
    text = offline("cron", "check", "0 0 1 * 1", "0 2 * * *", "--tz", "America/New_York").stdout
    assert "day-of-month and day-of-week are both set: unix runs on either, quartz needs one ?" in text
    assert "joins the midnight crowd" in text
    assert "hour that is skipped" in text
    assert offline("cron", "check", "15 8 * * *").stdout == "15 8 * * *\tno traps\n"
    assert offline("cron", "check", "0 0 1 * 1", "--strict").exit_code == 10
    assert offline("cron", "check", "15 8 * * *", "--strict").exit_code == 0
    broken = offline("cron", "check", "15 8 * * *", "nonsense")
    assert broken.exit_code == 9
    assert "nonsense\tthe expression has 1 field" in broken.stdout
    assert offline("cron", "check", "0 0 30 2 *").exit_code == 9


def test_convert_between_dialects(offline: Cli) -> None:
    assert offline("cron", "convert", "0 0 12 ? * MON-FRI", "--from", "quartz").stdout == "0 12 * * MON-FRI\n"
    assert offline("cron", "convert", "0 8 * * *", "--to", "jenkins").exit_code == 9


def test_dst_lists_the_changes_of_a_zone(offline: Cli) -> None:
    found = json.loads(offline("cron", "dst", "--tz", "America/New_York", "--year", "2026", "-o", "json").stdout)
    assert [item["at"] for item in found["items"]] == ["2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"]
    rows = offline("cron", "dst", "--tz", "America/New_York", "--year", "2026").stdout.splitlines()
    assert rows[0].split("\t") == [
        "2026-03-08 07:00Z",
        "2026-03-08 02:00 EST",
        "2026-03-08 03:00 EDT",
        "1h forward: skipped",
    ]
    none = offline("cron", "dst", "--tz", "UTC", "--year", "2026")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "clocks do not change in UTC in 2026" in none.stderr
