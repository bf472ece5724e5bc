"""Jobs: their ends, versions and names, and what a pause leaves out.

I8     finished_over_open_run, version_not_raised
W14    missed_and_resumed
names  name_of_two
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from schedkit.model.time import Instant
from schedkit.sim.checker.facts import ENDED, OPEN, Commit, Facts, Item, JobFacts, RunFacts
from schedkit.sim.checker.verdict import Violation

VERBS: Final = frozenset({"pause", "resume", "edit", "skip next", "cancel"})
ANY: Final = "change"  # the arrow of a recording that does not know more
BY_THEMSELVES: Final = frozenset({"COMPLETED", "FAILED"})  # no operator ends a job like this


def finished_after_their_runs(facts: Facts) -> Iterator[Violation]:
    """I8: a job ends by itself only after the run that it started last; a redrive later starts only the run again."""
    for job in facts.made:
        for commit in job.commits:
            before, after = commit.before, commit.after
            if before is None or after is None or before["status"] in ENDED or after["status"] not in ENDED:
                continue
            if after["status"] not in BY_THEMSELVES and not commit.arrow.startswith("finish"):
                continue
            run = job.runs.get(before.get("last_run", -1))
            if (
                run is not None
                and not (run.redrives or run.backfills)
                and (status := _status_with(run, commit)) in OPEN
            ):
                text = f"{commit.arrow}: it is {after['status']}, and its last run {run.key} is {status}"
                yield Violation("I8", "finished_over_open_run", commit.t, job.job_id, text)


def _status_with(run: RunFacts, finish: Commit) -> str | None:
    """The run's status once the decision of this write has landed: both may be one."""
    status: str | None = None
    for commit in run.commits:
        same = finish.batch is not None and commit.batch == finish.batch
        if commit.order < finish.order or same:
            status = commit.after["status"] if commit.after is not None else None
    return status


def versions_count_verbs(facts: Facts) -> Iterator[Violation]:
    """I8: each verb of an operator raises the job's version by one, and nothing else changes it."""
    for job in facts.made:
        for commit in job.commits:
            before, after = commit.before, commit.after
            if before is None or after is None or before.get("version") is None:
                continue
            rise = (after.get("version") or 0) - before["version"]
            allowed = {1} if commit.arrow in VERBS else {0, 1} if commit.arrow == ANY else {0}
            if rise not in allowed:
                text = f"{commit.arrow} takes version {before['version']} to {after.get('version')}"
                yield Violation("I8", "version_not_raised", commit.t, job.job_id, text)


def one_name_one_job(facts: Facts) -> Iterator[Violation]:
    """names: no two jobs of a tenant that have not ended share a name at any time."""
    living: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    commits = [(commit.order, commit, job.job_id) for job in facts.made for commit in job.commits]
    for _, commit, job_id in sorted(commits, key=lambda found: found[0]):
        was, becomes = _name(commit.before), _name(commit.after)
        if was == becomes:
            continue
        if was is not None:
            living[was].discard(job_id)
        if becomes is None:
            continue
        others = sorted(living[becomes])
        living[becomes].add(job_id)
        if others:
            text = f"{commit.arrow} names it {becomes[1]!r}, as {', '.join(others)} is named, which has not ended"
            yield Violation("names", "name_of_two", commit.t, job_id, text)


def _name(item: Item | None) -> tuple[str, str] | None:
    if item is None or item.get("name") is None or item["status"] in ENDED:
        return None
    return item.get("tenant_id") or "default", item["name"]


def missed_stays_missed(facts: Facts) -> Iterator[Violation]:
    """W14: what was due during a pause does not run afterwards, unless the resume said so.

    A claimer that was stopped since before the pause may claim it; then it reads its job again, and gives it up.
    """
    for job in facts.made:
        for since, through, resumed in _pauses(job):
            for run in job.runs.values():
                if not run.claimed or run.triggered or run.scheduled_for in job.held or run.first is None:
                    continue
                if not run.calls and (run.last or {}).get("status") == "CANCELLED":
                    continue
                claim = run.commits[0]
                due_at = run.first.get("due_at") or run.scheduled_for
                if claim.order < resumed.order or not since + facts.skew_ms < due_at <= through:
                    continue
                if not _moved_between(job, resumed.order, claim.order):
                    text = f"claimed at {claim.t}, due at {due_at}: the job was paused from {since} to {through}, and "
                    text += "who resumed it did not ask for what was missed"
                    yield Violation("W14", "missed_and_resumed", claim.t, run.key, text)


def _pauses(job: JobFacts) -> Iterator[tuple[Instant, Instant, Commit]]:
    """(since, the last instant that it covers, the resume) of each pause that ended without a wish for the missed."""
    since: Instant | None = None
    for commit in job.commits:
        before, after = commit.before, commit.after
        if after is None:
            return
        if after["status"] == "PAUSED":
            since = commit.t if since is None else since
        elif since is not None:
            if before is not None and after["status"] == "SCHEDULED" and after.get("catch_up") is None:
                until, now = before.get("paused_until"), after.get("updated_at") or commit.own or commit.t
                yield since, now if until is None else min(now, until - 1), commit
            since = None


def _moved_between(job: JobFacts, since: int, until: int) -> bool:
    """Somebody gave the job other times, or more of them, between these orders."""
    for commit in job.commits:
        before, after = commit.before, commit.after
        if not since < commit.order < until or before is None or after is None:
            continue
        if any(before.get(name) != after.get(name) for name in ("schedule", "max_runs")):
            return True
    return False
