"""The ledger of a job: what its schedule expected in a range, and what became of each occurrence (W16).

    expected = ran + late + skipped + missed + waiting + unaccounted

    ran           started within the misfire grace of its time, however it ended; `cancelled` is how many of these, and
                  of the late ones, somebody cancelled after they had been called
    late          started later than that: after an outage, or by a backfill
    skipped       recorded as one that does not run: OVERLAP, SKIPPED_BY_HAND, cancelled before its call
    missed        its time passed without it: MISFIRED, EXPIRED, MISSED_WHILE_PAUSED
    waiting       it is under way, or still to come
    unaccounted   nothing says what became of it; there is no such case by design

From the last change of the schedule on, and as long as runs are kept, the ledger asks the schedule and the runs, each
by itself, so it notices where the two do not agree. Before that another schedule was in force, or other zone data (W2):
what was due then is known by its records only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from schedkit.engine.when.occurrences import between
from schedkit.engine.when.operate import MISSED_WHILE_PAUSED
from schedkit.engine.when.plan import EXPIRED, MISFIRED
from schedkit.model.jobs import Job
from schedkit.model.keys import RETENTION_MS
from schedkit.model.runs import AttemptOutcome, Run, RunStatus
from schedkit.model.time import MAX_INSTANT, Instant

MISSED: Final = frozenset({MISFIRED, EXPIRED, MISSED_WHILE_PAUSED})


@dataclass(slots=True)
class Ledger:
    """The sums. `skipped` and `missed` are by reason; `beside` are runs that the schedule did not ask for.

    `cancelled` is no term of them: those have run, or were late.
    """

    ran: int = 0
    late: int = 0
    cancelled: int = 0
    waiting: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    unaccounted: list[Instant] = field(default_factory=list)
    beside: int = 0

    @property
    def expected(self) -> int:
        """How many occurrences the schedule has in the range."""
        recorded = self.skipped.total() + self.missed.total()
        return self.ran + self.late + recorded + self.waiting + len(self.unaccounted)


def known_from(job: Job, now: Instant) -> Instant:
    """The first instant for which it can be told what was expected, and what became of it."""
    return max(_known_since(job) + 1, now - RETENTION_MS)


def _known_since(job: Job) -> Instant:
    """A job that was stored before the change of its schedule was noted may have been changed as late as touched."""
    if job.known_since is not None:
        return job.known_since
    return job.created_at if job.version == 1 else job.updated_at


def by_records(runs: Iterable[Run], since: Instant, until: Instant) -> list[Instant]:
    """What was due in since <= time < until as far as records tell, in order: what nobody asked for by hand."""
    return sorted(run.scheduled_for for run in runs if since <= run.scheduled_for < until and not run.triggered)


def only_recorded(job: Job) -> tuple[Instant, Instant]:
    """(since, until) between which only its records tell when this job was due; nothing lies in between if none does.

    Before it was made no other schedule was in force than the one that it has.
    """
    return job.created_at + 1, _known_since(job) + 1


def by_schedule(job: Job, since: Instant, until: Instant) -> Iterator[Instant]:
    """When its schedule asked for it in since <= time < until, in order; not where only records tell."""
    made, known = only_recorded(job)
    yield from between(job.schedule, since, min(made, until))
    yield from between(job.schedule, max(made, known, since), until)


def was_due(job: Job, scheduled: Iterable[Instant], runs: Iterable[Run]) -> list[Instant]:
    """When the job was due in a range, in order: as `by_schedule` has it, and by its records where these count."""
    return sorted({*scheduled, *by_records(runs, *only_recorded(job))})


def expected_until(job: Job) -> Instant:
    """Nothing is expected from this instant on: the schedule or the job has come to its end, or has had its runs."""
    return job.counted_from + 1 if job.next_run_at is None else MAX_INSTANT


def count(job: Job, expected: Sequence[Instant], runs: Mapping[Instant, Run]) -> Ledger:
    """The ledger of these occurrences. `runs`: all there are in the range, read after the job was."""
    found = Ledger(beside=len(runs.keys() - set(expected)))
    to_come = MAX_INSTANT if job.max_runs is None else job.max_runs - job.run_count
    for at in expected:
        run = runs.get(at)
        if run is not None:
            _recorded(job, run, found)
        elif at > job.counted_from:
            found.waiting += to_come > 0  # no more than it is to have
            to_come -= 1
        elif at == job.held:
            found.waiting += 1
        elif any(after < at <= through for after, through in job.pauses):
            found.missed[MISSED_WHILE_PAUSED] += 1
        else:
            found.unaccounted.append(at)
    return found


def _recorded(job: Job, run: Run, found: Ledger) -> None:
    if not run.status.final:
        found.waiting += 1
    elif run.never_called:
        reason = run.reason or run.status.value
        (found.missed if reason in MISSED else found.skipped)[reason] += 1
    else:
        found.cancelled += run.status is RunStatus.CANCELLED
        if _started_at(run) - run.due_at > job.misfire_grace_ms:
            found.late += 1
        else:
            found.ran += 1


def _started_at(run: Run) -> Instant:
    """When it was called first. A try that was given up before its call was none, where others came after it."""
    tried = [attempt for attempt in run.attempts if attempt.outcome is not AttemptOutcome.CANCELLED] or run.attempts
    return tried[0].started_at if tried else run.due_at
