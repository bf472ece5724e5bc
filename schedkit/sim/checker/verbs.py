"""Verbs: what the API said is true.

I3   key_made_two_jobs, key_for_two_bodies
I4   called_after_cancel, called_after_pause, retried_after_pause, called_after_edit, called_after_cancel_run,
     cancel_not_done
I29  acked_job_gone
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import orjson

from schedkit.model.time import DAY_MS, Instant
from schedkit.sim.checker.facts import Asked, Commit, Facts, JobFacts, RunFacts, occurrences_of
from schedkit.sim.checker.verdict import Violation
from schedkit.sim.checker.who import ended_job

KEY_LIFE_MS: Final = DAY_MS  # an Idempotency-Key is honoured this long

Signature = bytes


def one_key_one_job(facts: Facts) -> Iterator[Violation]:
    """I3: one Idempotency-Key is one job, whatever replies were lost."""
    jobs: defaultdict[str, dict[str, Instant]] = defaultdict(dict)
    bodies: defaultdict[str, list[tuple[Instant, Signature | None]]] = defaultdict(list)
    for asked in facts.api:
        if asked.op != "create" or asked.idempotency_key is None or asked.heard != "ok":
            continue
        jobs[asked.idempotency_key].setdefault(asked.job_id or "", asked.heard_at)
        bodies[asked.idempotency_key].append((asked.heard_at, _signature(asked.body)))
    for (_, key), commits in facts.keys.items():
        for commit in commits:
            if commit.after is not None and commit.after.get("job_id") is not None:
                jobs[key].setdefault(commit.after["job_id"], commit.t)
    for key, job_id, t in _twins(facts):
        jobs[key].setdefault(job_id, t)
    for key, made in sorted(jobs.items()):
        times = sorted((t, job_id) for job_id, t in made.items())
        near = [(t, job_id) for t, job_id in times if t < times[0][0] + KEY_LIFE_MS - facts.skew_ms]
        if len(near) > 1:
            text = f"the key {key!r} made the jobs {', '.join(job_id for _, job_id in near)}"
            yield Violation("I3", "key_made_two_jobs", near[1][0], near[1][1], text)
    for key, heard in sorted(bodies.items()):
        for t, signature in heard[1:]:
            if signature != heard[0][1] and t < heard[0][0] + KEY_LIFE_MS - facts.skew_ms:
                text = f"the key {key!r} was accepted for another body"
                yield Violation("I3", "key_for_two_bodies", t, key, text)


def _signature(body: Any) -> Signature | None:
    """What tells the jobs of a workload apart: their name and labels; None where a body has neither."""
    name, labels = body.get("name"), body.get("labels") or None
    if name is None and labels is None:
        return None
    return orjson.dumps([name, labels], option=orjson.OPT_SORT_KEYS)


def _twins(facts: Facts) -> Iterator[tuple[str, str, Instant]]:
    """(key, job, when) of every job that looks like what one key alone had asked for."""
    asked_by: defaultdict[Signature, set[str | None]] = defaultdict(set)
    for asked in facts.api:
        if asked.op == "create" and (signature := _signature(asked.body)) is not None:
            asked_by[signature].add(asked.idempotency_key)
    for job in facts.made:
        item = job.commits[0].after
        signature = _signature(item) if item is not None else None
        keys = asked_by.get(signature, set()) if signature is not None else set()
        if len(keys) == 1 and (key := next(iter(keys))) is not None:
            yield key, job.job_id, job.commits[0].t


def acked_jobs_stay(facts: Facts) -> Iterator[Violation]:
    """I29: a job whose creation was acknowledged is in the store."""
    for asked in facts.api:
        if asked.op != "create" or asked.heard != "ok" or asked.job_id is None:
            continue
        job = facts.jobs.get(asked.job_id)
        if job is None or not job.commits or job.commits[0].order > asked.heard_order:
            text = "its creation was acknowledged before any write of it had landed"
            yield Violation("I29", "acked_job_gone", asked.heard_at, asked.job_id, text)


def heeded(facts: Facts) -> Iterator[Violation]:
    """I4: once a cancel, a pause or an edit has landed, nothing is called that was not claimed before."""
    for job in facts.made:
        for commit in job.commits:
            if commit.before is None or commit.after is None:
                continue
            status = commit.after["status"]
            if status != commit.before["status"] and status in ("CANCELLED", "PAUSED"):
                yield from _stopped(job, commit, status)
            if commit.after["schedule"] != commit.before["schedule"]:
                yield from _moved_away(job, commit)
    for asked in facts.api:
        job_asked = facts.jobs.get(asked.job_id or asked.job or "")
        if asked.heard != "ok" or job_asked is None or not job_asked.commits:
            continue
        if asked.op == "cancel_run":
            yield from _run_cancelled(job_asked, asked)
        if asked.op == "cancel" and not ended_job(job_asked.at(asked.heard_order)):
            text = "its cancel was acknowledged, and it has not ended"
            yield Violation("I4", "cancel_not_done", asked.heard_at, job_asked.job_id, text)


def _stopped(job: JobFacts, verb: Commit, status: str) -> Iterator[Violation]:
    until = _next_change(job, verb.order, status)
    for run, claim in _claims_between(job, verb.order, until):
        if status == "CANCELLED":
            check = "called_after_cancel"
        elif run.triggered or claim.arrow == "reclaim":
            continue  # a pause stops what is to come, not what was asked for by hand or has begun
        else:
            check = "called_after_pause" if claim.before is None else "retried_after_pause"
        yield from _called(run, claim, until, check, f"the {verb.arrow} that landed at {verb.t}")


def _moved_away(job: JobFacts, verb: Commit) -> Iterator[Violation]:
    assert verb.after is not None
    later = [schedule for since, schedule, _ in job.schedules if since > verb.t]
    for run, claim in _claims_between(job, verb.order, None):
        if claim.before is not None or run.triggered:
            continue
        at = run.scheduled_for
        if all(occurrences_of(schedule, at - 1, at) == [] for schedule in (verb.after["schedule"], *later)):
            yield from _called(run, claim, None, "called_after_edit", f"the {verb.arrow} that landed at {verb.t}")


def _run_cancelled(job: JobFacts, asked: Asked) -> Iterator[Violation]:
    run_id = asked.doc.get("run_id")
    for run, claim in _claims_between(job, asked.heard_order, None):
        wanted_again = any(asked.heard_order < began.order < claim.order for began in (*run.redrives, *run.backfills))
        if run.key == run_id and not wanted_again:
            text = f"the cancel of this run acknowledged at {asked.heard_at}"
            yield from _called(run, claim, None, "called_after_cancel_run", text)


def _next_change(job: JobFacts, order: int, status: str) -> int | None:
    """The order of the first write after this one that takes the job out of the status."""
    for commit in job.commits:
        if commit.order > order and (commit.after is None or commit.after["status"] != status):
            return commit.order
    return None


def _claims_between(job: JobFacts, order: int, until: int | None) -> Iterator[tuple[RunFacts, Commit]]:
    for run in job.runs.values():
        for claim in run.claims.values():
            if claim.order > order and (until is None or claim.order < until):
                yield run, claim


def _called(run: RunFacts, claim: Commit, until: int | None, check: str, what: str) -> Iterator[Violation]:
    for call in run.calls:
        its = call.order > claim.order and (claim.after or {}).get("epoch") == call.token
        if its and (until is None or call.order < until):
            text = f"claimed at {claim.t} and called by {call.node} after {what}"
            yield Violation("I4", check, call.t, run.key, text)
