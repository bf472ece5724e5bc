"""The ledger: what the oracle says was due, against the runs that there are.

    I2   missing_occurrence, not_an_occurrence, before_its_start
    W15  beyond_max_runs
    I30  run_count_wrong, run_lost, job_lost, forgotten_too_soon

A stretch is a time in which a job stood SCHEDULED with one schedule and one window. What was due in a stretch that
lasted long enough for it must have a run, and so must all that comes before a run of the same stretch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from schedkit.model.time import DAY_MS, Instant, rfc3339
from schedkit.sim.checker.facts import NEVER, Commit, Facts, Item, JobFacts, final, occurrences_of
from schedkit.sim.checker.verdict import Violation
from schedkit.sim.checker.who import ended_job

KEPT_MS: Final = 30 * DAY_MS  # what has ended is kept this long


@dataclass(slots=True)
class Stretch:
    """Some time in which a job was due by one schedule; `item` is the job's as it began, `until` when it ended."""

    item: Item
    since: Instant
    until: Instant = NEVER


def stretches(job: JobFacts) -> list[Stretch]:
    """The stretches of a job by its commits. One that ended by itself goes on: the oracle says whether it was right."""
    found: list[Stretch] = []
    current: Stretch | None = None
    for commit in job.commits:
        after = commit.after
        if after is None:
            break
        if current is None:
            if after["status"] == "SCHEDULED":
                found.append(current := Stretch(after, commit.t))
        elif after["status"] == "PAUSED" or (after["status"] == "CANCELLED" and not commit.arrow.startswith("finish")):
            current.until, current = commit.t, None
        elif commit.before is not None and _moved(commit.before, after) and after["status"] == "SCHEDULED":
            current.until = commit.t
            found.append(current := Stretch(after, commit.t))
    return found


def _moved(before: Item, after: Item) -> bool:
    return any(before.get(name) != after.get(name) for name in ("schedule", "window_ms"))


def nothing_missing(facts: Facts) -> Iterator[Violation]:
    """I2: every occurrence that a stretch was long enough for has a run, claimed or skipped, under its own time."""
    for job in facts.made:
        held = (job.ended_as or {}).get("held")
        capped = _used_up(job)
        for stretch in stretches(job):
            last = _last_recorded(job, stretch)
            for at in _expected(facts, stretch):
                run = job.runs.get(at)
                if at == held or (run is not None and run.commits):
                    continue
                due_at = max(job.due_of(stretch.item, at), stretch.since)
                deadline = facts.deadline(due_at) + facts.skew_ms
                in_time = deadline < min(stretch.until, facts.end_at) and not capped
                if in_time or at < last:
                    text = f"due at {due_at} while its job was SCHEDULED, and there is no run for it"
                    t = min(deadline, facts.end_at)
                    yield Violation("I2", "missing_occurrence", t, f"{job.job_id}:{rfc3339(at)}", text)


def _expected(facts: Facts, stretch: Stretch) -> list[Instant]:
    lower = min(stretch.item.get("counted_from") or 0, stretch.since + facts.skew_ms)
    return occurrences_of(stretch.item["schedule"], lower, min(stretch.until, facts.end_at)) or []


def _used_up(job: JobFacts) -> bool:
    """The job has had all the runs it is to have: nothing more is required."""
    limits = [limit for limit in job.every("max_runs") if limit is not None]
    return bool(limits) and sum(run.claimed for run in job.runs.values()) >= min(limits)


def _last_recorded(job: JobFacts, stretch: Stretch) -> Instant:
    """The latest occurrence that was recorded in this stretch: all before it were, since a job goes in order."""
    recorded = [
        at
        for at, run in job.runs.items()
        if run.first is not None
        and stretch.since <= run.commits[0].t <= stretch.until
        and not run.triggered
        and (run.ended_as or {}).get("status") != "CANCELLED"
    ]
    return max(recorded, default=0)


def nothing_made_of_air(facts: Facts) -> Iterator[Violation]:
    """I2: every run that nobody asked for by hand is an occurrence of a schedule that its job had by then."""
    for run in facts.runs:
        if run.triggered or not run.job.schedules or run.first is None:
            continue
        t = run.commits[0].t
        starts = []
        for since, schedule, counted_from in run.job.schedules:
            found = occurrences_of(schedule, run.scheduled_for - 1, run.scheduled_for)
            if since <= t and (found is None or found):
                starts.append(counted_from if found is not None else 0)
        if not starts:
            text = f"{run.commits[0].arrow} at a time at which its schedule is not due"
            yield Violation("I2", "not_an_occurrence", t, run.key, text)
        elif min(starts) >= run.scheduled_for:
            text = f"{run.commits[0].arrow} of an occurrence not later than {min(starts)}, where its schedule starts"
            yield Violation("I2", "before_its_start", t, run.key, text)


def counted(facts: Facts) -> Iterator[Violation]:
    """W15, I30: no more runs than the job was to have, and run_count is the number of those that were claimed."""
    for job in facts.made:
        item = job.ended_as
        if item is None:
            continue
        claimed = [run for run in job.runs.values() if run.claimed]
        kept = sum((run.ended_as or {}).get("status") != "CANCELLED" for run in claimed)
        limits = job.every("max_runs")
        if None not in limits and kept > max(limits):
            text = f"{kept} runs were started, {max(limits)} were to be"
            yield Violation("W15", "beyond_max_runs", facts.end_at, job.job_id, text)
        count = item.get("run_count") or 0
        waiting = {item.get("next_run_at"), item.get("held")}
        moving = sum(run.scheduled_for in waiting for run in claimed)
        low, high = len(claimed) - moving, len(claimed) + _by_hand_instead(job)
        if not (count <= high if job.touched else low <= count <= high):
            text = f"run_count is {count}, {len(claimed)} runs were claimed by the schedule"
            yield Violation("I30", "run_count_wrong", facts.end_at, job.job_id, text)


def _by_hand_instead(job: JobFacts) -> int:
    """Occurrences for which a run stands that was asked for by hand at that very moment: the job goes on over it."""
    passed = {(commit.after or {}).get("last_run") for commit in job.commits if commit.arrow == "advance"}
    return sum(run.triggered and at in passed for at, run in job.runs.items())


def nothing_forgotten(facts: Facts) -> Iterator[Violation]:
    """I30: an item goes away only after it has ended and its time to be kept is over."""
    for run in facts.runs:
        for commit in run.commits:
            if commit.after is None and not _may_go(facts, commit.t, commit.before, final(commit.before)):
                text = f"a run that is {(commit.before or {}).get('status')} went away"
                yield Violation("I30", "run_lost", commit.t, run.key, text)
    for job in facts.made:
        for commit in job.commits:
            if commit.after is None and not _may_go(facts, commit.t, commit.before, ended_job(commit.before)):
                text = f"a job that is {(commit.before or {}).get('status')} went away"
                yield Violation("I30", "job_lost", commit.t, job.job_id, text)


def _may_go(facts: Facts, t: Instant, item: Item | None, ended: bool) -> bool:
    return item is not None and ended and item.get("expires_at", NEVER) <= t + facts.skew_ms


def kept_long_enough(facts: Facts) -> Iterator[Violation]:
    """I30: what is forgotten ended 30 days before, and what has ended is not to be forgotten before that."""
    for run in facts.runs:
        if (text := _too_soon(facts, run.commits[-1], "finished_at")) is not None and final(run.ended_as):
            yield Violation("I30", "forgotten_too_soon", run.commits[-1].t, run.key, text)
    for job in facts.made:
        if (text := _too_soon(facts, job.commits[-1], "updated_at")) is not None and ended_job(job.ended_as):
            yield Violation("I30", "forgotten_too_soon", job.commits[-1].t, job.job_id, text)


def _too_soon(facts: Facts, last: Commit, ended: str) -> str | None:
    item = last.after or last.before or {}
    ended_at = item.get(ended)
    if ended_at is None:
        return None
    if last.after is None:
        return (
            f"forgotten {last.t - ended_at} ms after its end" if last.t + facts.skew_ms < ended_at + KEPT_MS else None
        )
    expires_at = item.get("expires_at", NEVER)
    return f"kept for {expires_at - ended_at} ms after its end only" if expires_at < ended_at + KEPT_MS else None
