"""Who: one holder for each run, each write fenced, each arrow legal.

I8   illegal_run_arrow, illegal_job_arrow, closed_attempt_changed, attempt_out_of_turn, cancelled_unasked
     broken_chain
I9   epoch_not_raised_by_one, live_lease_taken, same_epoch_two_calls
I10  epoch_changed, stale_write_landed, extended_by_another
I16  lease_moved_back
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from schedkit.sim.checker.facts import (
    CLOCK_MARGIN_MS,
    ENDED,
    LOST,
    Commit,
    Facts,
    Item,
    RunFacts,
    enters_running,
    given_back,
)
from schedkit.sim.checker.verdict import Violation

RUN_ARROWS: Final = frozenset({
    (None, "RUNNING"), (None, "SKIPPED"), (None, "RETRY_WAIT"), (None, "CANCELLED"),
    ("RUNNING", "RUNNING"), ("RUNNING", "RETRY_WAIT"), ("RUNNING", "SUCCEEDED"), ("RUNNING", "FAILED"),
    ("RUNNING", "SUCCEEDED_AFTER_CANCEL"), ("RUNNING", "CANCELLED"), ("RUNNING", "UNKNOWN"),
    ("RETRY_WAIT", "RUNNING"), ("RETRY_WAIT", "CANCELLED"), ("RETRY_WAIT", "RETRY_WAIT"), ("RETRY_WAIT", "SKIPPED"),
})  # fmt: skip
REDRIVEN: Final = frozenset({("FAILED", "RETRY_WAIT"), ("UNKNOWN", "RETRY_WAIT")})
BACKFILLED: Final = frozenset({("SKIPPED", "RETRY_WAIT"), ("CANCELLED", "RETRY_WAIT")})
RESOLVED: Final = frozenset({("UNKNOWN", "SUCCEEDED"), ("UNKNOWN", "FAILED")})
JOB_ARROWS: Final = frozenset({
    (None, "SCHEDULED"), (None, "PAUSED"),
    ("SCHEDULED", "SCHEDULED"), ("SCHEDULED", "PAUSED"), ("SCHEDULED", "COMPLETED"), ("SCHEDULED", "FAILED"),
    ("SCHEDULED", "CANCELLED"),
    ("PAUSED", "PAUSED"), ("PAUSED", "SCHEDULED"), ("PAUSED", "CANCELLED"), ("PAUSED", "FAILED"),
})  # fmt: skip
KEPT_FOR_FINAL: Final = frozenset({"expires_at", "archived_at"})  # what may change about what has ended
DROPPED: Final = frozenset({"dead_partition", "dead_at", "dropped_at", "note", "expires_at"})


def legal_arrows(facts: Facts) -> Iterator[Violation]:
    """I8: runs and jobs move along their tables only, and what has ended never changes."""
    for run in facts.runs:
        for commit in run.commits:
            if commit.after is not None and (text := _illegal_run(commit)) is not None:
                yield _found("I8", "illegal_run_arrow", run, commit, text)
    for job in facts.made:
        for commit in job.commits:
            if commit.after is None:
                continue
            was = commit.before["status"] if commit.before is not None else None
            becomes = commit.after["status"]
            if (was, becomes) not in JOB_ARROWS and not _only_kept(commit):
                text = f"{commit.arrow} takes the job from {was or 'nothing'} to {becomes}"
                yield Violation("I8", "illegal_job_arrow", commit.t, job.job_id, text)


def _illegal_run(commit: Commit) -> str | None:
    assert commit.after is not None
    before, after = commit.before, commit.after
    move = (before["status"] if before is not None else None, after["status"])
    if move in RUN_ARROWS:
        if before is not None and move[1] in ("SUCCEEDED", "SUCCEEDED_AFTER_CANCEL"):
            asked = bool(before.get("cancel_requested"))
            if asked != (move[1] == "SUCCEEDED_AFTER_CANCEL"):
                return f"{commit.arrow} records {move[1]} although a cancel was {'' if asked else 'not '}requested"
        asked_for = after.get("triggered") or after.get("backfilled")
        if move == (None, "RETRY_WAIT") and not (asked_for or after.get("task_queue")):
            return f"{commit.arrow} makes a run that waits for a retry before anything was tried"
        if move == ("RETRY_WAIT", "SKIPPED") and after.get("attempts"):
            return f"{commit.arrow} skips a run that had been started"
        if move == ("RETRY_WAIT", "RETRY_WAIT") and before is not None and not _rerouted(before, after):
            return f"{commit.arrow} changes a run that waits, and not only where"
        return None
    if (move in REDRIVEN and commit.arrow.startswith("redrive")) or (move in RESOLVED and commit.arrow == "resolve"):
        return None
    if move in BACKFILLED and commit.arrow == "backfill":
        return None
    if before is not None and move[0] == move[1]:
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        if set(changed) <= KEPT_FOR_FINAL or (commit.arrow == "drop" and set(changed) <= DROPPED):
            return None
        return f"{commit.arrow} changes {', '.join(changed)} of a run that has ended {move[0]}"
    return f"{commit.arrow} takes the run from {move[0] or 'nothing'} to {move[1]}"


def _rerouted(before: Item, after: Item) -> bool:
    """What changed about a waiting run is for whom it waits."""
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    return changed <= {"task_queue", "task_type", "target_id", "task_line", "timer_partition", "timer_at"}


def _only_kept(commit: Commit) -> bool:
    """Nothing changed but how long it is kept, and by a backfill what the overlap rule knows."""
    before, after = commit.before, commit.after
    if before is None or after is None:
        return False
    may_change = KEPT_FOR_FINAL | ({"last_triggered"} if commit.arrow == "know of backfill" else set())
    return {name for name in {*before, *after} if before.get(name) != after.get(name)} <= may_change


def attempts_once(facts: Facts) -> Iterator[Violation]:
    """I8: each attempt is closed once, and the attempt's number rises only when a failure is recorded."""
    for run in facts.runs:
        for commit in run.commits:
            before, after = commit.before, commit.after
            if before is None or after is None or commit.arrow.startswith(("redrive", "backfill")):
                continue
            closed = {attempt["epoch"]: attempt for attempt in before.get("attempts") or () if attempt.get("outcome")}
            for attempt in after.get("attempts") or () if closed else ():
                if closed.get(attempt["epoch"], attempt) != attempt:
                    text = f"{commit.arrow} changes the attempt of epoch {attempt['epoch']}, which had ended"
                    yield _found("I8", "closed_attempt_changed", run, commit, text)
            rise = after.get("attempt", 0) - before.get("attempt", 0)
            failed = after["status"] == "RETRY_WAIT" and before["status"] == "RUNNING" and not given_back(commit)
            first_of_series = before.get("attempt") == 0 and after["status"] == "RUNNING"
            if rise != int(failed or first_of_series):
                text = f"{commit.arrow} takes attempt {before.get('attempt')} to {after.get('attempt')}"
                yield _found("I8", "attempt_out_of_turn", run, commit, text)


def unbroken(facts: Facts) -> Iterator[Violation]:
    """I8: each write starts from what the write before it left: no write is lost under another."""
    for run in facts.runs:
        for commit in _torn(run.commits):
            yield _found("I8", "broken_chain", run, commit, f"{commit.arrow} does not start from the item as it stood")
    for job in facts.made:
        for commit in _torn(job.commits):
            text = f"{commit.arrow} does not start from the item as it stood"
            yield Violation("I8", "broken_chain", commit.t, job.job_id, text)


def _torn(commits: list[Commit]) -> Iterator[Commit]:
    stood: Item | None = commits[0].before
    for commit in commits:
        if commit.before is not stood and commit.before != stood:
            yield commit
        stood = commit.after


def one_live_epoch(facts: Facts) -> Iterator[Violation]:
    """I9: every arrow into RUNNING raises the epoch by one, and none takes a lease that is alive."""
    for run in facts.runs:
        for commit in run.commits:
            entered = enters_running(commit)
            if not (entered or given_back(commit) == LOST) or commit.after is None:
                continue
            before: Any = commit.before or {}
            was, becomes = before.get("epoch", 0), commit.after.get("epoch")
            if entered and becomes != was + 1:
                text = f"{commit.arrow} takes epoch {was} to {becomes}"
                yield _found("I9", "epoch_not_raised_by_one", run, commit, text)
            lease_end = before.get("lease_expires_at")
            if before.get("status") != "RUNNING" or lease_end is None:
                continue
            early_ms = lease_end + CLOCK_MARGIN_MS - facts.skew_ms - commit.t
            if early_ms > 0:
                text = f"{commit.after.get('lease_owner') or commit.node} took {before.get('lease_owner')}'s lease, "
                text += f"which ends at {lease_end}, {early_ms} ms before any clock could say that it had ended"
                yield _found("I9", "live_lease_taken", run, commit, text)


def tokens_once(facts: Facts) -> Iterator[Violation]:
    """I9: one claim, one call: no two calls of a run carry the same fencing token."""
    for job in facts.jobs.values():
        for run in job.runs.values():
            seen: dict[int, str] = {}
            for call in run.calls if len(run.calls) > 1 else ():
                if call.token in seen:
                    text = f"called twice with token {call.token}, by {seen[call.token]} and {call.node}"
                    yield Violation("I9", "same_epoch_two_calls", call.t, call.key, text)
                seen[call.token] = call.node


def fenced(facts: Facts) -> Iterator[Violation]:
    """I10: no write of a holder lands under another epoch than its own, and only claims change the epoch."""
    for run in facts.runs:
        for commit in run.commits:
            before, after = commit.before, commit.after
            if before is None or after is None or enters_running(commit):
                continue
            if commit.tag is not None and commit.tag != before.get("epoch"):
                text = f"{commit.arrow} of epoch {commit.tag} landed while epoch {before.get('epoch')} held the run"
                yield _found("I10", "stale_write_landed", run, commit, text)
            elif after.get("epoch") != before.get("epoch") and not commit.arrow.startswith("redrive"):
                text = f"{commit.arrow} takes epoch {before.get('epoch')} to {after.get('epoch')}"
                yield _found("I10", "epoch_changed", run, commit, text)


def leases_forward(facts: Facts) -> Iterator[Violation]:
    """I16: within one epoch a lease only moves forward, by its holder, unless that is known to be gone."""
    for run in facts.runs:
        for commit in run.commits:
            before, after = commit.before, commit.after
            if before is None or after is None or commit.arrow == "release" or enters_running(commit):
                continue
            if not before["status"] == after["status"] == "RUNNING":
                continue
            was, becomes = before.get("lease_expires_at"), after.get("lease_expires_at")
            claim = run.claims.get(before.get("epoch", 0))
            by_worker = before.get("task_queue") is not None  # through whichever door: its epoch is what counts
            known = commit.own is not None and claim is not None
            if was != becomes and known and not by_worker and claim is not None and claim.node != commit.node:
                text = f"{commit.arrow} extends the lease that {claim.node} took"
                yield _found("I10", "extended_by_another", run, commit, text)
            if was is not None and (becomes is None or becomes < was):
                text = f"{commit.arrow} moves the end of the lease from {was} to {becomes}"
                yield _found("I16", "lease_moved_back", run, commit, text)


def ended_job(item: Item | None) -> bool:
    """The item of a job that has ended."""
    return item is not None and item["status"] in ENDED


def _found(invariant: str, check: str, run: RunFacts, commit: Commit, text: str) -> Violation:
    return Violation(invariant, check, commit.t, run.key, f"{text} ({commit.node})")
