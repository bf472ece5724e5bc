"""Mutants of redriving: its pace, its conditions, its holder, its canary."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.mutant import Edit, Mutant

CLAIM: Final = "schedkit.engine.who.claim"
PACE: Final = "schedkit.engine.failure.redrive_pace"
REDRIVE: Final = "schedkit.engine.failure.redrive"
REDRIVER: Final = "schedkit.roles.redriver"
CANDIDATES: Final = "schedkit.roles.candidates"

ANYBODY: Final = Edit(
    REDRIVE,
    "free = lease_end is None or redrive.owner == node or now > lease_end + RECLAIM_MARGIN_MS",
    "free = True",
)
UNFENCED: Final = Edit(REDRIVE, 'conditions = (Equals("version", before.version),)', "conditions = ()")
FOR_EVER: Final = Edit(
    REDRIVER,
    "return self._redrive.epoch == self._epoch and self._redrive.state.driven",
    "return self._redrive.state.driven",
)

REDRIVES: Final = (
    Mutant(
        "cap_per_process",
        "every process redrives by itself, each at the cap of the whole",
        ("I19",),
        (ANYBODY, UNFENCED, FOR_EVER),
    ),
    Mutant(
        "redrive_not_fenced",
        "a holder that was replaced goes on writing",
        ("I19",),
        (UNFENCED,),
    ),
    Mutant(
        "redriven_without_gap",
        "dead letters start again as fast as they can",
        ("I19",),
        (Edit(REDRIVER, "await world.clock.sleep(self._pace.gap_ms)", "await world.clock.sleep(0)"),),
    ),
    Mutant(
        "redriven_a_little_fast",
        "the gap is a tenth too short",
        ("I19",),
        (Edit(PACE, "-(-SECOND_MS // batches) + EARLY_MS", "9 * SECOND_MS // (10 * batches)"),),
    ),
    Mutant(
        "stalled_executors_ignored",
        "what piles up before executors that stand still starts at once when they go on",
        ("I19",),
        (
            Edit(
                REDRIVER,
                "self._unstarted = [run_id for run_id, run in found if not redriving.started(run, ours)]",
                "self._unstarted.clear()",
            ),
        ),
    ),
    Mutant(
        "item_redriven_twice",
        "what dies again is redriven again by the same request",
        ("I19",),
        (
            Edit(
                CANDIDATES,
                "known = [run for run in runs if (run.finished_at or 0) <= redrive.created_at]",
                "known = runs",
            ),
            Edit(CANDIDATES, " and run.redrive_id != redrive.redrive_id]", "]"),
        ),
    ),
    Mutant(
        "redriven_unconditionally",
        "a run is redriven however it stands by then",
        ("I8", "I19"),
        (Edit(REDRIVE, 'return Equals("status", run.status.value), Equals("epoch", run.epoch), died', "return ()"),),
    ),
    Mutant(
        "epoch_not_raised",
        "a new series begins under the old epochs",
        ("I9", "I10", "I19"),
        (Edit(REDRIVE, "        attempt=0,", "        attempt=0, epoch=0,"),),
    ),
    Mutant(
        "attempts_go_on",
        "a redriven run has no attempts left",
        ("I19",),
        (Edit(REDRIVE, "        attempt=0,", "        attempt=run.attempt,"),),
    ),
    Mutant(
        "redriven_expires",
        "what was redriven is forgotten when it would have been as a dead letter",
        ("I19",),
        (
            Edit(
                REDRIVE,
                '**NOT_DEAD, "expires_at": None, **waiting_timer(after, shards, now)',
                "**NOT_DEAD, **waiting_timer(after, shards, now)",
            ),
        ),
    ),
    Mutant(
        "redriven_and_dead",
        "what was redriven stays among the dead letters",
        ("I7",),
        (
            Edit(
                REDRIVE,
                '**NOT_DEAD, "expires_at": None, **waiting_timer(after, shards, now)',
                '"expires_at": None, **waiting_timer(after, shards, now)',
            ),
        ),
    ),
    Mutant(
        "redriven_without_timer",
        "what was redriven waits for nothing",
        ("I2", "W8"),
        (
            Edit(
                REDRIVE,
                '**NOT_DEAD, "expires_at": None, **waiting_timer(after, shards, now)',
                '**NOT_DEAD, "expires_at": None',
            ),
        ),
    ),
    Mutant(
        "canary_ignored",
        "all follow before the first few have ended",
        ("I19",),
        (Edit(REDRIVE, "bounds.append(redrive.canary - redrive.redriven)", "pass"),),
    ),
    Mutant(
        "unknown_redriven",
        "what may have been done is called again although nobody asked for that",
        ("I19",),
        (Edit(REDRIVE, "if run.status is RunStatus.UNKNOWN and not include_unknown:", "if False:"),),
    ),
    Mutant(
        "done_too_soon",
        "a redrive is done while runs of it are open",
        ("I19",),
        (Edit(REDRIVE, "elif redrive.walked and not redrive.open:", "elif redrive.walked:"),),
    ),
    Mutant(
        "redrive_abandoned",
        "a redrive whose holder was lost is nobody's",
        ("I19",),
        (
            Edit(
                REDRIVE,
                "free = lease_end is None or redrive.owner == node or now > lease_end + RECLAIM_MARGIN_MS",
                "free = lease_end is None",
            ),
        ),
    ),
)
