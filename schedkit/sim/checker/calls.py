"""Calls: who may call, every second call has its reason, and nothing is reported that was not seen.

I11  unexplained_duplicate
I12  wrong_key, call_without_claim, token_of_another
C6   reported_without_call
C7   at_most_once_called_again, unknown_without_at_most_once
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final

from schedkit.sim.checker.facts import CLOCK_MARGIN_MS, RELEASED, Call, Commit, Facts, RunFacts, given_back
from schedkit.sim.checker.leases import LOOKED_BACK_MS, legal_release
from schedkit.sim.checker.verdict import Violation

UNEXPLAINED: Final = "unexplained"
AT_MOST_ONCE: Final = "AT_MOST_ONCE"


def right_key(facts: Facts) -> Iterator[Violation]:
    """I12: the key is the run's id at every try, and the token is an epoch that this process has claimed."""
    for call in facts.calls:
        run = call.run
        if call.key != run.key:
            text = f"the call of {run.key} carries the key {call.key}"
            yield Violation("I12", "wrong_key", call.t, call.key, text)
        claim = run.claims.get(call.token)
        if claim is None or claim.order > call.order:
            text = f"{call.node} calls with token {call.token}, which nobody had claimed"
            yield Violation("I12", "call_without_claim", call.t, call.key, text)
        elif call.node not in (claim.node, *_holder(claim)):
            text = f"{call.node} calls with token {call.token}, which {claim.node} had claimed"
            yield Violation("I12", "token_of_another", call.t, call.key, text)


def _holder(claim: Commit) -> tuple[str, str]:
    """The process that holds a run, and its machine, which the process's name begins with."""
    owner = str((claim.after or {}).get("lease_owner") or "")
    return owner, owner.rpartition(".")[0]


def duplicates(facts: Facts) -> Iterator[tuple[Call, Call, str]]:
    """(the call of the earlier holder, that of the later one, why there are two) for each 2nd+ call of an attempt."""
    for job in facts.jobs.values():
        for run in job.runs.values():
            if len(run.calls) < 2:
                continue
            tried = {call.order: (run.series_of(call.token), call.attempt) for call in run.calls}
            ordered = sorted(run.calls, key=lambda call: (tried[call.order], call.token, call.order))
            for _, group in groupby(ordered, key=lambda call: tried[call.order]):
                tries = list(group)
                for earlier, later in pairwise(tries):
                    yield earlier, later, _explained(facts, run, earlier, later)


def _explained(facts: Facts, run: RunFacts, earlier: Call, later: Call) -> str:
    """What became of the earlier holder: kill, crash, stop, release, lease; or unexplained."""
    claim = run.claims.get(earlier.token)
    if not facts.faulty or earlier.token == later.token:
        return UNEXPLAINED
    since = min(earlier.t, later.t, claim.t if claim else earlier.t) - LOOKED_BACK_MS
    until = max(earlier.t, later.t)
    fault = facts.down_between(earlier.node, since, until)
    if fault is not None:
        return fault
    for commit in run.commits:
        if given_back(commit) and commit.before is not None and commit.before.get("epoch") == earlier.token:
            return "release" if given_back(commit) == RELEASED else "lease"  # that it had ended is I9's to say
    taken = run.claims.get(earlier.token + 1)
    before = taken.before if taken is not None else None
    for commit in run.commits:
        if commit.arrow != "release" or commit.before is None or commit.before.get("epoch") != earlier.token:
            continue
        if legal_release(facts, run, commit):
            return "release"
        before = commit.before  # released by one that had no right to: the lease as it was counts
        break
    lease_end = before.get("lease_expires_at") if before is not None else None
    if taken is not None and lease_end is not None and lease_end <= taken.t + CLOCK_MARGIN_MS:
        return "lease"
    return UNEXPLAINED


def duplicates_explained(facts: Facts) -> Iterator[Violation]:
    """I11: every further call of one attempt has its reason; without a fault there is none."""
    for earlier, later, why in duplicates(facts):
        if why == UNEXPLAINED:
            text = f"attempt {later.attempt} is called by {earlier.node} (token {earlier.token}, at {earlier.t}) and "
            text += f"by {later.node} (token {later.token}), and nothing had happened to the first"
            yield Violation("I11", "unexplained_duplicate", later.t, later.key, text)


def at_most_once(facts: Facts) -> Iterator[Violation]:
    """C7: a target that was reached is not called again where the job says at most once; UNKNOWN is for these only."""
    for run in facts.runs:
        deliveries = set(run.job.every("delivery", "AT_LEAST_ONCE"))
        if AT_MOST_ONCE not in deliveries:
            last = run.commits[-1]
            if last.after is not None and last.after["status"] == "UNKNOWN":
                text = "a run that may be called again ended UNKNOWN"
                yield Violation("C7", "unknown_without_at_most_once", last.t, run.key, text)
            continue
        if len(deliveries) > 1 or run.redrives:
            continue
        for earlier, later in pairwise(run.calls):
            if earlier.effect_at is not None or earlier.status is not None:
                text = f"called again by {later.node} {later.t - earlier.t} ms after a call that reached its target"
                yield Violation("C7", "at_most_once_called_again", later.t, run.key, text)


def nothing_made_up(facts: Facts) -> Iterator[Violation]:
    """C6: what is recorded as a success was answered by the target, to a call of the epoch that says so."""
    for run in facts.runs:
        last = run.commits[-1].after or run.commits[-1].before
        if last is None or last["status"] not in ("SUCCEEDED", "SUCCEEDED_AFTER_CANCEL"):
            continue
        if last.get("resolved_at") is not None:
            continue  # a person says so, and it is marked as that
        calls = [call for call in run.calls if call.token == last.get("epoch")]
        if not any(call.effect_at is not None or 200 <= (call.status or 0) < 300 for call in calls):
            text = f"{last['status']} under epoch {last.get('epoch')}, whose call no target is known to have answered"
            yield Violation("C6", "reported_without_call", run.commits[-1].t, run.key, text)
