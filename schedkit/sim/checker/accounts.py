"""Accounts: what the product's own ledger of a job says is true, and leaves nothing out.

W16  unaccounted, pause_of_air, known_too_late

A ledger goes by what the job remembers of its past: since when its schedule is as it is, and which pauses passed
something over. Here the same sum is made by the oracle, and what is remembered is held against the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schedkit.model.time import DAY_MS, Instant, rfc3339
from schedkit.sim.checker.facts import Facts, JobFacts, occurrences_of
from schedkit.sim.checker.verdict import Violation

KEPT_MS: Final = 30 * DAY_MS  # what has ended is kept this long, and so far back a ledger reaches


def accounted(facts: Facts) -> Iterator[Violation]:
    """W16: each occurrence up to where the job counts on has a run, is held back, or was passed over by a pause."""
    for job in facts.made:
        item = job.last
        if item is None or item.get("known_since") is None:
            continue
        since = max(item["known_since"], facts.end_at - KEPT_MS)
        pauses = item.get("pauses") or ()
        for at in occurrences_of(item["schedule"], since, item.get("counted_from") or 0) or ():
            run = job.runs.get(at)
            recorded = at == item.get("held") or (run is not None and bool(run.commits))
            if not recorded and not any(after < at <= through for after, through in pauses):
                text = f"the ledger of {job.job_id} knows its schedule since {since}, and nothing of this occurrence"
                yield Violation("W16", "unaccounted", facts.end_at, f"{job.job_id}:{rfc3339(at)}", text)


def remembered(facts: Facts) -> Iterator[Violation]:
    """W16: a pause that is remembered was one, and the schedule is known since it was last changed."""
    for job in facts.made:
        item = job.last
        if item is None or item.get("known_since") is None:
            continue
        passed = _passed_over(job)
        for after, through in item.get("pauses") or ():
            at = after
            while at != through and at in passed:
                at = passed[at]
            if at != through:
                text = f"no pause passed over what was due after {after} and up to {through}"
                yield Violation("W16", "pause_of_air", facts.end_at, job.job_id, text)
        _, _, changed = job.schedules[-1]
        if item["known_since"] not in (changed, *passed.values()):
            text = f"known since {item['known_since']}, and its schedule counts from {changed}"
            yield Violation("W16", "known_too_late", facts.end_at, job.job_id, text)


def _passed_over(job: JobFacts) -> dict[Instant, Instant]:
    """From where to where the schedule went at the end of each pause."""
    found: dict[Instant, Instant] = {}
    for commit in job.commits:
        before, after = commit.before, commit.after
        if before is None or after is None or before["status"] != "PAUSED" or after["status"] == "PAUSED":
            continue
        if before.get("counted_from") != after.get("counted_from"):
            found[before.get("counted_from") or 0] = after.get("counted_from") or 0
    return found
