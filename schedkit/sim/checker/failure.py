"""Failure: retries are bounded, spaced and only where they may help; what fails for good is kept for a person (I7).

too_many_attempts, backoff_too_long, backoff_too_short, retry_claimed_early, permanent_retried, failed_too_soon,
no_dead_letter, stray_dead_letter, failed_without_reason, jitter_missing
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log, sqrt
from typing import Any, Final

from schedkit.model.time import SECOND_MS, Instant
from schedkit.sim.checker.facts import Commit, Facts, Item, RunFacts, given_back
from schedkit.sim.checker.verdict import Violation
from schedkit.sim.checker.when import claimed_at

RETRY_AFTER_CAP_MS: Final = 900 * SECOND_MS
MAX_RECLAIMS: Final = 9
STEPS_MS: Final = SECOND_MS  # a failure is judged and written down at two looks at the clock
DEAD: Final = frozenset({"FAILED", "UNKNOWN"})
FEWEST_WAITS: Final = 30  # the mean of fewer says too little
FALSE_ALARM: Final = 1e-6  # how often the mean of uniform draws may be taken for another


def retries_bounded(facts: Facts) -> Iterator[Violation]:
    """I7: no more failing attempts than the job allows, since the run was redriven last."""
    for run in facts.runs:
        last = run.ended_as
        if last is None:
            continue
        since = (run.redrives[-1].before or {}).get("epoch", 0) if run.redrives else 0
        tried = [attempt for attempt in last.get("attempts") or () if attempt.get("epoch", 1) > since]
        failed = sum(attempt.get("outcome") == "FAILED" for attempt in tried)
        allowed = max((policy["max_attempts"] for policy in _policies(run)), default=failed)
        if failed > allowed:
            text = f"{failed} attempts failed, {allowed} are allowed"
            yield _found("too_many_attempts", run, run.commits[-1], text)


def retries_spaced(facts: Facts) -> Iterator[Violation]:
    """I7: each wait is within the backoff's cap or what the target asked for, and nobody claims before its end."""
    for run in facts.runs:
        if len(run.commits) < 2:
            continue
        for commit in run.commits:
            before, after = commit.before, commit.after
            if before is None or after is None:
                continue
            if before["status"] == "RUNNING" and after["status"] == "RETRY_WAIT" and not given_back(commit):
                yield from _wait(facts, run, commit, after)
            elif before["status"] == "RETRY_WAIT" and after["status"] == "RUNNING":
                not_before, own = before.get("not_before") or 0, claimed_at(commit)
                early_ms = not_before - own if own else 0
                early_ms = max(early_ms, not_before - facts.skew_ms - commit.t)
                if early_ms > 0:
                    yield _found("retry_claimed_early", run, commit, f"claimed {early_ms} ms before {not_before}")


def _wait(facts: Facts, run: RunFacts, commit: Commit, after: Item) -> Iterator[Violation]:
    closed, not_before = _closed(after), after.get("not_before")
    if closed is None or closed.get("finished_at") is None or not_before is None:
        return
    status = closed.get("http_status")
    if status is not None and not _retryable(status):
        yield _found("permanent_retried", run, commit, f"tried again after the target answered {status}")
    attempt = closed.get("attempt", 1)
    caps = [
        min(policy["max_backoff_ms"], policy["initial_backoff_ms"] << min(attempt - 1, 40)) for policy in _policies(run)
    ]
    asked_ms = _retry_after(run, closed) if _answered(after, closed) else None
    delay_ms = not_before - closed["finished_at"]
    longest_ms = max([*caps, asked_ms or 0])
    if caps and delay_ms > longest_ms:
        text = f"waits {delay_ms} ms after attempt {attempt}, at most {longest_ms} are allowed"
        yield _found("backoff_too_long", run, commit, text)
    shortest_ms = (asked_ms or 0) - STEPS_MS - 2 * facts.skew_ms
    if delay_ms < shortest_ms:
        text = f"waits {delay_ms} ms after attempt {attempt}, at least {asked_ms or 0} were asked for"
        yield _found("backoff_too_short", run, commit, text)


def waits_spread(facts: Facts) -> Iterator[Violation]:
    """F2: waits are uniform up to their cap. P(|mean - 1/2| > off) <= 2 exp(-6 n off^2) for n uniform draws."""
    shares = [share for run in facts.runs for commit in run.commits if (share := _share(run, commit)) is not None]
    if len(shares) < FEWEST_WAITS:
        return
    mean, off = sum(shares) / len(shares), sqrt(log(2 / FALSE_ALARM) / (6 * len(shares)))
    if abs(mean - 0.5) > off:
        text = f"the {len(shares)} waits before a retry take {mean:.3f} of their cap on average, not 0.5 +- {off:.3f}"
        yield Violation("F2", "jitter_missing", facts.end_at, "", text)


def _share(run: RunFacts, commit: Commit) -> float | None:
    """The part of its cap that a wait takes; None for what is no wait, or none that the backoff alone decides."""
    before, after = commit.before, commit.after
    if before is None or after is None or (before["status"], after["status"]) != ("RUNNING", "RETRY_WAIT"):
        return None
    if given_back(commit):
        return None
    closed, not_before, caps = _closed(after), after.get("not_before"), {_capped(policy) for policy in _policies(run)}
    if closed is None or closed.get("finished_at") is None or not_before is None or len(caps) != 1:
        return None
    if _answered(after, closed) and _retry_after(run, closed) is not None:
        return None
    longest_ms, initial_ms = caps.pop()
    cap_ms = min(longest_ms, initial_ms << min(closed.get("attempt", 1) - 1, 40))
    return min(1.0, max(0.0, (not_before - closed["finished_at"]) / cap_ms)) if cap_ms > 0 else None


def _capped(policy: Item) -> tuple[int, int]:
    return policy["max_backoff_ms"], policy["initial_backoff_ms"]


def _answered(item: Item, closed: Item) -> bool:
    """The target's own wish was heard: by the executor that called it, or by a worker, which passes it on."""
    return closed.get("http_status") is not None or item.get("task_queue") is not None


def _retry_after(run: RunFacts, closed: Item) -> int | None:
    for call in run.calls:
        if call.token == closed.get("epoch") and call.retry_after_ms is not None:
            return min(call.retry_after_ms, RETRY_AFTER_CAP_MS)
    return None


def failed_for_good(facts: Facts) -> Iterator[Violation]:
    """I7: a run fails by a permanent answer, by its last attempt or by its last holder, and is a dead letter then."""
    for run in facts.runs:
        for commit in run.commits:
            before, after = commit.before, commit.after
            if after is None:
                continue
            dead = after.get("dead_partition") is not None
            if dead != (after["status"] in DEAD and after.get("dropped_at") is None):
                text = f"{commit.arrow}: a run that is {after['status']} is {'' if dead else 'not '}a dead letter"
                check = "stray_dead_letter" if dead else "no_dead_letter"
                yield _found(check, run, commit, text)
            if after["status"] == "FAILED" and before is not None and before["status"] == "RUNNING":
                yield from _failed(run, commit, before, after)


def _failed(run: RunFacts, commit: Commit, before: Item, after: Item) -> Iterator[Violation]:
    closed: Any = _closed(after) or {}
    status, reason = closed.get("http_status"), after.get("reason")
    at_least_once = "AT_MOST_ONCE" not in run.job.every("delivery", "AT_LEAST_ONCE")
    fewest = min((policy["max_attempts"] for policy in _policies(run)), default=0)
    match reason:
        case "PERMANENT_FAILURE":
            if status is not None and _retryable(status) and at_least_once:
                yield _found("failed_too_soon", run, commit, f"{reason} although the target answered {status}")
        case "ATTEMPTS_EXHAUSTED":
            if closed.get("attempt", 0) < fewest:
                text = f"{reason} at attempt {closed.get('attempt')} of {fewest}"
                yield _found("failed_too_soon", run, commit, text)
        case "POISON":
            if (before.get("reclaims") or 0) < MAX_RECLAIMS:
                text = f"{reason} after {(before.get('reclaims') or 0) + 1} lost holders"
                yield _found("failed_too_soon", run, commit, text)
        case _:
            yield _found("failed_without_reason", run, commit, f"FAILED, and the reason is {reason!r}")


def _closed(item: Item) -> Item | None:
    attempts = item.get("attempts") or ()
    last: Item | None = attempts[-1] if attempts else None
    return last


def _policies(run: RunFacts) -> list[Any]:
    return [policy for policy in run.job.every("retry") if policy]


def _retryable(http_status: int) -> bool:
    return http_status in (408, 425, 429) or http_status >= 500


def _found(check: str, run: RunFacts, commit: Commit, text: str) -> Violation:
    t: Instant = commit.t
    return Violation("I7", check, t, run.key, text)
