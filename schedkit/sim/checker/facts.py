"""The facts of a history: one pass over its events, sorted by what they are about.

Facts ── jobs ── JobFacts: its commits, its distinct settings
│                └─ runs ── RunFacts: its commits, its claims by epoch, its calls
├── calls, api, keys, downs of each process, refusals
└── header: what the begin event promises
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

from schedkit.model.time import SECOND_MS, Instant, rfc3339
from schedkit.sim.oracle import occurrences

Item = Mapping[str, Any]

CLOCK_MARGIN_MS: Final = 5 * SECOND_MS  # K: a lease has ended for others when it ended this long ago
NEVER: Final = 10**16  # later than every instant
OPEN: Final = frozenset({"RUNNING", "RETRY_WAIT"})
LOST: Final = "LEASE_EXPIRED"
RELEASED: Final = "RELEASED"
ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


@dataclass(slots=True, eq=False)
class Commit:
    """One write that landed. `job`: the job's item as it stood before the decision that this write is part of."""

    order: int
    t: Instant
    node: str
    arrow: str
    before: Item | None
    after: Item | None
    tag: int | None
    own: Instant | None
    batch: int | None
    job: Item | None = None


@dataclass(slots=True, eq=False)
class Call:
    """One call of a target, with what came of it."""

    order: int
    t: Instant
    node: str
    key: str
    run: RunFacts
    token: int
    attempt: int
    timeout_ms: int
    own: Instant | None
    url: str
    effect_at: Instant | None = None
    replied_at: Instant | None = None
    status: int | None = None
    retry_after_ms: int | None = None

    @property
    def ends_at(self) -> Instant:
        """When it is over for the target: it answered, or the caller gave up."""
        return self.replied_at if self.replied_at is not None else self.t + self.timeout_ms


@dataclass(slots=True, eq=False)
class Asked:
    """One request to the API, and what the caller heard: ok, fail, info, or nothing (None)."""

    order: int
    t: Instant
    op: str
    job: str | None
    idempotency_key: str | None
    body: Mapping[str, Any]
    heard: str | None = None
    heard_at: Instant = 0
    heard_order: int = 0
    job_id: str | None = None
    doc: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class RunFacts:
    """One run: its writes in order, the claim of each epoch, its calls in order."""

    job: JobFacts
    scheduled_for: Instant
    commits: list[Commit] = field(default_factory=list)
    claims: dict[int, Commit] = field(default_factory=dict)
    redrives: list[Commit] = field(default_factory=list)  # those of its writes that begin another series of attempts
    backfills: list[Commit] = field(default_factory=list)  # … and those that have it run after all
    calls: list[Call] = field(default_factory=list)
    text: str = ""

    @property
    def key(self) -> str:
        """The run id."""
        if not self.text:
            self.text = f"{self.job.job_id}:{rfc3339(self.scheduled_for)}"
        return self.text

    @property
    def first(self) -> Item | None:
        """The item as it came to be."""
        return self.commits[0].after if self.commits else None

    @property
    def last(self) -> Item | None:
        """The item as it stands at the end; None where it was forgotten, or never was."""
        return self.commits[-1].after if self.commits else None

    @property
    def ended_as(self) -> Item | None:
        """The item as it stood last, be it forgotten meanwhile."""
        return (self.commits[-1].after or self.commits[-1].before) if self.commits else None

    @property
    def triggered(self) -> bool:
        """Asked for by hand: now, or for a time of the past that had no run."""
        return bool(self.first and (self.first.get("triggered") or self.first.get("backfilled")))

    @property
    def claimed(self) -> bool:
        """It came to be run, by the schedule: RUNNING, or waiting for a worker."""
        return bool(self.first and self.first["status"] in OPEN and not self.triggered)

    def at(self, order: int) -> Item | None:
        """The item just before the event of this order."""
        item: Item | None = None
        for commit in self.commits:
            if commit.order >= order:
                break
            item = commit.after
        return item

    def backfilled_by(self, order: int) -> bool:
        """Somebody had it run after all before the event of this order."""
        return any(began.order < order for began in self.backfills)

    def open_between(self, since: Instant, until: Instant) -> bool:
        """It had no final state at some time of these."""
        was_open = False
        for commit in self.commits:
            if was_open and commit.t >= since:
                return True
            if commit.t > until:
                return False
            was_open = commit.after is not None and commit.after["status"] in OPEN
        return was_open

    @property
    def ends(self) -> list[Instant]:
        """When it got a final state: once, and once more for each redrive that ended too."""
        found: list[Instant] = []
        was_open = True
        for commit in self.commits:
            is_open = commit.after is not None and commit.after["status"] in OPEN
            if was_open and not is_open:
                found.append(commit.t)
            was_open = is_open
        return found

    @property
    def final_at(self) -> Instant | None:
        """When it got the final state that it has at the end; None where it has none then."""
        last = self.last
        ends = self.ends
        return ends[-1] if ends and not (last is not None and last["status"] in OPEN) else None

    def series_of(self, epoch: int) -> int:
        """How often it had been redriven before this epoch was claimed."""
        return sum(epoch > (commit.before or {}).get("epoch", 0) for commit in self.redrives)


@dataclass(slots=True, eq=False)
class JobFacts:
    """One job: its writes in order and its runs; `settings` has its item after its creation and after each verb."""

    job_id: str
    commits: list[Commit] = field(default_factory=list)
    runs: dict[Instant, RunFacts] = field(default_factory=dict)
    settings: list[Item] = field(default_factory=list)
    schedules: list[tuple[Instant, Item, Instant]] = field(default_factory=list)  # (since, schedule, counted_from)
    held: set[Instant] = field(default_factory=set)
    catch_ups: set[str] = field(default_factory=set)
    orders: list[int] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)

    @property
    def last(self) -> Item | None:
        """The item as it stands at the end; None where it was forgotten, or never was."""
        return self.commits[-1].after if self.commits else None

    @property
    def ended_as(self) -> Item | None:
        """The item as it stood last, be it forgotten meanwhile."""
        return (self.commits[-1].after or self.commits[-1].before) if self.commits else None

    @property
    def touched(self) -> bool:
        """An operator changed it after its creation, or it was created paused."""
        return len(self.settings) > 1 or (bool(self.settings) and self.settings[0]["status"] != "SCHEDULED")

    def at(self, order: int) -> Item | None:
        """The item just before the event of this order."""
        place = bisect_left(self.orders, order)
        return self.commits[place - 1].after if place else None

    def every(self, name: str, default: Any = None) -> list[Any]:
        """The values that an attribute had, one for each setting."""
        return [item.get(name, default) for item in self.settings]

    def offset(self, window_ms: int) -> int:
        """The job's place in a window of this length, computed anew."""
        if window_ms not in self.offsets:
            digest = blake2b(self.job_id.encode(), digest_size=8).digest()
            self.offsets[window_ms] = int.from_bytes(digest, "big") % window_ms if window_ms else 0
        return self.offsets[window_ms]

    def due_of(self, item: Item, scheduled_for: Instant) -> Instant:
        """The earliest start of an occurrence under the job's item."""
        return scheduled_for + self.offset(item.get("window_ms") or 0)

    def verb_before(self, t: Instant) -> Instant:
        """When the schedule was touched last, up to this time: created, paused, resumed, edited."""
        last = self.commits[0].t if self.commits else 0
        for commit in self.commits if len(self.settings) > 1 else ():
            if commit.t <= t and is_verb(commit):
                last = commit.t
        return last


@dataclass(slots=True, eq=False)
class Refusal:
    """A write that was refused."""

    t: Instant
    node: str
    tag: int | None
    epoch: int | None


class Facts:
    """Everything a check needs, found once."""

    def __init__(self) -> None:
        self.header: Mapping[str, Any] = {}
        self.begin_at: Instant = 0
        self.heal_at: Instant | None = None
        self.end_at: Instant = 0
        self.jobs: dict[str, JobFacts] = {}
        self.calls: list[Call] = []
        self.api: list[Asked] = []
        self.downs: dict[str, list[tuple[Instant, str]]] = {}
        self.boots: dict[str, list[Instant]] = {}  # by machine: when a process was started on it
        self.troubles: dict[str, list[tuple[Instant, Instant]]] = {}  # from, until: "outage", "cut NODE", "stop NODE"
        self.delays: dict[str, list[Instant]] = {}  # by process: when one of its messages was delayed
        self.clocks: dict[str, list[tuple[Instant, float]]] = {}  # by machine: when its clock was set, by how much
        self.skews: dict[str, Mapping[str, Any]] = {}  # by machine: how its clock was set last
        self.faults: dict[str, int] = {}
        self.crash_points: dict[str, int] = {}  # "before claim", "after settle SUCCEEDED", …: how often each was hit
        self.keys: dict[tuple[str, str], list[Commit]] = {}
        self.refusals: list[Refusal] = []
        self.bugs: list[tuple[Instant, str, str]] = []  # (when, by whom, what was raised)
        self.redrives: dict[str, list[Commit]] = {}  # by id: what was written to the redrive itself
        self.backfills: dict[str, list[Commit]] = {}  # likewise
        self.events = 0
        self.asked: dict[int, Asked] = {}  # by the number of the request
        self.called: dict[int, Call] = {}  # by the number of the call

    # What the begin event promises; where it says nothing, nothing is asked.

    @cached_property
    def skew_ms(self) -> int:
        """No clock is further off than this."""
        return int(self.header.get("skew_ms") or 0)

    @cached_property
    def calm_ms(self) -> int:
        """How late a start may be in calm weather."""
        return _bound(self.header.get("calm_ms"))

    @cached_property
    def recover_ms(self) -> int:
        """This long after `heal` everything that was due before has been done."""
        return _bound(self.header.get("recover_ms"))

    @cached_property
    def late_ms(self) -> int | None:
        """How late a start may be in the storm; None where there is no bound."""
        late = self.header.get("late_ms")
        return None if late is None else int(late)

    @cached_property
    def heal(self) -> Instant:
        """When the storm was over."""
        return self.begin_at if self.heal_at is None else self.heal_at

    @cached_property
    def recovered(self) -> Instant:
        """From here on the weather is calm and nothing is left of the storm."""
        return self.heal + self.recover_ms

    @cached_property
    def limits(self) -> Mapping[str, Any]:
        """The limits that the system promises to keep."""
        return self.header.get("limits") or {}

    @cached_property
    def faulty(self) -> bool:
        """Something may go wrong in this history."""
        return bool(self.header.get("faults"))

    def deadline(self, due_at: Instant) -> Instant:
        """When an occurrence that is due then has started at the latest."""
        if due_at < self.heal and self.late_ms is not None:
            return due_at + self.late_ms
        return max(self.recovered, due_at + self.calm_ms)

    def down_between(self, node: str, since: Instant, until: Instant) -> str | None:
        """How this process was stopped or lost between these times, if it was."""
        downs = self.downs.get(node, [])
        for _, fault in downs[bisect_left(downs, (since, "")) : bisect_right(downs, (until, "~"))]:
            return fault
        return None

    def troubled(self, what: str, since: Instant, until: Instant) -> bool:
        """A trouble of this name lasted at some time of these."""
        return any(began <= until and ended >= since for began, ended in self.troubles.get(what, ()))

    def run(self, job_id: str, scheduled_for: Instant) -> RunFacts:
        """The facts of this run, begun here if need be."""
        job = self.jobs.get(job_id)
        if job is None:
            job = self.jobs[job_id] = JobFacts(job_id)
        run = job.runs.get(scheduled_for)
        if run is None:
            run = job.runs[scheduled_for] = RunFacts(job, scheduled_for)
        return run

    @cached_property
    def runs(self) -> list[RunFacts]:
        """Every run with at least one write, by job."""
        return [run for job in self.jobs.values() for run in job.runs.values() if run.commits]

    @cached_property
    def made(self) -> list[JobFacts]:
        """Every job with at least one write."""
        return [job for job in self.jobs.values() if job.commits]


def occurrences_of(schedule: Item, since: Instant, until: Instant) -> list[Instant] | None:
    """The oracle's answer, since < at <= until; None for a schedule it does not speak."""
    try:
        return occurrences(schedule, since, until)
    except ValueError:
        return None


def final(item: Item | None) -> bool:
    """The item of a run that has ended."""
    return item is not None and item["status"] not in OPEN


def enters_running(commit: Commit) -> bool:
    """A claim or a reclaim, whatever it calls itself: RUNNING under a new holder."""
    before, after = commit.before, commit.after
    if after is None or after["status"] != "RUNNING":
        return False
    if before is None or before["status"] != "RUNNING":
        return True
    return commit.arrow == "reclaim" or before.get("claim_token") != after.get("claim_token")


def given_back(commit: Commit) -> str | None:
    """How a worker's run went back to its queue unfinished: LEASE_EXPIRED or RELEASED; None for any other write."""
    before, after = commit.before, commit.after
    if before is None or after is None or (before["status"], after["status"]) != ("RUNNING", "RETRY_WAIT"):
        return None
    attempts = after.get("attempts") or ()
    outcome: str | None = attempts[-1].get("outcome") if attempts else None
    return outcome if outcome in (LOST, RELEASED) else None


def is_verb(commit: Commit) -> bool:
    """The creation, or an operator's verb (or a pause that ended by itself): what raises the version."""
    before, after = commit.before, commit.after
    return after is not None and (before is None or before.get("version") != after.get("version"))


def _bound(value: int | None) -> int:
    return NEVER if value is None else value
