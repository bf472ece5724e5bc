"""Zones come from the pinned package, by name only; their changes are found where the compiled data has them (W2)."""

from __future__ import annotations

import itertools
import struct
import zoneinfo
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path

import pytest
import tzdata  # type: ignore[import-untyped]

from schedkit.engine.when import zones
from schedkit.errors import InvalidInput, Reason
from schedkit.model.time import DAY_MS, HOUR_MS, MAX_INSTANT, MIN_INSTANT, MINUTE_MS, SECOND_MS, parse_rfc3339

YEAR_1970, YEAR_2037 = 0, parse_rfc3339("2037-01-01T00:00:00Z")


def compiled_changes(name: str) -> list[tuple[int, int, int]]:
    """(at, offset before, offset after) in ms, read from the bytes of the compiled file (RFC 8536, version 2 block)."""
    data = files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()

    def counts(at: int) -> tuple[int, ...]:
        return struct.unpack(">6l", data[at + 20 : at + 44])

    utc, std, leaps, times, types, chars = counts(0)
    second_block = 44 + times * 5 + types * 6 + chars + leaps * 8 + std + utc
    _, _, _, times, types, _ = counts(second_block)
    at = second_block + 44
    moments = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    offsets = [struct.unpack(">l", data[at + 9 * times + 6 * n :][:4])[0] for n in range(types)]
    changes, current = [], offsets[0]
    for moment, kind in zip(moments, kinds, strict=True):
        if offsets[kind] != current:
            changes.append((moment * SECOND_MS, current * SECOND_MS, offsets[kind] * SECOND_MS))
            current = offsets[kind]
    return changes


def refusal_of(name: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        zones.zone(name)
    assert refused.value.reason is Reason.INVALID_TIME_ZONE
    assert refused.value.field == "schedule.time_zone"
    return refused.value


def test_changes_are_those_of_the_compiled_data_for_every_distinct_zone() -> None:
    """As far as the data lists them: from its last change on, a rule of two changes a year holds for ever."""
    distinct = {
        blake2b(files("tzdata.zoneinfo").joinpath(*n.split("/")).read_bytes()).digest(): n for n in zones.names()
    }
    assert len(distinct) > 300
    for name in distinct.values():
        expected = [change for change in compiled_changes(name) if YEAR_1970 <= change[0] < YEAR_2037]
        until = expected[-1][0] + 1 if expected else YEAR_1970
        found = [(c.at, c.offset_before_ms, c.offset_after_ms) for c in zones.transitions(name, YEAR_1970, until)]
        assert found == expected, name


@pytest.mark.parametrize(
    "name", ["Europe/Amsterdam", "Africa/Tunis", "America/Juneau", "Asia/Manila", "Africa/Monrovia"]
)
def test_changes_before_1970_are_found_to_the_second(name: str) -> None:
    found = [c.at for c in zones.transitions(name, MIN_INSTANT, YEAR_1970)]
    assert found == [change[0] for change in compiled_changes(name) if change[0] < YEAR_1970]


def test_no_two_changes_are_closer_than_the_step_between_two_looks() -> None:
    for name in zones.names():
        moments = [change[0] for change in compiled_changes(name)]
        closest = min((b - a for a, b in itertools.pairwise(moments)), default=zones.SAMPLE_STEP_MS + 1)
        assert closest > zones.SAMPLE_STEP_MS, name


def test_ramadan_in_morocco_is_two_changes_a_few_weeks_apart() -> None:
    found = zones.transitions(
        "Africa/Casablanca", parse_rfc3339("2025-01-01T00:00:00Z"), parse_rfc3339("2026-01-01T00:00:00Z")
    )
    assert [(c.at, c.offset_before_ms, c.offset_after_ms) for c in found] == [
        (parse_rfc3339("2025-02-23T02:00:00Z"), HOUR_MS, 0),
        (parse_rfc3339("2025-04-06T02:00:00Z"), 0, HOUR_MS),
    ]


def test_a_transition_has_both_abbreviations() -> None:
    (fall,) = zones.transitions(
        "America/New_York", parse_rfc3339("2026-09-01T00:00:00Z"), parse_rfc3339("2027-01-01T00:00:00Z")
    )
    assert (fall.abbreviation_before, fall.abbreviation_after) == ("EDT", "EST")
    located = zones.zone("America/New_York")
    assert [zones.abbreviation_at(located, at) for at in (fall.at - 1, fall.at)] == ["EDT", "EST"]


def test_transitions_stand_in_since_up_to_but_not_until() -> None:
    at = parse_rfc3339("2026-11-01T06:00:00Z")
    assert [c.at for c in zones.transitions("America/New_York", at, at + 1)] == [at]
    assert zones.transitions("America/New_York", at - HOUR_MS, at) == ()
    assert zones.transitions("America/New_York", at, at) == ()
    assert zones.transitions("UTC", MIN_INSTANT, MAX_INSTANT) == ()


def test_the_last_rule_goes_on_to_the_end_of_the_calendar() -> None:
    found = zones.transitions("Europe/Berlin", parse_rfc3339("9998-01-01T00:00:00Z"), MAX_INSTANT)
    assert len(found) == 4


@pytest.mark.parametrize("name", ["America/New_York", "Pacific/Apia", "UTC", "Asia/Kathmandu", "Africa/Casablanca"])
def test_stretches_join_without_a_hole_and_hold_their_instant(name: str) -> None:
    at, end = parse_rfc3339("2008-01-01T00:00:00Z"), parse_rfc3339("2032-01-01T00:00:00Z")
    while at < end:
        stretch = zones.stretch_at(name, at)
        assert stretch.start <= at < stretch.end
        assert stretch.offset_ms == zones.offset_ms_at(name, stretch.end - 1)
        assert stretch.after_ms == zones.offset_ms_at(name, stretch.end)
        assert stretch.before_ms == zones.offset_ms_at(name, stretch.start - 1)
        at = stretch.end


@pytest.mark.parametrize("at", [MIN_INSTANT - DAY_MS, MIN_INSTANT, MAX_INSTANT, MAX_INSTANT + DAY_MS])
@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "Pacific/Midway", "UTC"])
def test_the_ends_of_the_calendar_overflow_nowhere(name: str, at: int) -> None:
    assert abs(zones.stretch_at(name, at).offset_ms) < DAY_MS
    assert abs(zones.offset_ms_at(name, at)) < DAY_MS


def test_the_systems_zone_data_is_never_read(tmp_path: Path) -> None:
    forged = tmp_path / "America" / "Vancouver"
    forged.parent.mkdir()
    forged.write_bytes(files("tzdata.zoneinfo").joinpath("UTC").read_bytes())
    zoneinfo.reset_tzpath(to=[tmp_path])
    try:
        zones._loaded.cache_clear()
        located = zones.zone("America/Vancouver")
    finally:
        zoneinfo.reset_tzpath()
    assert zones.local_text(located, parse_rfc3339("2026-12-01T00:00:00Z")) == "2026-11-30T17:00:00-07:00"


def test_the_version_is_that_of_the_package_and_newer_than_many_systems() -> None:
    assert zones.TZDATA_VERSION == tzdata.IANA_VERSION
    assert zones.offset_ms_at("America/Vancouver", parse_rfc3339("2026-12-01T00:00:00Z")) == -7 * HOUR_MS


def test_every_listed_name_loads() -> None:
    assert {"UTC", "US/Eastern", "Etc/GMT+5", "Asia/Calcutta", "EST5EDT"} <= set(zones.names())
    assert not {"Factory", "localtime", "posixrules"} & set(zones.names())
    for name in zones.names():
        assert zones.zone(name).key == name


@pytest.mark.parametrize(
    "name",
    [
        "Factory",
        "posix/Europe/Berlin",
        "right/UTC",
        "/etc/localtime",
        "Europe/Berlin\n",
        "Europe/../Europe/Berlin",
        "tzdata.zi",
        "zone.tab",
        "__init__.py",
        "Ｅurope/Berlin",
        "Eur\u043epe/Berlin",
        "America/New\u00a0York",
        "\x00",
    ],
)
def test_what_only_looks_like_a_name_is_refused(name: str) -> None:
    refusal_of(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PST", "use America/Los_Angeles"),
        ("edt", "use America/New_York"),
        ("america/new_york", "use America/New_York"),
        ("America/New York", "use America/New_York"),
        ("New York", "use America/New_York"),
        ("europe/berlin ", "use Europe/Berlin"),
        ("Europe/Berln", "use Europe/Berlin"),
        ("posix/Europe/Berlin", "use Europe/Berlin"),
        ("Asia/Kalkutta", "use Asia/Calcutta"),
        ("utc", "use UTC"),
        ("Tokyo", "use Asia/Tokyo"),
    ],
)
def test_a_refused_name_comes_with_the_one_that_was_meant(name: str, meant: str) -> None:
    assert meant in refusal_of(name).fix


def test_an_offset_is_answered_with_the_fixed_zone_and_its_reversed_sign() -> None:
    fix = refusal_of("UTC+2").fix
    assert "Etc/GMT-2, which is 2 hours ahead of UTC" in fix[0]
    assert "other way round" in fix[0]
    assert "Etc/GMT+5, which is 5 hours behind UTC" in refusal_of("-05:00").fix[0]
    assert "Etc/GMT-1, which is 1 hour ahead" in refusal_of("gmt+01").fix[0]
    assert refusal_of("+00:00").fix == ("use UTC",)
    assert "Asia/Kolkata" in refusal_of("UTC+5:30").fix[0]
    assert "no zone is fixed at it" in refusal_of("UTC+19").detail
    for hours, sign in ((2, -1), (-5, 1)):
        assert zones.offset_ms_at(f"Etc/GMT{sign * abs(hours):+}", 0) == hours * HOUR_MS


def test_a_long_name_is_not_repeated_in_full() -> None:
    assert len(refusal_of("A" * 300).detail) < 120


def test_local_text_has_milliseconds_only_where_there_are_any() -> None:
    new_york = zones.zone("America/New_York")
    at = parse_rfc3339("2026-11-01T05:30:00Z")
    assert zones.local_text(new_york, at) == "2026-11-01T01:30:00-04:00"
    assert zones.local_text(new_york, at + HOUR_MS) == "2026-11-01T01:30:00-05:00"
    assert zones.local_text(new_york, at + 250) == "2026-11-01T01:30:00.250-04:00"
    assert zones.local_text(zones.zone("Asia/Kathmandu"), at) == "2026-11-01T11:15:00+05:45"


def test_local_mean_time_is_shown_with_its_seconds() -> None:
    assert zones.local_text(zones.zone("America/New_York"), parse_rfc3339("1800-01-01T00:00:00Z")) == (
        "1799-12-31T19:03:58-04:56:02"
    )
    assert zones.wall_text(0, -(44 * MINUTE_MS + 30 * SECOND_MS)) == "1969-12-31T23:15:30-00:44:30"


def test_at_the_ends_of_the_calendar_local_text_is_utc() -> None:
    for name in ("Pacific/Kiritimati", "Pacific/Midway"):
        assert zones.local_text(zones.zone(name), MAX_INSTANT) == "9999-12-31T23:59:59.999Z"
        assert zones.local_text(zones.zone(name), MIN_INSTANT) == "0001-01-01T00:00:00Z"
