"""Mutants of what is done for workers: handing out, keeping, taking back, reporting."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.mutant import Edit, Mutant

HANDING: Final = "schedkit.engine.who.handing"
CLAIM: Final = "schedkit.engine.who.claim"
REAP: Final = "schedkit.engine.failure.reap"
EXECUTOR: Final = "schedkit.roles.executor"
WORKERS: Final = "schedkit.roles.workers"
REAPER: Final = "schedkit.roles.reaper"
COURIER: Final = "schedkit.worker.courier"
RUNS: Final = "schedkit.model.runs"

WORK: Final = (
    Mutant(
        "worker_unfenced",
        "the door does not ask whose epoch a worker's word is for",
        ("I10", "C6"),
        (Edit(WORKERS, "if run.epoch != epoch or run.status is not", "if run.epoch < epoch or run.status is not"),),
    ),
    Mutant(
        "workers_not_reaped",
        "the runs of lost workers are given to nobody",
        ("I2",),
        (Edit(REAPER, "for timer in ended[:allowed]:", "for timer in ended[:0]:"),),
    ),
    Mutant(
        "reaped_alive",
        "a worker's run is taken while its lease lives",
        ("I9",),
        (
            Edit(REAPER, "over = [timer for timer in page if timer.at <= now]", "over = list(page)"),
            Edit(REAP, "if now < first_chance:", "if False:"),
            Edit(HANDING, "assert not lost or now > run.lease_expires_at + RECLAIM_MARGIN_MS,", "assert True,"),
        ),
    ),
    Mutant(
        "moved_and_not_ready",
        "a job goes on over an occurrence whose run did not come to be",
        ("I2",),
        (Edit(EXECUTOR, "match await self._settling.commit(move, made):", "match await self._settling.commit(move):"),),
    ),
    Mutant(
        "task_timer_late",
        "a task's timer stands ten minutes after its time",
        ("W8",),
        (Edit(RUNS, '"timer_at": at,', '"timer_at": at + 600_000,'),),
    ),
    Mutant(
        "attempt_for_a_loss",
        "a run that is given back counts as one that failed",
        ("I8",),
        (Edit(HANDING, "not_before=now,", "not_before=now, attempt=run.attempt + 1,"),),
    ),
    Mutant(
        "handed_out_unasked",
        "a task is handed out although its job was cancelled or paused",
        ("I4",),
        (
            Edit(WORKERS, "reason = cancelling.unwanted(run, job, retried=True)", "reason = None"),
            Edit(
                WORKERS,
                "or claimed.cancel_requested or cancelling.unwanted(claimed, fresh, retried=True) is not None:",
                ":",
            ),
        ),
    ),
    Mutant(
        "failure_as_success",
        "a worker reports what failed as done",
        ("C6",),
        (Edit(COURIER, 'return name | {"outcome": "FAILED"} | said', 'return name | {"outcome": "SUCCEEDED"}'),),
    ),
    Mutant(
        "heartbeat_keeps_nothing",
        "a heartbeat does not move the end of the lease",
        ("I11",),
        (
            Edit(
                HANDING,
                "lease_end = max(held_until(run, job, now), run.lease_expires_at or 0)",
                "lease_end = run.lease_expires_at or 0",
            ),
        ),
    ),
    Mutant(
        "no_heartbeats",
        "a worker sends no heartbeats",
        ("I11",),
        (Edit(COURIER, "            await self._flush(due)", "            del due"),),
    ),
    Mutant(
        "worker_lease_short",
        "a worker's lease ends as it begins",
        ("I11",),
        (Edit(CLAIM, "return now + lease_ms", "return now + 1"),),
    ),
    Mutant(
        "expired_and_handed_out",
        "a task is handed out after it has expired",
        ("W15",),
        (Edit(WORKERS, "expired(job, run.scheduled_for, now)", "False"),),
    ),
    Mutant(
        "reaped_over_a_heartbeat",
        "a worker's run is taken although it was heard of since its lease was looked at",
        ("I9",),
        (
            Edit(HANDING, '    return Write(run_key(run.job_id, run.scheduled_for), arrow, held_as_read(run), changes)',
                 '    return Write(run_key(run.job_id, run.scheduled_for), arrow, (), changes)'),
            Edit(REAPER, '(*write.conditions, Equals("lease_expires_at", seen))', "write.conditions"),
        ),
    ),
)  # fmt: skip
