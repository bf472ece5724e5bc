"""Skips: what an operator skipped ahead of its time does not run, and nothing is skipped that nobody asked for (W14).

run_though_skipped         it was claimed, and no backfill had it run after all
skipped_unasked            by hand, and nobody had asked for it
acknowledged_not_skipped   whoever asked was told so, and there is no record of it
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from schedkit.model.time import parse_rfc3339
from schedkit.sim.checker.facts import Commit, Facts, RunFacts
from schedkit.sim.checker.verdict import Violation

BY_HAND: Final = "SKIPPED_BY_HAND"
SKIP_NEXT: Final = "skip_next"


def stay_skipped(facts: Facts) -> Iterator[Violation]:
    """W14: nobody claims an occurrence from its skip on, but for a backfill."""
    for run in facts.runs:
        if (skip := _skip(run)) is None:
            continue
        for claim in run.claims.values():
            if claim.order > skip.order and not run.backfilled_by(claim.order):
                text = f"{claim.arrow} by {claim.node}; it was skipped by hand at {skip.t}"
                yield Violation("W14", "run_though_skipped", claim.t, run.key, text)


def asked_for(facts: Facts) -> Iterator[Violation]:
    """W14: each skip by hand was asked for before it landed, and each that was acknowledged has its record by then."""
    asked_at: defaultdict[str, list[int]] = defaultdict(list)
    for asked in facts.api:
        if asked.op != SKIP_NEXT or asked.job is None:
            continue
        asked_at[asked.job].append(asked.order)
        job = facts.jobs.get(asked.job)
        for told in asked.doc.get("skipped", ()) if asked.heard == "ok" and job is not None else ():
            run = job.runs.get(parse_rfc3339(told)) if job is not None else None
            skip = _skip(run) if run is not None else None
            if skip is None or skip.order > asked.heard_order:
                text = "its skip was acknowledged, and it had no record that says so"
                yield Violation("W14", "acknowledged_not_skipped", asked.heard_at, f"{asked.job}:{told}", text)
    for run in facts.runs:
        skip = _skip(run)
        if skip is not None and not any(order < skip.order for order in asked_at[run.job.job_id]):
            yield Violation("W14", "skipped_unasked", skip.t, run.key, "skipped by hand, and nobody had asked for it")


def _skip(run: RunFacts) -> Commit | None:
    """The write that skipped it by hand; it is the first one of its run."""
    first = run.first
    return run.commits[0] if first is not None and first.get("reason") == BY_HAND else None
