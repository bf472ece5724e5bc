"""Mutants of skip-next and of backfills: what is left out, what runs after all, and what it heeds."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.mutant import Edit, Mutant

BACKFILL: Final = "schedkit.engine.failure.backfill"
CANDIDATES: Final = "schedkit.roles.candidates"
OPERATE: Final = "schedkit.engine.when.operate"

BACKFILLS: Final = (
    Mutant(
        "skip_forgets_one",
        "the first one of those that are skipped has no record",
        ("I2", "W16"),
        (Edit(OPERATE, '"skip next", shards, now), tuple(skipped)', '"skip next", shards, now), tuple(skipped[1:])'),),
    ),
    Mutant(
        "ran_and_backfilled",
        "a backfill runs again what ran",
        ("W14",),
        (Edit(BACKFILL, "if run.never_called:", "if run.status not in DEAD_STATUSES:"),),
    ),
    Mutant(
        "backfilled_unconditionally",
        "what had no record is backfilled whatever has come to be there meanwhile",
        ("W14",),
        (Edit(BACKFILL, "conditions: tuple[Condition, ...] = (Absent(),)", "conditions: tuple[Condition, ...] = ()"),),
    ),
    Mutant(
        "backfills_ignore_each_other",
        "two backfills of a job whose runs may not overlap run side by side",
        ("W13",),
        (Edit(BACKFILL, '        Equals("last_triggered", job.last_triggered),', ""),),
    ),
    Mutant(
        "backfill_leaves_one",
        "of each page of a backfill the first one is passed over",
        ("W14",),
        (Edit(CANDIDATES, "all_due[begin : begin + PAGE], begin", "all_due[begin + 1 : begin + PAGE], begin"),),
    ),
    Mutant(
        "backfilled_without_timer",
        "what is backfilled waits for nothing",
        ("I2", "W8"),
        (Edit(BACKFILL, '"expires_at": None, **waiting_timer(after, shards, now)', '"expires_at": None'),),
    ),
)
