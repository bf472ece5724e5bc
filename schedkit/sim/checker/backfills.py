"""Backfills: what did not run of the past runs, each time once, where, when and as fast as it was asked for (W14).

backfilled_again                             it ran, runs, failed, or was called before
backfilled_unasked, backfilled_of_air        whose backfill was not under way, or is of others; what was never due
overlapping_backfills                        where runs of the job may not overlap (W13)
backfilled_over_pace, backfills_started_over_pace
backfill_miscounted, backfill_incomplete     what it says of itself; what it left although it could run
backfill_lost, backfill_stuck                acknowledged and not there; nobody carries it out
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from schedkit.model.time import SECOND_MS, Instant, rfc3339
from schedkit.sim.checker.facts import Commit, Facts, Item, JobFacts, RunFacts, final, occurrences_of
from schedkit.sim.checker.limits import RACE, bursts
from schedkit.sim.checker.redrives import DRIVEN, item_with, moments, redrive_id_of, unattended
from schedkit.sim.checker.verdict import Violation

HAD_ITS_RUN: Final = frozenset({"RAN_ALREADY", "CANCELLED_ALREADY", "FAILED_ALREADY", "UNDER_WAY"})
MAY_BEGIN: Final = frozenset({None, "SKIPPED", "CANCELLED"})


def once(facts: Facts) -> Iterator[Violation]:
    """An occurrence is begun only where it has not run and does not run: its target had not heard of it."""
    for run in facts.runs:
        for began in run.backfills:
            status = began.before["status"] if began.before is not None else None
            called = [call for call in run.calls if call.order < began.order]
            if status not in MAY_BEGIN or called:
                text = f"backfilled although it was {status}" + (f" and called at {called[0].t}" if called else "")
                yield _found("backfilled_again", run, began, text)


def as_asked(facts: Facts) -> Iterator[Violation]:
    """Each was due by a schedule of its job, in the range of a backfill that was under way; who was told, told true."""
    for run in facts.runs:
        for began in run.backfills:
            item: Any = item_with(facts.backfills.get(redrive_id_of(began), []), began)
            if item is None or item["state"] not in DRIVEN:
                yield _found("backfilled_unasked", run, began, f"its backfill was {item and item['state']}")
                continue
            past, at = item["filter"], run.scheduled_for
            if past["job_id"] != run.job.job_id or not past["since"] <= at < past["until"]:
                yield _found("backfilled_unasked", run, began, f"its backfill is of {past}")
            had = [occurrences_of(schedule, at - 1, at) for since, schedule, _ in run.job.schedules if since <= began.t]
            if began.before is None and all(found == [] for found in had):
                yield _found("backfilled_of_air", run, began, "no schedule of its job was due then")
    for asked in facts.api:
        if asked.op == "backfill" and asked.heard == "ok" and asked.doc.get("backfill_id") not in facts.backfills:
            text = f"{asked.doc.get('backfill_id')} was acknowledged, and is not there"
            yield Violation("W14", "backfill_lost", asked.heard_at, asked.job or "", text)


def one_by_one(facts: Facts) -> Iterator[Violation]:
    """W13: … none is begun while the run that its job knows as its last one is open, be it another backfill's."""
    for run in facts.runs:
        for began in run.backfills:
            item: Any = item_with(facts.backfills.get(redrive_id_of(began), []), began)
            if item is None or not item["filter"].get("one_by_one"):
                continue
            for name in ("last_run", "last_triggered"):
                other = run.job.runs.get((began.job or {}).get(name, -1))
                beside = other is not None and other is not run and not other.redrives
                if beside and other is not None and other.commits and not final(other.at(began.order)):
                    text = f"begun while {other.key} was open, which the policy of the job forbids"
                    yield Violation("W13", "overlapping_backfills", began.t, run.key, text)


def paced(facts: Facts) -> Iterator[Violation]:
    """In no second more are begun than the cap, nor are more started, but for one."""
    begun, started = moments(facts, lambda run: run.backfills)
    for backfill_id, commits in facts.backfills.items():
        cap = int((commits[0].after or {})["max_per_second"])
        for t, key, count in bursts(begun[backfill_id], SECOND_MS, cap):
            text = f"{count} runs begun within a second by {backfill_id}, {cap} are allowed"
            yield Violation("W14", "backfilled_over_pace", t, key, text)
        for t, key, count in bursts(started[backfill_id], SECOND_MS, cap + RACE):
            text = f"{count} runs started within a second for {backfill_id}, {cap} are allowed"
            yield Violation("W14", "backfills_started_over_pace", t, key, text)


def counted(facts: Facts) -> Iterator[Violation]:
    """Its figures are true: as many as were begun, each open or ended; at its end they and what it left are all."""
    begun, _ = moments(facts, lambda run: run.backfills)
    for backfill_id, commits in facts.backfills.items():
        item: Any = commits[-1].after
        if item is None:
            continue
        told, open_ = item.get("redriven") or 0, len(item.get("open") or ())
        ended = sum(item.get(name) or 0 for name in ("succeeded", "failed", "cancelled"))
        if told != len(begun[backfill_id]) or told != ended + open_:
            text = (
                f"it tells of {told} runs, {ended} of them ended and {open_} open; {len(begun[backfill_id])} were begun"
            )
            yield Violation("W14", "backfill_miscounted", commits[-1].t, backfill_id, text)
        left, there = sum((item.get("skipped") or {}).values()), item["filter"].get("occurrences")
        if item["state"] == "DONE" and (open_ or told + left != there):
            text = f"it is DONE: {told} begun, {left} left, {open_} open, of {there} occurrences"
            yield Violation("W14", "backfill_miscounted", commits[-1].t, backfill_id, text)


def whole(facts: Facts) -> Iterator[Violation]:
    """Where it is DONE, and left only what has its run already, every occurrence of its range has a run."""
    for backfill_id, commits in facts.backfills.items():
        item: Any = commits[-1].after
        if item is None or item["state"] != "DONE" or not set(item.get("skipped") or ()) <= HAD_ITS_RUN:
            continue
        job = facts.jobs[item["filter"]["job_id"]]
        for at in _due(job, item["filter"], commits[0].order):
            run = job.runs.get(at)
            if run is None or not run.commits:
                key, text = f"{job.job_id}:{rfc3339(at)}", f"{backfill_id} is DONE, and this has no run"
                yield Violation("W14", "backfill_incomplete", commits[-1].t, key, text)


def _due(job: JobFacts, past: Item, order: int) -> Iterator[Instant]:
    """What was due by the schedule as it stood when this was asked for, where no other one had been in force."""
    item = job.at(order)
    if item is None:
        return
    made, known, held = item["created_at"], item.get("known_since") or item["created_at"], item.get("held")
    for at in occurrences_of(item["schedule"], past["since"] - 1, past["until"] - 1) or ():
        if not made < at <= known and at != held:
            yield at


def carried_out(facts: Facts) -> Iterator[Violation]:
    """One that is under way is written to again and again by the one who carries it out."""
    for backfill_id, text in unattended(facts, facts.backfills):
        yield Violation("W14", "backfill_stuck", facts.end_at, backfill_id, text)


def _found(check: str, run: RunFacts, commit: Commit, text: str) -> Violation:
    return Violation("W14", check, commit.t, run.key, text)
