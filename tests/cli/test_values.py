"""Values in and out: times, durations, payloads."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from schedkit.cli import show, values
from schedkit.errors import InvalidInput
from schedkit.model.time import HOUR_MS, MINUTE_MS, SECOND_MS, parse_rfc3339

NOW = parse_rfc3339("2026-09-28T21:40:32Z")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("3d", 259_200_000), ("1h30m", 5_400_000)],
)
def test_durations_go_in_and_come_out(text: str, expected_ms: int) -> None:
    assert values.duration_ms(text) == expected_ms
    if text != "1h30m":
        assert show.compact(expected_ms) == text


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5 m", "-5m", "1y", "5m!", "0x5s", "٣s", "9" * 13 + "s", "99999999999d"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        values.duration_ms(text)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("now", None, "2026-09-28T21:40:32Z"),
        ("10m", None, "2026-09-28T21:50:32Z"),
        ("+10m", None, "2026-09-28T21:50:32Z"),
        ("-2h", None, "2026-09-28T19:40:32Z"),
        ("2026-09-28T09:00:00Z", "Europe/Berlin", "2026-09-28T09:00:00Z"),
        ("2026-09-28T09:00:00+05:30", None, "2026-09-28T03:30:00Z"),
        ("2026-09-28 09:00", "Europe/Berlin", "2026-09-28T07:00:00Z"),
        ("2026-09-28T09:00", "America/New_York", "2026-09-28T13:00:00Z"),
        ("09:00", "Europe/Berlin", "2026-09-28T07:00:00Z"),
        ("2026-09-28 09:00", "UTC", "2026-09-28T09:00:00Z"),
    ],
)
def test_times_in_every_form(text: str, zone: str | None, expected: str) -> None:
    assert values.instant(text, zone=zone, now=NOW) == parse_rfc3339(expected)


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-02-30 09:00", "25:00", "2026-09-28", "99999999d", "-99999d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        values.instant(text, zone="UTC", now=NOW)


def test_a_wall_time_with_a_zone_stays_one_for_the_server() -> None:
    assert values.run_at("2026-10-25 02:30", "Europe/Berlin", NOW) == {
        "run_at": "2026-10-25T02:30",
        "time_zone": "Europe/Berlin",
    }
    assert values.run_at("2026-09-28T09:00:00+02:00", None, NOW) == {"run_at": "2026-09-28T09:00:00+02:00"}
    assert values.run_at("10m", "Europe/Berlin", NOW) == {"run_at": "2026-09-28T21:50:32Z"}


def test_a_time_of_day_that_has_passed_means_tomorrow() -> None:
    assert values.run_at("09:00", "UTC", NOW)["run_at"] == "2026-09-29T09:00"
    assert values.run_at("22:00", "UTC", NOW)["run_at"] == "2026-09-28T22:00"


def test_since_without_a_sign_looks_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "now_ms", lambda: NOW)
    assert values.since("24h", None) == "2026-09-27T21:40:32Z"
    assert values.since("2026-09-01T00:00:00Z", None) == "2026-09-01T00:00:00Z"
    assert values.since(None, None) is None


def test_payloads_come_as_text_file_or_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.json").write_text('{"say": "née"}', encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("[1, 2]"))
    assert values.payload('{"a":1}') == {"a": 1}
    assert values.payload(f"@{tmp_path}/p.json") == {"say": "née"}
    assert values.payload("-") == [1, 2]


@pytest.mark.parametrize("text", ["{", "NaN", "@no-such-file", "hello", "[" * 100_000])
def test_what_is_no_payload_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        values.payload(text)


@pytest.mark.parametrize("header", ["Authorization=Bearer x", "cookie: a=b", "Proxy-Authorization=x"])
def test_a_secret_is_never_a_flag_value(header: str) -> None:
    with pytest.raises(InvalidInput, match="secret"):
        values.header_pairs([header])
    assert values.header_pairs(["X-Team=growth", "X-Kind: daily"]) == {"X-Team": "growth", "X-Kind": "daily"}


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (4, "4 ms"),
        (1_400, "1.4 s"),
        (30 * SECOND_MS, "30 s"),
        (90 * SECOND_MS, "1m 30s"),
        (50 * MINUTE_MS, "50m"),
        (20 * HOUR_MS, "20h 0m"),
        (41 * HOUR_MS + 30 * MINUTE_MS, "1d 17h 30m"),
    ],
)
def test_spans_as_people_say_them(span_ms: int, text: str) -> None:
    assert show.span(span_ms) == text


def test_stamps_carry_an_offset() -> None:
    assert show.stamp("2026-09-28T21:41:02Z", "Europe/Berlin") == "2026-09-28 23:41:02 +02:00"
    assert show.long_stamp("2026-09-28T21:41:02.250Z", "UTC") == "Mon 2026-09-28 21:41:02.250 +00:00"
    assert show.stamp(None, None) == "-"
    assert show.clock(NOW, "Europe/Berlin") == "23:40:32.000 +02:00"
    assert show.away(NOW + 30_000, NOW) == "in 30 s"
    assert show.away(NOW - 2 * HOUR_MS, NOW) == "2h 0m ago"
    assert show.away(NOW + HOUR_MS - 400, NOW) == "in 1h 0m"
    assert show.away(NOW + HOUR_MS - 20 * SECOND_MS, NOW) == "in 1h 0m"
    assert show.countdown(HOUR_MS - 400) == "1h 0m"
    assert show.countdown(MINUTE_MS - 400) == "1m"
