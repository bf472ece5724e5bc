"""Mutants of `when`: schedules, windows, misfires, overlaps and the operator's verbs."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.mutant import Edit, Mutant

ADVANCE: Final = "schedkit.engine.when.advance"
CANCEL: Final = "schedkit.engine.who.cancel"
CLAIM: Final = "schedkit.engine.who.claim"
CRON: Final = "schedkit.engine.when.cron"
DISPATCHER: Final = "schedkit.roles.dispatcher"
EXECUTOR: Final = "schedkit.roles.executor"
SETTLING: Final = "schedkit.roles.settling"
OCCURRENCES: Final = "schedkit.engine.when.occurrences"
OPERATE: Final = "schedkit.engine.when.operate"
PLAN: Final = "schedkit.engine.when.plan"
WINDOW: Final = "schedkit.engine.when.window"

SENT_EARLY: Final = Edit(
    DISPATCHER, "world.buckets.due(world.clock.now(), BATCH)", "world.buckets.due(world.clock.now() + 1_000, BATCH)"
)
TAKEN_EARLY: Final = Edit(EXECUTOR, "if early_ms > 0 else None", "if False else None")

EARLY: Final = (
    Mutant(
        "sent_early",
        "the dispatcher sends what is due in a second",
        ("I1",),
        (SENT_EARLY,),
        equivalent="the executor looks at the clock again and gives back what came early",
    ),
    Mutant(
        "taken_early",
        "the executor takes what came early, decides that nothing is due, and drops it",
        ("I13",),
        (TAKEN_EARLY,),
    ),
    Mutant(
        "sent_and_taken_early",
        "the dispatcher sends what is due in a second, and the executor drops it",
        ("I13",),
        (SENT_EARLY, TAKEN_EARLY),
    ),
    Mutant(
        "called_early",
        "every look at the clock before a call of the schedule is gone",
        ("I1",),
        (
            SENT_EARLY,
            TAKEN_EARLY,
            Edit(
                PLAN,
                "if due is None or dispatch_at(job, due) > now:",
                "if due is None or dispatch_at(job, due) > now + 1_000:",
            ),
            Edit(CLAIM, 'assert now >= due_at >= scheduled_for, "never early"', "assert True"),
            Edit(EXECUTOR, "while (called_at := world.clock.now()) < run.due_at:", "if (called_at := now) < 0:"),
        ),
    ),
    Mutant(
        "retried_early",
        "any message claims a run that waits for a retry, whatever its time",
        ("I1", "I7"),
        (
            Edit(EXECUTOR, "run.not_before is None or run.not_before > now:", "run.not_before is None:"),
            Edit(CLAIM, 'assert now >= run.not_before, "never early"', "assert True"),
        ),
    ),
    Mutant(
        "called_at_once",
        "a claimed run does not wait for a clock that was set back",
        ("I1",),
        (Edit(EXECUTOR, "while (called_at := world.clock.now()) < run.due_at:", "if (called_at := now) < 0:"),),
    ),
    Mutant(
        "offset_of_the_process",
        "the place in the window comes from a hash that is another in every process",
        ("I14",),
        (Edit(WINDOW, "return stable_hash(job_id) % window_ms", "return hash(job_id) % window_ms"),),
    ),
    Mutant(
        "offset_by_chance",
        "the place in the window is drawn anew each time",
        ("I14",),
        (
            Edit(
                WINDOW,
                "return stable_hash(job_id) % window_ms",
                'return __import__("random").randrange(window_ms)',
            ),
        ),
    ),
    Mutant(
        "window_ignored",
        "every job starts at the beginning of its window",
        ("I14", "I1"),
        (
            Edit(
                WINDOW, "return min(scheduled_for + offset_ms(job.job_id, job.window_ms),", "return min(scheduled_for,"
            ),
        ),
    ),
)

SCHEDULES: Final = (
    Mutant(
        "from_now",
        "the next occurrence is counted from now, not from the one before",
        ("I5", "I2"),
        (Edit(ADVANCE, "counting_from(job, start.scheduled_for)", "counting_from(job, now)"),),
    ),
    Mutant(
        "interval_from_last",
        "an interval forgets its anchor",
        ("I5",),
        (Edit(OCCURRENCES, "at = interval.anchor_at + k * interval.every_ms", "at = earliest + interval.every_ms"),),
    ),
    Mutant(
        "gap_skipped",
        "a cron whose wall time is left out by a clock change never runs then, whatever its policy",
        ("I5",),
        (Edit(CRON, "gap, repeat = cron.gap, cron.repeat", "gap, repeat = GapPolicy.SKIP, cron.repeat"),),
    ),
    Mutant(
        "both_passes",
        "a cron whose wall time comes twice runs twice, whatever its policy",
        ("I5",),
        (Edit(CRON, "gap, repeat = cron.gap, cron.repeat", "gap, repeat = cron.gap, RepeatPolicy.BOTH"),),
    ),
    Mutant(
        "end_ignored",
        "an interval goes on after its end",
        ("I5", "I2"),
        (
            Edit(
                OCCURRENCES,
                "or (interval.end_at is not None and at >= interval.end_at)",
                "or (interval.end_at is not None and False)",
            ),
        ),
    ),
    Mutant(
        "one_run_more",
        "max_runs is off by one",
        ("W15",),
        (Edit(ADVANCE, "after.run_count >= after.max_runs:", "after.run_count > after.max_runs:"),),
    ),
    Mutant(
        "runs_not_counted",
        "run_count stays where it is",
        ("W15", "I30"),
        (Edit(ADVANCE, "run_count=job.run_count + 1,", "run_count=job.run_count,"),),
    ),
    Mutant(
        "advanced_from_anywhere",
        "a job goes on whatever has become of it since it was read",
        ("I4", "I5", "I30"),
        (Edit(ADVANCE, "arrow, (*stands(before), *more), changes", "arrow, more, changes"),),
    ),
    Mutant(
        "advanced_by_two",
        "a job goes on although another moved its schedule on meanwhile",
        ("I5", "I30", "W8"),
        (Edit(ADVANCE, "arrow, (*stands(before), *more), changes", "arrow, (*seen(before), *more), changes"),),
    ),
    Mutant(
        "advanced_over_verbs",
        "a job goes on although it was paused, edited or cancelled meanwhile",
        ("I4", "W8"),
        (Edit(ADVANCE, "arrow, (*stands(before), *more), changes", "arrow, (*stands(before)[2:], *more), changes"),),
    ),
    Mutant(
        "verbs_on_anything",
        "a verb lands whatever has become of the job since it was read",
        ("I8", "I4"),
        (Edit(OPERATE, "arrow, stands(job), changes", "arrow, (), changes"),),
    ),
    Mutant(
        "verbs_over_advances",
        "a verb lands although the schedule has moved on meanwhile",
        ("I5", "W8"),
        (Edit(OPERATE, "arrow, stands(job), changes", "arrow, seen(job), changes"),),
    ),
    Mutant(
        "finished_too_soon",
        "a job ends although its last run has not",
        ("I8", "I30"),
        (Edit(SETTLING, "elif previous.status.final:", "elif True:"),),
    ),
)  # fmt: skip

MISFIRES: Final = (
    Mutant(
        "dropped_in_silence",
        "what is skipped is recorded nowhere",
        ("I6", "I30", "I2"),
        (
            Edit(
                EXECUTOR,
                "match await self._settling.commit(move, *records):",
                "match await self._settling.commit(move):",
            ),
        ),
    ),
    Mutant(
        "no_grace",
        "a run that is noticed a moment late has missed its time",
        ("I6",),
        (Edit(PLAN, "> job.misfire_grace_ms", "> 0"),),
    ),
    Mutant(
        "never_late",
        "what was missed runs, whatever the policy says",
        ("I6",),
        (Edit(PLAN, "return now - dispatch_at(job, scheduled_for) > job.misfire_grace_ms", "return False"),),
    ),
    Mutant(
        "policy_ignored",
        "what was missed is skipped but for the latest, whatever the policy says",
        ("I6",),
        (Edit(PLAN, "policy = job.catch_up or job.misfire", "policy = MisfirePolicy.RUN_ONCE"),),
    ),
    Mutant(
        "wish_at_resume_ignored",
        "what resume says about missed runs is forgotten",
        ("I6",),
        (Edit(PLAN, "policy = job.catch_up or job.misfire", "policy = job.misfire"),),
    ),
    Mutant(
        "latest_skipped",
        "of what was missed not even the latest runs",
        ("I6",),
        (Edit(PLAN, "else Skip(missed[:-1], MISFIRED)", "else Skip(missed[:CHUNK], MISFIRED)"),),
    ),
    Mutant(
        "expired_run",
        "a run starts however long ago it should have",
        ("I6",),
        (Edit(PLAN, "return job.expires_after_ms is not None and now >", "return False and now >"),),
    ),
    Mutant(
        "overlap_ignored",
        "a run starts beside the one before, though the job says SKIP",
        ("W13",),
        (Edit(PLAN, "if previous_open and job.overlap is not OverlapPolicy.ALLOW:", "if False:"),),
    ),
    Mutant(
        "triggered_unseen",
        "a run starts beside one that was asked for by hand",
        ("W13",),
        (
            Edit(
                EXECUTOR,
                "for run in (previous, await self._settling.run_at(job, job.last_triggered)):",
                "for run in (previous,):",
            ),
        ),
    ),
    Mutant(
        "held_beside",
        "an occurrence that waits for the run before it does not wait",
        ("W13",),
        (Edit(PLAN, "if job.held is not None and not previous_open and", "if job.held is not None and"),),
    ),
    Mutant(
        "held_lost",
        "an occurrence that waits for the run before it is forgotten",
        ("I2", "I30"),
        (Edit(ADVANCE, "held=job.next_run_at)", "held=None)"),),
    ),
    Mutant(
        "held_never",
        "BUFFER_ONE skips what it should keep",
        ("I6",),
        (Edit(PLAN, "if previous_open and job.overlap is OverlapPolicy.BUFFER_ONE and", "if False and"),),
    ),
    Mutant(
        "held_not_woken",
        "the end of a run does not wake what waited for it",
        ("I13",),
        (
            Edit(
                SETTLING,
                "await self.commit(advancing.look_again(fresh, world.shards, now))",
                "return",
            ),
        ),
    ),
)

VERBS: Final = (
    Mutant(
        "pause_ignored",
        "a paused job that comes up is run",
        ("I4",),
        (
            Edit(PLAN, "if job.status is JobStatus.PAUSED:", "if job.status is JobStatus.PAUSED and job.paused_until:"),
            Edit(PLAN, "if job.status is not JobStatus.SCHEDULED:", "if job.status.ended:"),
        ),
    ),
    Mutant(
        "retried_while_paused",
        "a run that waits for a retry does not heed that its job was paused",
        ("I4",),
        (
            Edit(
                CANCEL,
                "if job.status is JobStatus.PAUSED and not run.triggered and retried:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "retried_after_cancel",
        "a run that waits for a retry does not heed that its job was cancelled",
        ("I4",),
        (
            Edit(CANCEL, "if job.status is JobStatus.CANCELLED:", "if False:"),
            Edit("schedkit.api.jobs", "if run.status is RunStatus.RETRY_WAIT:", "if False:"),
        ),
    ),
    Mutant(
        "never_resumed",
        "a pause with an end has none",
        ("I2",),
        (Edit(PLAN, "return AutoResume() if job.paused_until is not None and", "return AutoResume() if False and"),),
    ),
    Mutant(
        "missed_and_resumed",
        "resume runs what was due while the job was paused",
        ("I6", "I4"),
        (Edit(OPERATE, "if misfire is None and missed:", "if False:"),),
    ),
    Mutant(
        "edit_keeps_next",
        "a job whose schedule was changed still runs once by the old one",
        ("I5", "I4"),
        (Edit(OPERATE, "moved = counting_from(wanted, since)", "moved = wanted"),),
    ),
    Mutant(
        "pause_forgotten",
        "a job does not remember what its pauses passed over",
        ("W16",),
        (Edit(OPERATE, "    return replace(awake, pauses=kept, known_since=known_since)", "    return awake"),),
    ),
    Mutant(
        "version_stays",
        "a verb does not raise the job's version",
        ("I8", "I4"),
        (Edit(OPERATE, "version=job.version + 1, updated_at=now", "version=job.version, updated_at=now"),),
    ),
)

WHEN: Final = (*EARLY, *SCHEDULES, *MISFIRES, *VERBS)
