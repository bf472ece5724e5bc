"""Timers: every waiting item has one, and it is that of the next thing it waits for (W8).

wrong_timer   a job: its next occurrence, or sooner while it waits for a run; the end of its pause
              a run: the end of its lease and the margin; the end of its wait
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schedkit.model.time import MAX_INSTANT, Instant
from schedkit.sim.checker.facts import CLOCK_MARGIN_MS, Facts, Item, JobFacts
from schedkit.sim.checker.verdict import Violation

CHANGED_BY: Final = ("timer_at", "next_run_at", "held", "status", "lease_expires_at", "not_before", "window_ms")


def right_timer(facts: Facts) -> Iterator[Violation]:
    """W8: after each write the item's timer stands where its next thing is: too late is late, too early is lost."""
    for job in facts.made:
        for commit in job.commits:
            after = commit.after
            if after is None or _stands(commit.before, after):
                continue
            text = _wrong_of_job(job, after)
            if text is not None:
                yield Violation("W8", "wrong_timer", commit.t, job.job_id, f"{commit.arrow}: {text}")
    for run in facts.runs:
        for commit in run.commits:
            after = commit.after
            if after is None or _stands(commit.before, after):
                continue
            wanted = _next_of_run(after)
            if after.get("timer_at") != wanted:
                text = f"{commit.arrow}: a run that is {after['status']} has its timer at {after.get('timer_at')}, "
                text += f"its next thing is at {wanted}"
                yield Violation("W8", "wrong_timer", commit.t, run.key, text)


def _stands(before: Item | None, after: Item) -> bool:
    return before is not None and all(before.get(name) == after.get(name) for name in CHANGED_BY)


def _wrong_of_job(job: JobFacts, item: Item) -> str | None:
    at, following = item.get("timer_at"), item.get("next_run_at")
    if item["status"] == "SCHEDULED":
        if following is None or item.get("held") is not None:
            return None if at is not None else "it waits for a run, and has no timer"
        wanted: Instant | None = min(job.due_of(item, following), MAX_INSTANT)
    else:
        wanted = item.get("paused_until") if item["status"] == "PAUSED" else None
    if at == wanted:
        return None
    return f"a job that is {item['status']} has its timer at {at}, its next thing is at {wanted}"


def _next_of_run(item: Item) -> Instant | None:
    if item["status"] == "RUNNING":
        end = item.get("lease_expires_at")
        return None if end is None else end + CLOCK_MARGIN_MS + 1
    not_before: Instant | None = item.get("not_before")
    return not_before if item["status"] == "RETRY_WAIT" else None
