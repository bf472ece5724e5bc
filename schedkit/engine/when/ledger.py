"""The ledger of a job: what its schedule expected in a range, and what became of each occurrence (W16).

    expected = ran + late + skipped + missed + waiting + unaccounted

    ran           started within the misfire grace of its time, however it ended
    late          started later than that: after an outage, or by a backfill
    skipped       recorded as one that does not run: OVERLAP, SKIPPED_BY_HAND, cancelled before its call
    missed        its time passed without it: MISFIRED, EXPIRED, MISSED_WHILE_PAUSED
    waiting       it is under way, or still to come
    unaccounted   nothing says what became of it; there is no such case by design

Only what the present schedule expected can be counted: from its last change on, and as long as runs are kept. The
ledger asks the schedule and the runs, each by itself, so it notices where the two do not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from schedkit.engine.when.operate import MISSED_WHILE_PAUSED
from schedkit.engine.when.plan import EXPIRED, MISFIRED
from schedkit.model.jobs import Job
from schedkit.model.keys import RETENTION_MS
from schedkit.model.runs import Run
from schedkit.model.time import MAX_INSTANT, Instant

MISSED: Final = frozenset({MISFIRED, EXPIRED, MISSED_WHILE_PAUSED})


@dataclass(slots=True)
class Ledger:
    """The sums. `skipped` and `missed` are by reason; `beside` are runs that the schedule did not ask for."""

    ran: int = 0
    late: int = 0
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
    """The first instant for which it can be told what was expected, and what became of it.

    A job that was stored before the change of its schedule was noted may have been changed as late as it was touched.
    """
    since = job.known_since
    if since is None:
        since = job.created_at if job.version == 1 else job.updated_at
    return max(since + 1, now - RETENTION_MS)


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
    elif run.attempts and run.attempts[0].started_at - run.due_at > job.misfire_grace_ms:
        found.late += 1
    else:
        found.ran += 1
