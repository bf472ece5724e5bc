"""Every worked case about crons, one-time schedules and zones."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.engine.when import cron as crons
from schedkit.engine.when import occurrences, zones
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import Cron, DayRule, GapPolicy, Once, RepeatPolicy
from schedkit.model.time import parse_rfc3339, rfc3339
from tests.cases import Case, load, of_kinds

CRON_KINDS = ("cron-dst", "tzdata", "cron-parse", "cron-bounds", "cron-never", "tz-name")
SERIES = [case for case in of_kinds(*CRON_KINDS) if isinstance(case.expected, list)]
REFUSALS = [case for case in of_kinds(*CRON_KINDS) if "crons" in case.input]
ONCE = of_kinds("once-time")
NAMED = {case.id: case for case in load()}


def cron_of(given: dict[str, Any], expression: str | None = None) -> Cron:
    return Cron(
        given["cron"] if expression is None else expression,
        given["time_zone"],
        GapPolicy(given.get("dst_gap_policy", "first_valid").upper()),
        RepeatPolicy(given.get("dst_overlap_policy", "first").upper()),
        DayRule(given.get("day_rule", "or").upper()),
    )


def test_no_case_of_these_kinds_is_left_out() -> None:
    seen = {case.id for case in (*SERIES, *REFUSALS)}
    alone = {"parse-39", "bounds-04", "tzdata-03", "tzname-01"}
    assert {case.id for case in of_kinds(*CRON_KINDS)} == seen | alone


@pytest.mark.parametrize("case", SERIES, ids=str)
def test_a_cron_runs_at_the_expected_times(case: Case) -> None:
    cron, at = cron_of(case.input), parse_rfc3339(case.input["after"])
    crons.check(cron, at)
    chain = []
    for _ in range(case.input["count"]):
        occurrence = occurrences.next_after(cron, at)
        assert occurrence is not None
        assert occurrence.scheduled_for > at
        at = occurrence.scheduled_for
        chain.append(rfc3339(at))
    assert chain == case.expected, case.why


@pytest.mark.parametrize(
    ("case", "expression"), [(case, expression) for case in REFUSALS for expression in case.input["crons"]]
)
def test_an_expression_is_refused_with_the_expected_reason(case: Case, expression: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        crons.check(cron_of(case.input, expression), parse_rfc3339(case.input["after"]))
    assert refused.value.reason == case.expected["each"]["error"], case.why
    assert refused.value.field == "schedule.cron"


def test_a_huge_expression_is_refused_for_its_length_before_it_is_read() -> None:
    given = NAMED["parse-39"].input
    items = given["joiner"].join([given["item"]] * given["repeat"])
    with pytest.raises(InvalidInput, match="characters; at most 256 are read") as refused:
        crons.check(Cron(given["cron_template"].format(item=items)), 0)
    assert refused.value.reason == NAMED["parse-39"].expected["error"]


def test_a_cron_without_a_time_before_the_year_10000_is_refused() -> None:
    case = NAMED["bounds-04"]
    after = parse_rfc3339(case.input["after"])
    assert occurrences.next_after(cron_of(case.input), after) is None
    with pytest.raises(InvalidInput) as refused:
        crons.check(cron_of(case.input), after)
    assert refused.value.reason == case.expected["error"]


def test_new_zone_data_moves_the_next_run_of_a_stored_cron() -> None:
    case = NAMED["tzdata-03"]
    job, now = case.input["job"], parse_rfc3339(case.input["now"])
    assert case.input["tzdata_now"] <= zones.TZDATA_VERSION
    occurrence = occurrences.next_after(cron_of(job), now)
    assert occurrence is not None
    assert rfc3339(occurrence.scheduled_for) == case.expected["next_run_at"] != job["next_run_at"]


@pytest.mark.parametrize("name", NAMED["tzname-01"].input["names"])
def test_a_name_outside_the_list_is_no_zone(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        zones.zone(name)
    assert refused.value.reason == NAMED["tzname-01"].expected["each"]["error"]


def resolved(given: dict[str, Any], text: str) -> tuple[Once, bool]:
    once, adjusted, notes = occurrences.resolve_once(
        text,
        given.get("time_zone"),
        GapPolicy(given.get("dst_gap_policy", "first_valid").upper()),
        RepeatPolicy(given.get("dst_overlap_policy", "first").upper()),
    )
    assert adjusted == bool(notes)
    if "now" in given:
        occurrences.check(once, parse_rfc3339(given["now"]))
    return once, adjusted


@pytest.mark.parametrize("case", [case for case in ONCE if "next_run_at" in case.expected], ids=str)
def test_a_one_time_schedule_resolves_to_the_expected_instant(case: Case) -> None:
    once, adjusted = resolved(case.input, case.input["run_at"])
    assert rfc3339(once.run_at) == case.expected["next_run_at"], case.why
    assert adjusted == case.expected.get("adjusted", adjusted)
    assert once.run_at == case.expected.get("timer_at_ms", once.run_at)


@pytest.mark.parametrize("case", [case for case in ONCE if "next_run_at" not in case.expected], ids=str)
def test_a_one_time_schedule_is_refused_with_the_expected_reason(case: Case) -> None:
    allowed = case.expected.get("each", case.expected)["error"]
    for text in case.input.get("run_ats", [case.input.get("run_at")]):
        with pytest.raises(InvalidInput) as refused:
            resolved(case.input, text)
        assert refused.value.reason in ([allowed] if isinstance(allowed, str) else allowed), (text, case.why)


def test_two_passes_of_one_wall_time_have_two_keys() -> None:
    case = NAMED["idem-04"]
    first = occurrences.next_after(cron_of(case.input), parse_rfc3339(case.input["after"]))
    assert first is not None
    second = occurrences.next_after(cron_of(case.input), first.scheduled_for)
    assert second is not None
    keys = [f"{case.input['job_id']}:{rfc3339(one.scheduled_for)}" for one in (first, second)]
    assert keys == case.expected["idempotency_keys"]
    assert {one.local[:16] for one in (first, second)} == {"2026-11-01T01:30"}


def test_every_reason_named_by_a_case_exists() -> None:
    for case in (*REFUSALS, NAMED["parse-39"], NAMED["bounds-04"]):
        assert Reason(case.expected.get("each", case.expected)["error"])
