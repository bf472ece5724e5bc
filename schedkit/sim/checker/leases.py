"""Leases: one that lives is ended by nobody but its holder, and one that is lost was lost for a reason.

I9   release_of_another
I11  lease_lost_without_reason

After a claim every read and write is tried again while the lease lives, and a lease outlives its call by a minute. So
single messages that are lost, late or throttled cost no lease. These do:

    the holder's process   killed, crashed, stopped
    the store              away or full for everybody, or cut off from the holder
    the holder's clock     set by more than the margin that leases have
    a release              by the next process of a machine whose process is gone

A worker's lease lives by its heartbeats, so any trouble on their way may cost it; once the storm is over, nothing does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schedkit.sim.checker.facts import CLOCK_MARGIN_MS, LOST, Commit, Facts, RunFacts, enters_running, given_back
from schedkit.sim.checker.verdict import Violation

LOOKED_BACK_MS: Final = 5_000  # a process may be stopped this long before the write or call that it is known by
GONE: Final = frozenset({"kill", "crash"})


def lost_for_a_reason(facts: Facts) -> Iterator[Violation]:
    """I11: whoever takes over a run, or gives it up for lost, does so because something happened to its holder."""
    for run in facts.runs:
        for commit in run.commits if len(run.commits) > 1 else ():
            if not _lost(commit) or commit.before is None:
                continue
            claim = run.claims.get(commit.before.get("epoch", 0))
            if claim is not None and not _reason(facts, run, claim, commit):
                text = f"{commit.arrow} by {commit.node}: {claim.node} had claimed it at {claim.t} (epoch "
                text += f"{commit.before.get('epoch')}), and nothing happened to it that would lose its lease"
                yield Violation("I11", "lease_lost_without_reason", commit.t, run.key, text)


def _lost(commit: Commit) -> bool:
    """The run was taken from its holder: by the next one, or by one that ends it because of its lease."""
    before, after = commit.before, commit.after
    if before is None or after is None or before["status"] != "RUNNING":
        return False
    if enters_running(commit) or given_back(commit) == LOST:
        return True
    given_up = after["status"] == "UNKNOWN" or (after["status"] == "FAILED" and after.get("reason") == "POISON")
    end = before.get("lease_expires_at")
    decided_at = commit.own if commit.own is not None else commit.t
    return given_up and end is not None and decided_at > end


def _reason(facts: Facts, run: RunFacts, claim: Commit, lost: Commit) -> bool:
    assert lost.before is not None, "what was lost was there"
    if lost.before.get("task_queue") is not None:  # a worker's lease is short, and every message to it may be lost
        return facts.faulty and claim.t < facts.recovered
    epoch, end = lost.before.get("epoch"), lost.before.get("lease_expires_at") or lost.t
    for commit in run.commits:
        before = commit.before
        if commit.arrow != "release" or before is None or before.get("epoch") != epoch or commit.order > lost.order:
            continue
        if legal_release(facts, run, commit):
            return True
        end = before.get("lease_expires_at") or end  # by one that had no right to: the lease as it was counts
        break
    since, until = claim.t - LOOKED_BACK_MS, min(end + CLOCK_MARGIN_MS + facts.skew_ms, lost.t)
    node = claim.node
    if facts.down_between(node, since, until) is not None:
        return True
    if any(facts.troubled(what, since, until) for what in ("outage", f"cut {node}", f"stop {node}")):
        return True
    return any(since <= t <= until and abs(jump_ms) > CLOCK_MARGIN_MS for t, jump_ms in facts.clocks.get(node, ()))


def releases_by_right(facts: Facts) -> Iterator[Violation]:
    """I9: nobody ends the lease of another, nor of itself while it lives."""
    for run in facts.runs:
        for commit in run.commits:
            if commit.arrow == "release" and not legal_release(facts, run, commit):
                claim = run.claims[(commit.before or {}).get("epoch", 0)]
                text = f"{commit.node} ended the lease that {claim.node} took at {claim.t}, and whose process was there"
                yield Violation("I9", "release_of_another", commit.t, run.key, text)


def legal_release(facts: Facts, run: RunFacts, release: Commit) -> bool:
    """By the machine of the holder, whose process is gone by then. Where the writer is not known, nobody can say."""
    claim = run.claims.get((release.before or {}).get("epoch", 0))
    if claim is None or release.own is None:
        return True
    if release.node != claim.node:
        return False
    since, until = claim.t - LOOKED_BACK_MS, release.t
    if any(since <= t <= until for t in facts.boots.get(claim.node, ())):
        return True
    return any(since <= t <= until and fault in GONE for t, fault in facts.downs.get(claim.node, ()))
