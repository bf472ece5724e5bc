"""Redrives: dead letters start again at the pace that was asked for, once, and as a series of their own (I19).

redriven_over_pace, started_over_pace      releases, and first starts of a new series, of one redrive
redriven_twice                             one letter, one request
not_a_new_series, not_a_dead_letter        what a redrive makes of a run, and of which
redriven_unasked, beyond_canary            while it was paused, had ended, waited for a person; what UNKNOWN is
redrive_miscounted                         its counters against the runs
redrive_stuck                              long after the storm it has something to do, and nobody does it
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from schedkit.model.time import SECOND_MS, Instant
from schedkit.sim.checker.facts import CLOCK_MARGIN_MS, Commit, Facts, Item, RunFacts, enters_running
from schedkit.sim.checker.limits import RACE, bursts
from schedkit.sim.checker.verdict import Violation

DRIVEN: Final = frozenset({"CANARY", "RUNNING"})
UNDER_WAY: Final = frozenset({"PLANNED", "CANARY", "RUNNING"})
LEASE_MS: Final = 10 * SECOND_MS  # of the one who carries it out; half of it is the longest time without a write


def paced(facts: Facts) -> Iterator[Violation]:
    """In no second more runs are released than the cap of their redrive, nor are more started, but for one."""
    released, started = moments(facts, lambda run: run.redrives)
    for redrive_id, cap in _caps(facts).items():
        for t, key, count in bursts(released[redrive_id], SECOND_MS, cap):
            text = f"{count} runs redriven within a second by {redrive_id}, {cap} are allowed"
            yield Violation("I19", "redriven_over_pace", t, key, text)
        for t, key, count in bursts(started[redrive_id], SECOND_MS, cap + RACE):
            text = f"{count} redriven runs started within a second for {redrive_id}, {cap} are allowed"
            yield Violation("I19", "started_over_pace", t, key, text)


Moments = defaultdict[str, list[tuple[Instant, str]]]


def moments(facts: Facts, of: Callable[[RunFacts], Sequence[Commit]]) -> tuple[Moments, Moments]:
    """(when what was released, when it was started for the first time), by redrive or backfill: its writes are `of`."""
    released: Moments = defaultdict(list)
    started: Moments = defaultdict(list)
    for run in facts.runs:
        for commit in of(run):
            released[redrive_id_of(commit)].append((commit.t, run.key))
        for commit in run.commits if of(run) else ():
            before = commit.before or {}
            if before.get("attempt") == 0 and enters_running(commit):
                started[before.get("redrive_id") or ""].append((commit.t, run.key))
    return released, started


def _caps(facts: Facts) -> dict[str, int]:
    return {name: int((commits[0].after or {})["max_per_second"]) for name, commits in facts.redrives.items()}


def once(facts: Facts) -> Iterator[Violation]:
    """No redrive starts a run twice, though it may die again while the redrive is under way."""
    for run in facts.runs:
        for redrive_id, count in Counter(map(redrive_id_of, run.redrives)).items():
            if redrive_id and count > 1:
                text = f"redriven {count} times by {redrive_id}"
                yield Violation("I19", "redriven_twice", run.redrives[-1].t, run.key, text)


def new_series(facts: Facts) -> Iterator[Violation]:
    """A dead letter becomes a run that waits for attempt 1 of the next series, under the epoch that it had."""
    for run in facts.runs:
        for commit in run.redrives:
            before: Any = commit.before or {}
            after: Any = commit.after or {}
            if before.get("dead_partition") is None:
                yield _found("not_a_dead_letter", run, commit, f"redriven although it was {before.get('status')}")
            kept = after.get("epoch") == before.get("epoch") and after.get("attempts") == before.get("attempts")
            begun = after.get("attempt") == 0 and after.get("series", 1) == before.get("series", 1) + 1
            gone = [name for name in ("finished_at", "expires_at", "reason", "dead_at") if after.get(name) is not None]
            if not (kept and begun) or gone or after.get("cancel_requested"):
                text = f"epoch {before.get('epoch')} to {after.get('epoch')}, attempt {after.get('attempt')} of series "
                text += f"{after.get('series')}, still there: {', '.join(gone) or 'nothing'}"
                yield _found("not_a_new_series", run, commit, text)


def as_asked(facts: Facts) -> Iterator[Violation]:
    """Runs are released only in the states that release, the canary first; what is UNKNOWN only where it was asked."""
    for run in facts.runs:
        for commit in run.redrives:
            commits = facts.redrives.get(redrive_id_of(commit))
            if commits is None:
                continue
            item: Any = item_with(commits, commit) or {}
            if item.get("state") not in DRIVEN:
                yield _found("redriven_unasked", run, commit, f"its redrive was {item.get('state')}")
            if (commit.before or {}).get("status") == "UNKNOWN" and not item.get("include_unknown"):
                yield _found("redriven_unasked", run, commit, "it was UNKNOWN, and its redrive leaves those")
            if item.get("state") == "CANARY" and item.get("redriven", 0) > item.get("canary", 0):
                text = f"{item.get('redriven')} are redriven, and the canary is {item.get('canary')}"
                yield _found("beyond_canary", run, commit, text)


def item_with(commits: list[Commit], released: Commit) -> Item | None:
    """The redrive as it stood once this run was released: both are one decision, or ought to be."""
    item: Item | None = None
    for commit in commits:
        if commit.order < released.order or (commit.batch is not None and commit.batch == released.batch):
            item = commit.after
    return item


def counted(facts: Facts) -> Iterator[Violation]:
    """What a redrive says of itself is true: as many runs, and each of them open or ended."""
    released, _ = moments(facts, lambda run: run.redrives)
    for redrive_id, commits in facts.redrives.items():
        item: Any = commits[-1].after
        if item is None:
            continue
        ended = sum(item.get(name) or 0 for name in ("succeeded", "failed", "cancelled"))
        told, known = item.get("redriven") or 0, len(released[redrive_id])
        if told != known or told != ended + len(item.get("open") or ()):
            text = f"it tells of {told} runs, {ended} of them ended and {len(item.get('open') or ())} open; "
            text += f"{known} were redriven"
            yield Violation("I19", "redrive_miscounted", commits[-1].t, redrive_id, text)
        if item.get("state") == "DONE" and item.get("open"):
            yield Violation("I19", "redrive_miscounted", commits[-1].t, redrive_id, "it is DONE, and runs are open")


def carried_out(facts: Facts) -> Iterator[Violation]:
    """A redrive that is under way is written to again and again by the one who carries it out."""
    for redrive_id, text in unattended(facts, facts.redrives):
        yield Violation("I19", "redrive_stuck", facts.end_at, redrive_id, text)


def unattended(facts: Facts, found: dict[str, list[Commit]]) -> Iterator[tuple[str, str]]:
    """(id, what to say) of each that is under way and that nobody has written to for longer than a lease."""
    for name, commits in found.items():
        last = commits[-1]
        if last.after is None or last.after.get("state") not in UNDER_WAY:
            continue
        since = max(last.t, facts.recovered) + LEASE_MS + CLOCK_MARGIN_MS + 2 * facts.skew_ms + facts.calm_ms
        if since < facts.end_at:
            yield name, f"it is {last.after.get('state')}, and nobody has done anything for it since {last.t}"


def redrive_id_of(commit: Commit) -> str:
    """Of the redrive that did this; empty where a single run was asked for."""
    return (commit.after or {}).get("redrive_id") or ""


def _found(check: str, run: RunFacts, commit: Commit, text: str) -> Violation:
    t: Instant = commit.t
    return Violation("I19", check, t, run.key, text)
