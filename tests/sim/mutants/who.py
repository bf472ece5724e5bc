"""Mutants of `who`: claims, leases, epochs and what is written under them."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.mutant import Edit, Mutant

CALLING: Final = "schedkit.roles.calling"
CLAIM: Final = "schedkit.engine.who.claim"
EXECUTOR: Final = "schedkit.roles.executor"
SETTLING: Final = "schedkit.roles.settling"
FLEET: Final = "schedkit.sim.fleet"
REAP: Final = "schedkit.engine.failure.reap"
RUNS: Final = "schedkit.model.runs"

LIVE_LEASE_ASSERTED: Final = Edit(CLAIM, "assert now > run.lease_expires_at + RECLAIM_MARGIN_MS,", "assert True,")

SETTLED_WHEN: Final = '(*held(run), Equals("cancel_requested", run.cancel_requested))'

WHO: Final = (
    Mutant(
        "claim_live",
        "a lease is taken over while it lives",
        ("I9", "I11"),
        (Edit(REAP, "if now < first_chance:", "if False:"), LIVE_LEASE_ASSERTED),
    ),
    Mutant(
        "nomargin",
        "a lease is taken over the moment it ends, by whatever clock",
        ("I9",),
        (Edit(RUNS, "RECLAIM_MARGIN_MS: Final = 5 * SECOND_MS", "RECLAIM_MARGIN_MS: Final = 0 * SECOND_MS"),),
    ),
    Mutant(
        "epoch_same",
        "a new holder keeps the epoch of the one before",
        ("I9",),
        (Edit(CLAIM, "holder.epoch_floor) + 1", "holder.epoch_floor, 1)"),),
    ),
    Mutant(
        "epoch_skips",
        "a new holder raises the epoch by two",
        ("I9",),
        (Edit(CLAIM, "holder.epoch_floor) + 1", "holder.epoch_floor) + 2"),),
    ),
    Mutant(
        "claim_over",
        "the first claim does not ask whether the run is there already",
        ("I8", "I9"),
        (Edit(CLAIM, '"claim", (Absent(),), changes)', '"claim", (), changes)'),),
    ),
    Mutant(
        "retry_claimed_by_all",
        "a retry is claimed on no condition; each of its three would be enough",
        ("I8", "I9"),
        (
            Edit(CLAIM, 'Equals("status", RunStatus.RETRY_WAIT),', 'Equals("job_id", run.job_id),'),
            Edit(CLAIM, 'Equals("epoch", run.epoch),', 'Equals("job_id", run.job_id),'),
            Edit(CLAIM, 'Equals("not_before", run.not_before),', 'Equals("job_id", run.job_id),'),
        ),
    ),
    Mutant(
        "reclaimed_by_all",
        "a lost lease is taken over on no condition",
        ("I8", "I9"),
        (Edit(CLAIM, '"reclaim", held_as_read(run),', '"reclaim", (Equals("job_id", run.job_id),),'),),
    ),
    Mutant(
        "unfenced_settle",
        "an attempt is settled without asking for the epoch",
        ("I10",),
        (
            Edit(
                CLAIM,
                SETTLED_WHEN,
                '(held(run)[0], Equals("cancel_requested", run.cancel_requested))',
            ),
        ),
    ),
    Mutant(
        "unfenced_extend",
        "a lease is extended without asking for the epoch",
        ("I10", "I12"),
        (Edit(CLAIM, '"extend", held_as_read(run), changes)', '"extend", held(run)[:1], changes)'),),
    ),
    Mutant(
        "settled_twice",
        "an attempt is settled whatever state its run is in",
        ("I8",),
        (
            Edit(
                CLAIM,
                SETTLED_WHEN,
                '(held(run)[1], Equals("cancel_requested", run.cancel_requested))',
            ),
        ),
    ),
    Mutant(
        "cancel_request_unseen",
        "an attempt is settled without asking whether a cancel was requested meanwhile",
        ("I8", "I4"),
        (Edit(CLAIM, SETTLED_WHEN, "held(run)"),),
    ),
    Mutant(
        "no_claim_token",
        "a claim whose reply was lost is taken for another's",
        ("I11", "I13"),
        (
            Edit(
                CLAIM,
                "item = outcome.item if isinstance(outcome, Applied) else outcome.current",
                "item = outcome.item if isinstance(outcome, Applied) else None",
            ),
        ),
    ),
    Mutant(
        "token_stays",
        "the fencing token that a target gets is not the epoch",
        ("I9", "I12"),
        (Edit(CALLING, '"X-Fencing-Token": str(run.epoch),', '"X-Fencing-Token": "1",'),),
    ),
    Mutant(
        "key_by_attempt",
        "a retry is called under another key",
        ("I12",),
        (
            Edit(
                CALLING,
                "key = run_id(run.job_id, run.scheduled_for)",
                "key = run_id(run.job_id, run.scheduled_for + run.attempt - 1)",
            ),
        ),
    ),
    Mutant(
        "key_by_hour",
        "all occurrences of an hour are called under one key",
        ("I12",),
        (
            Edit(
                CALLING,
                "key = run_id(run.job_id, run.scheduled_for)",
                "key = run_id(run.job_id, run.scheduled_for // 3_600_000 * 3_600_000)",
            ),
        ),
    ),
    Mutant(
        "no_lease_timer",
        "the first claim sets no timer for the end of its lease",
        ("I2",),
        (
            Edit(
                CLAIM,
                "run_attributes(running) | listing(running) | lease_timer(running, shards)",
                "run_attributes(running) | listing(running)",
            ),
        ),
    ),
    Mutant(
        "no_retry_timer",
        "a run that waits for a retry has no timer",
        ("I2",),
        (
            Edit(
                CLAIM,
                "return again, waiting_timer(again, shards, at)",
                "return again, dict(NO_TIMER)",
            ),
        ),
    ),
    Mutant(
        "short_lease",
        "a lease does not outlive the call",
        ("I16", "I11"),
        (Edit(CLAIM, "return now + timeout_ms + LEASE_MARGIN_MS", "return now + RECLAIM_MARGIN_MS"),),
    ),
    Mutant(
        "others_released",
        "a process that starts ends the leases of those that live",
        ("I9", "I11"),
        (Edit(FLEET, "if self._profile is Profile.EMBEDDED:", "if True:"),),
    ),
    Mutant(
        "abandoned_and_called",
        "a run is called although its job was taken away between plan and claim",
        ("I4",),
        (
            Edit(
                EXECUTOR,
                "await (self._call(run, advanced) if advanced is not None else self._abandoned(run))",
                "await self._call(run, advanced or job)",
            ),
        ),
    ),
    Mutant(
        "not_read_again",
        "a run that is claimed once more is called although its job or itself was cancelled",
        ("I4",),
        (
            Edit(
                EXECUTOR,
                "or run.cancel_requested or cancelling.unwanted(run, job, retried=retried) is not None",
                "",
            ),
        ),
    ),
    Mutant(
        "never_advanced",
        "a job whose run was claimed by one that crashed before the advance is advanced by nobody else either",
        ("I2", "I30"),
        (
            Edit(
                EXECUTOR,
                "if not (retried or run.triggered) and run.scheduled_for in (job.held, job.next_run_at):",
                "if False:",
            ),
            Edit(
                EXECUTOR,
                "return isinstance(await self._settling.commit(self._after(job, start, outcome, now)), Applied)",
                "return True",
            ),
        ),
    ),
    Mutant(
        "claimed_and_skipped",
        "an occurrence that was claimed and not advanced over is passed by as if it had not run",
        ("W13", "I30"),
        (
            Edit(
                EXECUTOR,
                "if there is not None and there.scheduled_for == skip.occurrences[0] and _stands_for(there):",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "advance_given_up",
        "a job is not advanced where the first try got no reply",
        ("I11", "I13"),
        (
            Edit(
                EXECUTOR,
                "            outcome = await self._settling.commit_while_held(run, write)",
                "            outcome = await self._world.commit(write)",
            ),
        ),
    ),
    Mutant(
        "settling_given_up",
        "an attempt is not settled where the first try got no reply",
        ("I11",),
        (
            Edit(
                SETTLING,
                "outcome = await self.commit_while_held(run, write, *ending)",
                "outcome = await self._world.commit(write, *ending)",
            ),
        ),
    ),
)
