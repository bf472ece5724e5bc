"""The checker: reads a history and says what must not have happened.

    events ── reading ──► facts ── one small function for each question ──► violations
                            └──── figures

It shares nothing with the code that it judges: stored items are read as they are, times come from an oracle of its own.

    when      I1 I5 I13 I14      who      I8 I9 I10 I16         misfire   I6 W13
    ledger    I2 I30 W15         calls    I11 I12 C6 C7         failure   I7
    ends      I2 I13             verbs    I3 I4 I29             limits    I15 I17 I18 I19
    timers    W8                     jobs     I8 W14 names          leases    I9 I11
    redrives  I19                accounts  W16              skips, backfills  W14
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from schedkit.sim.checker import (
    accounts,
    backfills,
    calls,
    ends,
    failure,
    jobs,
    leases,
    ledger,
    limits,
    misfire,
    redrives,
    skips,
    timers,
    verbs,
    when,
    who,
)
from schedkit.sim.checker.facts import Facts
from schedkit.sim.checker.figures import figures
from schedkit.sim.checker.reading import read_facts
from schedkit.sim.checker.timeline import timeline
from schedkit.sim.checker.verdict import Verdict, Violation
from schedkit.sim.history import Event

__all__ = ["CHECKS", "Verdict", "Violation", "check", "timeline"]

KEPT: Final = 50  # violations of one check that are told in full; one bug breaks thousands of runs

Check = Callable[[Facts], Iterator[Violation]]

CHECKS: Final[tuple[Check, ...]] = (
    when.never_early,
    when.place_in_window,
    when.next_times,
    when.no_later_than_promised,
    when.held_no_longer_than_promised,
    ledger.nothing_missing,
    ledger.nothing_made_of_air,
    ledger.counted,
    ledger.nothing_forgotten,
    ledger.kept_long_enough,
    ends.runs_end,
    ends.jobs_move,
    ends.timers_fire,
    ends.nothing_raised,
    timers.right_timer,
    misfire.skipped_by_rule,
    misfire.started_in_time,
    misfire.late_runs_by_rule,
    misfire.one_at_a_time,
    misfire.none_beside_triggered,
    jobs.finished_after_their_runs,
    jobs.versions_count_verbs,
    jobs.one_name_one_job,
    jobs.missed_stays_missed,
    who.legal_arrows,
    who.attempts_once,
    who.unbroken,
    who.one_live_epoch,
    who.tokens_once,
    who.fenced,
    who.leases_forward,
    leases.lost_for_a_reason,
    leases.releases_by_right,
    calls.right_key,
    calls.duplicates_explained,
    calls.at_most_once,
    calls.nothing_made_up,
    verbs.one_key_one_job,
    verbs.acked_jobs_stay,
    verbs.heeded,
    failure.retries_bounded,
    failure.retries_spaced,
    failure.failed_for_good,
    failure.waits_spread,
    limits.strict_allowance,
    limits.reclaim_pace,
    limits.target_protection,
    limits.redrive_cap,
    redrives.paced,
    redrives.once,
    redrives.new_series,
    redrives.as_asked,
    redrives.counted,
    redrives.carried_out,
    accounts.accounted,
    accounts.remembered,
    skips.stay_skipped,
    skips.asked_for,
    backfills.once,
    backfills.as_asked,
    backfills.one_by_one,
    backfills.paced,
    backfills.counted,
    backfills.whole,
    backfills.carried_out,
)


def check(events: Iterable[Event]) -> Verdict:
    """What is wrong with this history, and what it amounts to. Events come in the order in which they happened."""
    facts = read_facts(events)
    counts: Counter[str] = Counter()
    kept: list[Violation] = []
    for question in CHECKS:
        for violation in question(facts):
            counts[violation.check] += 1
            if counts[violation.check] <= KEPT:
                kept.append(violation)
    kept.sort(key=lambda violation: (violation.t, violation.invariant, violation.check, violation.key))
    return Verdict(tuple(kept), figures(facts) | {"violations": dict(sorted(counts.items()))})
