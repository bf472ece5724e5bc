"""The end: long after the storm nothing stands open or overdue without a reason (I2, I13).

stuck_running, stuck_retry, stuck_timer, overdue_job, held_for_ever, unfinished_job

And whenever it was, nothing raised that nobody expected (BUG: raised).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schedkit.model.time import SECOND_MS, Instant
from schedkit.sim.checker.facts import CLOCK_MARGIN_MS, Facts, Item, JobFacts, RunFacts, enters_running
from schedkit.sim.checker.verdict import Violation

LOOK_AGAIN_MS: Final = 10 * SECOND_MS  # a job that waits for a run looks at it again this often


def runs_end(facts: Facts) -> Iterator[Violation]:
    """I2: no run is left RUNNING or RETRY_WAIT by a holder or a timer that was lost."""
    if facts.recovered > facts.end_at:
        return
    for run in facts.runs:
        item = run.last
        if item is None:
            continue
        if item["status"] == "RETRY_WAIT":
            since = max(item.get("not_before") or 0, facts.recovered)
            if _overdue(facts, since):
                waits = f"waits for a retry since {item.get('not_before')}"
                yield Violation("I2", "stuck_retry", facts.end_at, run.key, waits)
        elif item["status"] == "RUNNING" and (text := _stuck(facts, run, item)) is not None:
            yield Violation("I2", "stuck_running", facts.end_at, run.key, text)


def _stuck(facts: Facts, run: RunFacts, item: Item) -> str | None:
    lease_end = item.get("lease_expires_at") or 0
    if _overdue(facts, max(lease_end + CLOCK_MARGIN_MS, facts.recovered)):
        return f"RUNNING under a lease that ended at {lease_end}, {facts.end_at - lease_end} ms before the end"
    claims = [commit for commit in run.commits if enters_running(commit)]
    timeout_ms = ((run.job.ended_as or {}).get("target") or {}).get("timeout_ms")
    if not claims or timeout_ms is None or claims[-1].t <= facts.heal:
        return None
    if _overdue(facts, max(claims[-1].t + timeout_ms, facts.recovered)):
        return f"RUNNING since {claims[-1].t}, longer than its timeout of {timeout_ms} ms"
    return None


def jobs_move(facts: Facts) -> Iterator[Violation]:
    """I2: no job is overdue, waits for a run that has ended, or stays although nothing is left to do."""
    if facts.recovered > facts.end_at:
        return
    for job in facts.made:
        item = job.last
        if item is None or item["status"] != "SCHEDULED":
            continue
        following, held = item.get("next_run_at"), item.get("held")
        if following is not None and _overdue(facts, max(job.due_of(item, following), facts.recovered)):
            text = f"its next run is due since {job.due_of(item, following)}"
            yield Violation("I2", "overdue_job", facts.end_at, job.job_id, text)
        if held is None and following is not None:
            continue
        free_at = _free_at(job)
        if free_at is None:
            continue
        since = max(free_at, job.due_of(item, held) if held is not None else 0, facts.recovered) + LOOK_AGAIN_MS
        if _overdue(facts, since):
            check = "held_for_ever" if held is not None else "unfinished_job"
            text = f"its last run ended at {free_at}, and it waits still"
            yield Violation("I2", check, facts.end_at, job.job_id, text)


def _free_at(job: JobFacts) -> Instant | None:
    """When the last of its runs ended; None while one is open."""
    ends = [run.final_at for run in job.runs.values() if run.commits]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return None
    return max(known, default=job.commits[-1].t)


def timers_fire(facts: Facts) -> Iterator[Violation]:
    """I13: nobody waits for a timer that has passed."""
    subjects: list[tuple[str, Item | None]] = [(job.job_id, job.last) for job in facts.made]
    subjects += [(run.key, run.last) for run in facts.runs if run.last and run.last.get("timer_at") is not None]
    for key, item in subjects:
        at = item.get("timer_at") if item is not None else None
        if at is not None and max(at, facts.heal) + facts.recover_ms + facts.skew_ms < facts.end_at:
            text = f"its timer of {at} has passed {facts.end_at - at} ms before the end"
            yield Violation("I13", "stuck_timer", facts.end_at, key, text)


def nothing_raised(facts: Facts) -> Iterator[Violation]:
    """BUG: no part of the product raised what nobody expected."""
    for t, node, error in facts.bugs:
        yield Violation("BUG", "raised", t, node, error)


def _overdue(facts: Facts, since: Instant) -> bool:
    return since + facts.calm_ms + facts.skew_ms < facts.end_at
