"""What a reply means (F1, F2, C7)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.engine.failure.retry import backoff_cap_ms, backoff_ms, judge, retry_after_ms, retryable
from schedkit.model.calls import Answered, Dead, Done, NoAnswer, NotSent, Reply, RetryAt, Unknown, Verdict
from schedkit.model.jobs import Delivery, RetryPolicy
from schedkit.model.time import parse_rfc3339
from tests.cases import load
from tests.engine.making import NOON

CASES = {case.id: case for case in load()}
ONCE, LEAST = Delivery.AT_MOST_ONCE, Delivery.AT_LEAST_ONCE


def verdict(reply: Reply, delivery: Delivery = LEAST, attempt: int = 1, draw: float = 0.5) -> Verdict:
    return judge(reply, attempt=attempt, policy=RetryPolicy(), delivery=delivery, now=NOON, draw=draw)


@pytest.mark.parametrize(
    ("reply", "at_least_once", "at_most_once"),
    [
        *((Answered(status), Done, Done) for status in (200, 201, 204, 299)),
        *((Answered(status), RetryAt, Dead) for status in (408, 425, 429, 500, 502, 503, 504, 599)),
        *((Answered(status), Dead, Dead) for status in (301, 302, 307, 400, 401, 404, 409, 410, 422, 451, 199)),
        (NotSent("connection refused"), RetryAt, RetryAt),
        (NotSent("address not allowed", permanent=True), Dead, Dead),
        (NoAnswer("no answer within 30 s"), RetryAt, Unknown),
    ],
)
def test_each_reply_means_what_the_table_says(
    reply: Reply, at_least_once: type[Verdict], at_most_once: type[Verdict]
) -> None:
    assert isinstance(verdict(reply, LEAST), at_least_once)
    assert isinstance(verdict(reply, ONCE), at_most_once)


@pytest.mark.parametrize("reply", [Answered(503), NotSent("refused"), NoAnswer("reset")])
def test_the_last_attempt_is_the_last(reply: Reply) -> None:
    assert isinstance(verdict(reply, attempt=4), RetryAt)
    dead = verdict(reply, attempt=5)
    assert isinstance(dead, Dead)
    assert dead.reason == "ATTEMPTS_EXHAUSTED"
    assert "5 of 5" in dead.error


def test_a_permanent_failure_is_no_exhaustion() -> None:
    dead = verdict(Answered(404), attempt=5)
    assert dead == Dead("the target answered 404", "PERMANENT_FAILURE", 404)


def test_backoff_doubles_up_to_its_cap_for_any_attempt_number() -> None:
    given_, expected = CASES["backoff-01"].input, CASES["backoff-01"].expected
    policy = RetryPolicy(
        initial_backoff_ms=given_["initial_backoff_seconds"] * 1_000,
        max_backoff_ms=given_["max_backoff_seconds"] * 1_000,
    )
    caps = [backoff_cap_ms(attempt, policy) / 1_000 for attempt in given_["attempts"]]
    assert caps == expected["cap_before_jitter"], CASES["backoff-01"].why


@given(st.integers(1, 10**6), st.integers(0, 900_000), st.integers(0, 900_000), st.floats(0, 1, exclude_max=True))
def test_a_backoff_is_never_negative_and_never_over_its_cap(attempt: int, initial: int, most: int, draw: float) -> None:
    policy = RetryPolicy(initial_backoff_ms=initial, max_backoff_ms=most)
    assert 0 <= backoff_ms(attempt, policy, draw) <= backoff_cap_ms(attempt, policy) <= most


def test_a_thousand_runs_that_failed_together_do_not_come_back_together() -> None:
    case = CASES["retry-storm-01"]
    policy = RetryPolicy(initial_backoff_ms=case.input["initial_backoff_seconds"] * 1_000)
    low, high = (second * 1_000 for second in case.expected["every_delay_in"])
    for seed in range(case.input["seeds"]):
        random = Random(seed)
        many = case.input["failures_at_the_same_instant"]
        delays = [backoff_ms(case.input["attempt"], policy, random.random()) for _ in range(many)]
        assert all(low <= delay <= high for delay in delays)
        per_second = Counter(delay // 1_000 for delay in delays)
        assert max(per_second.values()) < case.expected["max_in_any_second_below"], case.why
        assert len(per_second) >= case.expected["distinct_seconds_at_least"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    list(zip(CASES["retryafter-01"].input["values"], CASES["retryafter-01"].expected["seconds_or_null"], strict=True)),
)
def test_retry_after_is_digits_or_a_date_or_nothing(text: str, seconds: int | None) -> None:
    now = parse_rfc3339(CASES["retryafter-01"].input["now"])
    assert retry_after_ms(text, now) == (seconds * 1_000 if seconds is not None else None)


@given(st.one_of(st.text(max_size=60), st.from_regex(r"\A\w{3}, \d{1,2} \w{3} \d{1,5} \d\d:\d\d:\d\d [+-]?\w{1,12}\Z")))
def test_no_retry_after_of_any_target_breaks_anything(text: str) -> None:
    found = retry_after_ms(text, NOON)
    assert found is None or 0 <= found <= 900_000


@pytest.mark.parametrize(
    "text",
    [
        "Tue, 01 Dec 2026 00:02:00 +99999999999999999999",
        "Tue, 01 Dec 2026 00:02:00 -9999",
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Fri, 31 Dec 99999999999999999999 23:59:59 GMT",
        "²",
        "١٢",
        "1_0",
        "0x10",
        "",
        " 7 ",
    ],
)
def test_odd_values_of_retry_after_are_read_or_ignored(text: str) -> None:
    found = retry_after_ms(text, NOON)
    assert found is None or 0 <= found <= 900_000
    assert retry_after_ms(" 7 ", NOON) == 7_000


def test_retry_after_is_a_floor_for_the_backoff_and_not_a_ceiling() -> None:
    asked = verdict(Answered(429, retry_after="120"), draw=0.999)
    assert isinstance(asked, RetryAt)
    assert asked.at == NOON + 120_000
    soon = verdict(Answered(503, retry_after="1"), attempt=4, draw=0.5)
    assert isinstance(soon, RetryAt)
    assert soon.at == NOON + 40_000


def test_a_result_is_kept_up_to_4_kib_and_cut_at_a_character() -> None:
    done = verdict(Answered(200, "é" * 4_096))
    assert isinstance(done, Done)
    assert done.result == "é" * 2_048
    odd = verdict(Answered(200, "x" + "é" * 4_096))
    assert isinstance(odd, Done)
    assert odd.result == "x" + "é" * 2_047
    assert verdict(Answered(200, "")) == Done(None, 200)


@given(st.integers(100, 999))
def test_only_these_statuses_are_worth_another_try(status: int) -> None:
    assert retryable(status) is (status in (408, 425, 429) or status >= 500)
