"""Misfires and overlaps: what was not run has a right to it, and what was run late or beside another one, too.

I6   skipped_within_grace, skipped_latest, skipped_before_cap, expired_too_soon, overlap_with_nothing,
     skipped_without_reason, run_despite_skip, ran_an_older_one, skipped_not_held, started_after_expiry
W13  overlapping_runs
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from schedkit.model.time import SECOND_MS, Instant
from schedkit.sim.checker.facts import Commit, Facts, Item, JobFacts, RunFacts, final, occurrences_of
from schedkit.sim.checker.verdict import Violation

MAX_CATCH_UP_RUNS: Final = 100  # W12: RUN_ALL runs this many missed occurrences
READ_EARLIER_MS: Final = 10 * SECOND_MS  # a decision stands on a read that may be this old, as long as it is waited for
READS_MS: Final = 100  # … or this much older than the moment that it wrote down, if none of its messages was delayed
SLOW_READS_MS: Final = 3 * SECOND_MS  # … and this much if one was: three reads, given up after a second each
BY_A_VERB: Final = frozenset(
    {"RESCHEDULED", "JOB_CANCELLED", "JOB_PAUSED", "MISSED_WHILE_PAUSED", "RUN_CANCELLED", "SKIPPED_BY_HAND"}
)


def skipped_by_rule(facts: Facts) -> Iterator[Violation]:
    """I6: every skip has a reason, and the reason is true."""
    for run in facts.runs:
        first = run.first
        if first is None or first["status"] != "SKIPPED":
            continue
        commit, reason = run.commits[0], first.get("reason")
        match reason:
            case "MISFIRED":
                yield from _misfired(run, commit, first)
            case "EXPIRED":
                limits = [limit for limit in run.job.every("expires_after_ms") if limit is not None]
                if not limits or first["created_at"] <= run.scheduled_for + min(limits):
                    text = f"EXPIRED {first['created_at'] - run.scheduled_for} ms after its time, allowed is {limits}"
                    yield _found("expired_too_soon", run, commit, text)
            case "OVERLAP":
                yield from _overlapped(facts, run, commit, first)
            case _ if reason not in BY_A_VERB:
                yield _found("skipped_without_reason", run, commit, f"SKIPPED, and the reason is {reason!r}")


def _misfired(run: RunFacts, commit: Commit, first: Item) -> Iterator[Violation]:
    job = commit.job
    if job is None:
        return
    policy = job.get("catch_up") or job.get("misfire")
    late_ms = first["created_at"] - (first.get("due_at") or run.scheduled_for)
    grace_ms = min(run.job.every("misfire_grace_ms", 0), default=0)
    following = job.get("next_run_at")
    if policy != "SKIP" and following is not None:  # one that is late takes along what became due after it
        late_ms = max(late_ms, first["created_at"] - run.job.due_of(job, following))
    if late_ms <= grace_ms:
        yield _found("skipped_within_grace", run, commit, f"MISFIRED {late_ms} ms after it was due, allowed {grace_ms}")
    if policy == "RUN_ALL" and (job.get("missed_run") or 0) < MAX_CATCH_UP_RUNS:
        text = f"MISFIRED under RUN_ALL after {job.get('missed_run') or 0} runs that had been missed"
        yield _found("skipped_before_cap", run, commit, text)
    if policy == "SKIP":
        return
    until = first["created_at"] - run.job.due_of(job, 0)
    if occurrences_of(job["schedule"], run.scheduled_for, until) == []:
        text = f"MISFIRED under {policy} although it was the latest that was due at {first['created_at']}"
        yield _found("skipped_latest", run, commit, text)


def _overlapped(facts: Facts, run: RunFacts, commit: Commit, first: Item) -> Iterator[Violation]:
    since = _read_at(facts, commit, first["created_at"], READ_EARLIER_MS)
    others = (other for other in run.job.runs.values() if other is not run)
    if set(run.job.every("overlap")) <= {"ALLOW", None}:
        yield _found("overlap_with_nothing", run, commit, "OVERLAP, although the policy of its job is ALLOW")
    elif not any(other.open_between(since, commit.t) for other in others):
        yield _found("overlap_with_nothing", run, commit, "OVERLAP, although no other run of its job was open")
    job = commit.job or {}
    if job.get("overlap") == "BUFFER_ONE" and job.get("held") is None:
        yield _found("skipped_not_held", run, commit, "OVERLAP under BUFFER_ONE, although none was held")


def _read_at(facts: Facts, commit: Commit, decided_at: Instant, reads_ms: int) -> Instant:
    """The earliest time at which a writer read what it decided on. It may have been stopped between its reads."""
    since = min(decided_at - facts.skew_ms, commit.t) - reads_ms
    known = commit.own is not None
    stops = [
        stop
        for what, spans in facts.troubles.items()
        if what == f"stop {commit.node}" or (not known and what.startswith("stop "))
        for stop in spans
    ]
    for began, ended in sorted(stops, reverse=True):
        if began <= commit.t and ended >= since:
            since = min(since, began - reads_ms)
    return since


def started_in_time(facts: Facts) -> Iterator[Violation]:
    """W15: by the clock of its claimer, no run starts for the first time after it has expired."""
    for run in facts.runs:
        limits = run.job.every("expires_after_ms")
        if not run.claimed or not run.claims or None in limits or not limits:
            continue
        claim = run.claims[min(run.claims)]  # of a task, long after it came to be
        if run.backfilled_by(claim.order):
            continue
        assert claim.after is not None, "a claim writes the run"
        late_ms, limit = claim.after["attempts"][0]["started_at"] - run.scheduled_for, max(limits)
        if late_ms > limit:
            text = f"claimed {late_ms} ms after its time, allowed is {limit}"
            yield _found("started_after_expiry", run, claim, text)


def late_runs_by_rule(facts: Facts) -> Iterator[Violation]:
    """I6: what is claimed after its grace is what the misfire policy says; judged where no operator changed the job."""
    for run in facts.runs:
        first, job = run.first, run.job
        if not run.claimed or first is None or job.touched or not job.settings or run.scheduled_for in job.held:
            continue
        settings = job.settings[0]
        late_ms = first["created_at"] - (first.get("due_at") or run.scheduled_for)
        if late_ms <= (settings.get("misfire_grace_ms") or 0) or job.catch_ups:
            continue
        policy, commit = settings.get("misfire"), run.commits[0]
        if policy == "SKIP":
            yield _found("run_despite_skip", run, commit, f"claimed {late_ms} ms after it was due, under SKIP")
        elif policy == "RUN_ONCE":
            until = first["created_at"] - job.due_of(settings, 0)
            newer = occurrences_of(settings["schedule"], run.scheduled_for, until)
            if newer:
                text = f"claimed {late_ms} ms after it was due, under RUN_ONCE, although {newer[-1]} was due too"
                yield _found("ran_an_older_one", run, commit, text)


def one_at_a_time(facts: Facts) -> Iterator[Violation]:
    """W13: where runs of a job may not overlap, none is claimed while the one before it is open."""
    for job in facts.made:
        if job.touched or not job.settings or job.settings[0].get("overlap") in ("ALLOW", None):
            continue
        runs = sorted((run for run in job.runs.values() if run.claimed), key=lambda run: run.commits[0].order)
        for before, run in pairwise(runs):
            start = run.commits[0]
            if not (before.redrives or before.backfills) and not final(before.at(start.order)):
                text = f"claimed while {before.key} was open, which the policy of the job forbids"
                yield Violation("W13", "overlapping_runs", start.t, run.key, text)


def none_beside_triggered(facts: Facts) -> Iterator[Violation]:
    """W13: … nor while the last one that was asked for by hand is open, if that was to be seen."""
    for job in facts.made:
        if {"ALLOW", None} & set(job.every("overlap")) or not any(run.triggered for run in job.runs.values()):
            continue
        for run in job.runs.values():
            if run.claimed and not run.triggered and run.first is not None:
                yield from _beside(facts, job, run, run.first)


def _beside(facts: Facts, job: JobFacts, run: RunFacts, first: Item) -> Iterator[Violation]:
    start = run.commits[0]
    other = job.runs.get((job.at(start.order) or {}).get("last_triggered", -1))
    if other is None or not other.triggered or final(other.at(start.order)):
        return
    read_at = _read_at(facts, start, first["created_at"], SLOW_READS_MS)
    delayed = any(read_at <= t <= start.t for t in facts.delays.get(start.node, ()))
    if start.own is not None and not delayed:
        read_at = _read_at(facts, start, first["created_at"], READS_MS)
    if other.commits[0].t < read_at and not other.redrives:
        text = f"claimed while {other.key}, which was asked for by hand, was open; the policy of the job forbids it"
        yield Violation("W13", "overlapping_runs", start.t, run.key, text)


def _found(check: str, run: RunFacts, commit: Commit, text: str) -> Violation:
    return Violation("I6", check, commit.t, run.key, text)
