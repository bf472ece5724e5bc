"""Figures: how much happened in a history, whatever the checks say about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from schedkit.model.time import SECOND_MS
from schedkit.sim.checker.calls import UNEXPLAINED, duplicates
from schedkit.sim.checker.facts import Facts, occurrences_of
from schedkit.sim.checker.when import first_calls


def figures(facts: Facts) -> dict[str, Any]:
    """Counts and lags of the whole history."""
    why = Counter(reason for _, _, reason in duplicates(facts))
    unexplained = why.pop(UNEXPLAINED, 0)
    statuses = Counter(run.ended_as["status"] for run in facts.runs if run.ended_as is not None)
    lags = [(due_at, call.t - due_at) for _, call, due_at in first_calls(facts)]
    return {
        "seed": facts.header.get("seed"),
        "profile": facts.header.get("profile"),
        "sim_seconds": (facts.end_at - facts.begin_at) / SECOND_MS,
        "events": facts.events,
        "jobs": len(facts.made),
        "unjudged_jobs": sum(
            any(occurrences_of(schedule, facts.end_at - 1, facts.end_at) is None for _, schedule, _ in job.schedules)
            for job in facts.made
        ),
        "runs": dict(sorted(statuses.items())),
        "calls": len(facts.calls),
        "effects": sum(call.effect_at is not None for call in facts.calls),
        "duplicates": {"explained": dict(sorted(why.items())), "unexplained": unexplained},
        "refused_stale": sum(
            refusal.tag is not None and refusal.epoch is not None and refusal.epoch > refusal.tag
            for refusal in facts.refusals
        ),
        "refused": len(facts.refusals),
        "redrives": len(facts.redrives),
        "redriven": sum(len(run.redrives) for run in facts.runs),
        "skipped_by_hand": sum((run.first or {}).get("reason") == "SKIPPED_BY_HAND" for run in facts.runs),
        "backfills": len(facts.backfills),
        "backfilled": sum(len(run.backfills) for run in facts.runs),
        "kills": facts.faults.get("kill", 0),
        "stops": facts.faults.get("stop", 0),
        "crashes": facts.faults.get("crash", 0),
        "faults": dict(sorted(facts.faults.items())),
        "crash_points": dict(sorted(facts.crash_points.items())),
        "api": dict(sorted(Counter(f"{asked.op} {asked.heard or 'unheard'}" for asked in facts.api).items())),
        "lag": {
            "all": percentiles([lag for _, lag in lags]),
            "before_heal": percentiles([lag for due_at, lag in lags if due_at < facts.heal]),
            "after_recovery": percentiles([lag for due_at, lag in lags if due_at > facts.recovered]),
        },
        "lags_ms": [lag for _, lag in lags],
    }


def percentiles(values: Sequence[int]) -> dict[str, int] | None:
    """The middle, the 99th percentile and the largest, in ms; None where there is nothing to measure."""
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    return {"p50": ordered[last // 2], "p99": ordered[-(-last * 99 // 100)], "max": ordered[-1]}
