"""Limits: what the begin event declares under `limits` is kept; what it does not declare is not asked for.

I15  strict_over_allowance   strict_per_second: n
I17  reclaims_over_pace      reclaims_per_window: {count, window_ms}
I18  target_over_limit       target_concurrency: {url: n}
I19  redrives_over_pace      redrives_per_second: n
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from schedkit.model.time import SECOND_MS, Instant
from schedkit.sim.checker.facts import Facts, Item
from schedkit.sim.checker.verdict import Violation

RACE: Final = 1  # what two that decide at the same time may add


def strict_allowance(facts: Facts) -> Iterator[Violation]:
    """I15: in no second more strict jobs are due than the allowance has room for."""
    allowed = facts.limits.get("strict_per_second")
    if allowed is None:
        return
    due: Counter[int] = Counter()
    commits = [(commit.order, commit, job.job_id) for job in facts.made for commit in job.commits]
    for _, commit, job_id in sorted(commits, key=lambda found: found[0]):
        was, becomes = _strict_second(commit.before), _strict_second(commit.after)
        if was == becomes:
            continue
        if was is not None:
            due[was] -= 1
        if becomes is not None:
            due[becomes] += 1
            if due[becomes] > allowed:
                text = f"{due[becomes]} strict jobs are due in the second {becomes}, {allowed} are allowed"
                yield Violation("I15", "strict_over_allowance", commit.t, job_id, text)


def _strict_second(item: Item | None) -> int | None:
    if item is None or item["status"] != "SCHEDULED" or item.get("window_ms") or item.get("next_run_at") is None:
        return None
    return int(item["next_run_at"]) // SECOND_MS


def reclaim_pace(facts: Facts) -> Iterator[Violation]:
    """I17: an outage of our own does not start second copies faster than the pace."""
    pace = facts.limits.get("reclaims_per_window")
    if pace is None:
        return
    reclaims = [(commit.t, run.key) for run in facts.runs for commit in run.commits if commit.arrow == "reclaim"]
    for t, key, count in bursts(reclaims, pace["window_ms"], pace["count"]):
        text = f"{count} reclaims within {pace['window_ms']} ms, {pace['count']} are allowed"
        yield Violation("I17", "reclaims_over_pace", t, key, text)


def target_protection(facts: Facts) -> Iterator[Violation]:
    """I18: no target has more calls at once than its limit, but for one race."""
    limits = facts.limits.get("target_concurrency") or {}
    running: dict[str, list[Instant]] = {url: [] for url in limits}
    for call in facts.calls if limits else ():
        ends = running.get(call.url)
        if ends is None:
            continue
        while ends and ends[0] <= call.t:
            heappop(ends)
        heappush(ends, call.ends_at)
        if len(ends) > limits[call.url] + RACE:
            text = f"{len(ends)} calls of {call.url} at once, {limits[call.url]} are allowed"
            yield Violation("I18", "target_over_limit", call.t, call.key, text)


def redrive_cap(facts: Facts) -> Iterator[Violation]:
    """I19: in no second more runs are redriven than the cap, but for one."""
    cap = facts.limits.get("redrives_per_second")
    if cap is None:
        return
    redrives = [(commit.t, run.key) for run in facts.runs for commit in run.redrives]
    for t, key, count in bursts(redrives, SECOND_MS, cap + RACE):
        text = f"{count} redrives within a second, {cap} are allowed"
        yield Violation("I19", "redrives_over_pace", t, key, text)


def bursts(events: Iterable[tuple[Instant, str]], window_ms: int, allowed: int) -> Iterator[tuple[Instant, str, int]]:
    """(time, key, how many) wherever a sliding window has more than is allowed."""
    recent: deque[Instant] = deque()
    for t, key in sorted(events):
        recent.append(t)
        while recent[0] <= t - window_ms:
            recent.popleft()
        if len(recent) > allowed:
            yield t, key, len(recent)
