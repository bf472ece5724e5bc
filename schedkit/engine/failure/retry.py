"""What a target's reply means for its run: done, try again later, dead, or unknown.

reply                                     at least once            at most once (C7)
2xx                                       Done                     Done
408, 425, 429, 5xx                        RetryAt, then Dead       Dead: the target was reached
any other status, redirects too           Dead                     Dead
refused, name not found                   RetryAt, then Dead       RetryAt, then Dead
address not allowed                       Dead                     Dead
timeout, connection lost                  RetryAt, then Dead       Unknown

a worker's report                         at least once            at most once
succeeded                                 Done                     Done
failed                                    RetryAt, then Dead       Dead: the worker had begun
failed, not retryable                     Dead                     Dead
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from schedkit.model.calls import Answered, Dead, Done, NoAnswer, NotSent, Reply, RetryAt, Unknown, Verdict
from schedkit.model.jobs import MAX_BACKOFF_MS, Delivery, RetryPolicy
from schedkit.model.runs import MAX_RESULT_BYTES
from schedkit.model.tasks import Failed, Report, Succeeded
from schedkit.model.time import SECOND_MS, Instant, from_datetime

RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
MAX_EXPONENT: Final = 40  # 2^40 x 1 ms is past every cap; a larger one could only overflow

REASON_PERMANENT: Final = "PERMANENT_FAILURE"
REASON_EXHAUSTED: Final = "ATTEMPTS_EXHAUSTED"


def judge(reply: Reply, *, attempt: int, policy: RetryPolicy, delivery: Delivery, now: Instant, draw: float) -> Verdict:
    """F1 and C7: what becomes of the run after this reply. `attempt` counts from 1, `draw` is uniform in [0, 1)."""
    at_most_once = delivery is Delivery.AT_MOST_ONCE
    match reply:
        case Answered(status, body) if 200 <= status < 300:
            return Done(_kept(body), status)
        case Answered(status) if not retryable(status):
            return Dead(f"the target answered {status}", REASON_PERMANENT, status)
        case Answered(status) if at_most_once:
            return Dead(
                f"the target answered {status}; an at-most-once run is not called again",
                REASON_PERMANENT,
                status,
            )
        case Answered(status, _, retry_after):
            floor_ms = retry_after_ms(retry_after, now) or 0
            return _again(f"the target answered {status}", attempt, policy, now, draw, floor_ms, status)
        case NotSent(error, permanent=True):
            return Dead(error, REASON_PERMANENT)
        case NotSent(error):
            return _again(error, attempt, policy, now, draw)
        case NoAnswer(error) if at_most_once:
            return Unknown(f"{error}; whether the target did it cannot be known")
        case NoAnswer(error):
            return _again(error, attempt, policy, now, draw)


def judge_report(
    report: Report, *, attempt: int, policy: RetryPolicy, delivery: Delivery, now: Instant, draw: float
) -> Verdict:
    """What becomes of a run after its worker's word for it. A failure that is known is tried again unless it says no.

    At most once, it is not: the worker had begun (C7).
    """
    match report:
        case Succeeded(result):
            return Done(_kept(result) if result is not None else None)
        case Failed(error, retryable=False):
            return Dead(error, REASON_PERMANENT)
        case Failed(error) if delivery is Delivery.AT_MOST_ONCE:
            return Dead(f"{error}; an at-most-once run is not begun again", REASON_PERMANENT)
        case Failed(error, after_ms=after_ms):
            return _again(error, attempt, policy, now, draw, min(after_ms, MAX_BACKOFF_MS))


def retryable(http_status: int) -> bool:
    """F1: 408, 425, 429 and 5xx are worth another try; everything else, redirects too, is permanent."""
    return http_status in RETRYABLE_STATUSES or http_status >= 500


def backoff_cap_ms(attempt: int, policy: RetryPolicy) -> int:
    """The longest wait after this attempt: min(max_backoff, initial x 2^(attempt-1)), for any attempt number."""
    return min(policy.max_backoff_ms, policy.initial_backoff_ms << min(attempt - 1, MAX_EXPONENT))


def backoff_ms(attempt: int, policy: RetryPolicy, draw: float) -> int:
    """F2, full jitter: uniform(0, cap), so that a thousand runs that failed together do not come back together."""
    return int(draw * backoff_cap_ms(attempt, policy))


def retry_after_ms(text: str | None, now: Instant) -> int | None:
    """The wait a Retry-After header asks for, 0 to 900 s; None where it says nothing we can read.

    Digits or an HTTP date only: `int()` would also take "-5", "+3" and "1_0". A date in the past asks for no wait.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        seconds = int(text) if len(text) <= 9 else MAX_BACKOFF_MS
        return min(seconds * SECOND_MS, MAX_BACKOFF_MS)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0, min(from_datetime(date) - now, MAX_BACKOFF_MS))


def _again(
    error: str,
    attempt: int,
    policy: RetryPolicy,
    now: Instant,
    draw: float,
    floor_ms: int = 0,
    http_status: int | None = None,
) -> Verdict:
    if attempt >= policy.max_attempts:
        return Dead(f"{error}; attempt {attempt} of {policy.max_attempts}", REASON_EXHAUSTED, http_status)
    return RetryAt(now + max(floor_ms, backoff_ms(attempt, policy, draw)), error, http_status)


def _kept(body: str) -> str | None:
    """The part of an answer that is kept: 4 KiB of UTF-8, cut at a character."""
    return body.encode()[:MAX_RESULT_BYTES].decode(errors="ignore") or None
