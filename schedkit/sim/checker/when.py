"""When: nothing early, each in its place in the window, each next time the right one, nothing later than promised.

I1   early_by_own_clock, early_by_true_time
I5   wrong_next, chain_from_now
I13  late_beyond_bound, held_too_long
I14  wrong_place_in_window
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schedkit.model.time import DAY_MS, Instant
from schedkit.sim.checker.facts import Call, Commit, Facts, Item, RunFacts, occurrences_of
from schedkit.sim.checker.verdict import Violation

ADVANCES: Final = frozenset({"advance", "hold", "pass by"})  # arrows by which a job goes on


def never_early(facts: Facts) -> Iterator[Violation]:
    """I1: no call starts before its time by the caller's clock, nor by true time but for the skew."""
    for call in facts.calls:
        floor = earliest(call.run)
        if call.own is not None and call.own < floor:
            yield _early(call, "early_by_own_clock", floor - call.own, "by its caller's clock")
        elif call.t < floor - facts.skew_ms:
            yield _early(call, "early_by_true_time", floor - call.t, "by true time")
        claim = call.run.claims.get(call.token)
        if claim is None or claim.before is None or claim.before.get("not_before") is None:
            continue
        not_before = claim.before["not_before"]
        own = max(call.own or 0, claimed_at(claim))
        if call.own is not None and own < not_before:
            yield _early(call, "early_by_own_clock", not_before - own, "by its caller's clock, as a retry")
        elif call.t < not_before - facts.skew_ms:
            yield _early(call, "early_by_true_time", not_before - call.t, "by true time, as a retry")


def earliest(run: RunFacts) -> Instant:
    """The earliest start of a run by any window that its job had."""
    if run.triggered or not run.job.settings or (run.ended_as or {}).get("backfilled"):
        return run.scheduled_for  # asked for by hand: it has no place in the window
    return min(run.job.due_of(item, run.scheduled_for) for item in run.job.settings)


def claimed_at(claim: Commit) -> Instant:
    """The claimer's clock as it decided: the latest of what it asked at and what it wrote down."""
    attempts = (claim.after or {}).get("attempts") or ()
    return max(claim.own or 0, attempts[-1]["started_at"] if attempts else 0)


def _early(call: Call, check: str, by_ms: int, clock: str) -> Violation:
    return Violation("I1", check, call.t, call.key, f"called by {call.node} {by_ms} ms before its time {clock}")


def place_in_window(facts: Facts) -> Iterator[Violation]:
    """I14: what is stored as the earliest start is the time plus the job's own offset, the same on every node."""
    for run in facts.runs:
        stored = run.first
        if stored is None or run.triggered or not run.job.settings:
            continue
        allowed = {run.job.due_of(item, run.scheduled_for) for item in run.job.settings}
        if stored.get("due_at") not in allowed:
            text = f"due_at is {stored.get('due_at')}; the offset of its job gives {sorted(allowed)}"
            yield Violation("I14", "wrong_place_in_window", run.commits[0].t, run.key, text)


def next_times(facts: Facts) -> Iterator[Violation]:
    """I5: each next_run_at is the first occurrence after where the schedule counts from, and that never skips ahead."""
    horizon = facts.end_at + 2 * DAY_MS
    for job in facts.made:
        for commit in job.commits:
            before, after = commit.before, commit.after
            if after is None or (before is not None and _stands(before, after)):
                continue
            if (text := _wrong_next(after, horizon)) is not None:
                yield Violation("I5", "wrong_next", commit.t, job.job_id, f"{commit.arrow}: {text}")
            if before is None or commit.arrow not in ADVANCES or before.get("next_run_at") is None:
                continue
            moved = before.get("held") is None or after.get("held") is not None
            counted = after.get("counted_from")
            if commit.arrow != "pass by" and moved and counted != before["next_run_at"]:
                text = f"{commit.arrow} counts from {counted}, not from the occurrence {before['next_run_at']}"
                yield Violation("I5", "chain_from_now", commit.t, job.job_id, text)


def _stands(before: Item, after: Item) -> bool:
    names = ("next_run_at", "counted_from", "schedule")
    return all(before.get(name) == after.get(name) for name in names)


def _wrong_next(item: Item, horizon: Instant) -> str | None:
    counted, following = item.get("counted_from"), item.get("next_run_at")
    if counted is None or item["status"] not in ("SCHEDULED", "PAUSED"):
        return None
    until = horizon if following is None else min(following, horizon)
    if until - counted > 10 * DAY_MS and item["schedule"]["type"] == "CRON":  # rare crons: looked at where it matters
        counted = max(counted, until - 10 * DAY_MS)
    found = occurrences_of(item["schedule"], counted, until)
    if found is None:
        return None
    if following is None:
        used_up = item.get("max_runs") is not None and item.get("run_count", 0) >= item["max_runs"]
        return f"no next time, but {found[0]} is still to come" if found and not used_up else None
    first = found[0] if found else None
    if first != following and (first is not None or following <= horizon):
        return f"next_run_at is {following}, the first occurrence after {counted} is {first}"
    return None


def no_later_than_promised(facts: Facts) -> Iterator[Violation]:
    """I13: the first call of each occurrence starts within the bound of its weather."""
    for run, call, due_at in first_calls(facts):
        bound = facts.deadline(due_at)
        if call.t > bound and not waits_by_rule(run):
            text = f"first called {call.t - due_at} ms after it was due, {call.t - bound} ms later than promised"
            yield Violation("I13", "late_beyond_bound", call.t, run.key, text)


def held_no_longer_than_promised(facts: Facts) -> Iterator[Violation]:
    """I13, W13: an occurrence that waited for the run before it starts within the bound after that has ended."""
    for run, call, due_at in first_calls(facts):
        if run.scheduled_for not in run.job.held:
            continue
        ends = (ended for other in run.job.runs.values() if other is not run for ended in other.ends)
        free_at = max([due_at, *(ended for ended in ends if ended <= call.t)])
        bound = facts.deadline(free_at)
        if call.t > bound:
            text = f"first called {call.t - free_at} ms after nothing stood in its way, {call.t - bound} ms too late"
            yield Violation("I13", "held_too_long", call.t, run.key, text)


def first_calls(facts: Facts) -> Iterator[tuple[RunFacts, Call, Instant]]:
    """(run, its first call, since when it could have been called) for every run of a schedule that was called."""
    for run in facts.runs:
        if not run.claimed or not run.calls or run.first is None:
            continue
        call = run.calls[0]
        if run.series_of(call.token) or run.backfilled_by(call.order):
            continue  # it died (at most once) or was given up before it was called, and a person had it called later
        due_at = run.first.get("due_at") or run.scheduled_for
        yield run, call, max(due_at, run.job.verb_before(call.t))


def waits_by_rule(run: RunFacts) -> bool:
    """It was held until the run before it ended, or it is one of several that were missed together."""
    if run.scheduled_for in run.job.held:
        return True
    if run.first is None or not run.first.get("misfired"):
        return False
    earlier = [at for at, other in run.job.runs.items() if at < run.scheduled_for and other.claimed]
    before = run.job.runs[max(earlier)].first if earlier else None
    return before is not None and bool(before.get("misfired"))
