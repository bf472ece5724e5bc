"""What an apply has to do, as a value: the jobs of the files beside the jobs of the server.

    the file says it   the server has                                       action
    yes                nothing of that name, or one that was cancelled      ADD
    yes                one that ended otherwise, as the file says it        OVER
    yes                one that ended otherwise, and the file says another  ADD
    yes                one of ours, as the file says it                     KEEP
    yes                one of ours, otherwise                               CHANGE; `by_hand` where a hand was here
    yes                one that is not ours                                 TAKEN, or CHANGE with take_over
    no                 one of ours                                          REMOVE, with prune

Each action is one or two calls, and each call is conditional: on the version that was read, or on a key that follows
from what is asked. So a second apply finds nothing to do, one that was cut off is completed by the next, and whoever
changes a job in between is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

from schedkit.engine.when import occurrences
from schedkit.errors import InvalidInput
from schedkit.files.documents import DEFAULTS, Document, entry_of, spec_of
from schedkit.files.jobfile import FileJob, JobFile
from schedkit.files.keys import KEYS
from schedkit.model.jobs import JobStatus
from schedkit.model.schedules import Cron, DayRule, GapPolicy, Interval, Once, RepeatPolicy, Schedule
from schedkit.model.time import SECOND_MS, Instant, parse_rfc3339, rfc3339

Job = Mapping[str, Any]  # as the server shows it

COMPARED: Final = ("schedule", "target", *(name for name in DEFAULTS if name != "paused"))
FIRST_VERSION: Final = 1  # of a job that was just made


class Action(StrEnum):
    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"
    KEEP = "keep"
    OVER = "over"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the API: create, update, pause, resume or cancel. `version` or `key` is its condition."""

    verb: str
    body: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done about one job. `job` is the server's, `wanted` the file's; `note` says what is odd."""

    action: Action
    name: str
    managed_by: str
    wanted: Document | None = None
    job: Job | None = None
    by_hand: bool = False
    note: str = ""

    @property
    def acts(self) -> bool:
        return self.action in (Action.ADD, Action.CHANGE, Action.REMOVE)

    @property
    def to_look_at(self) -> bool:
        return self.by_hand or self.action is Action.TAKEN

    def differences(self) -> dict[str, tuple[Any, Any]]:
        """What differs, in the words of a file: key → (as the server has it, as the file says it)."""
        if self.wanted is None or self.job is None:
            return {}
        old, new = entry_of(_comparable(spec_of(self.job), self.wanted)), entry_of(self.wanted)
        return {
            key.name: (old.get(key.name), new.get(key.name)) for key in KEYS if old.get(key.name) != new.get(key.name)
        }

    def calls(self) -> list[Call]:
        """The calls that do it, in order; each knows the version that the one before it leaves."""
        match self.action:
            case Action.ADD:
                return [create(self)]
            case Action.CHANGE:
                return _changes(self)
            case Action.REMOVE if self.job is not None:
                return [Call("cancel", version=self.job["version"])]
            case _:
                return []


def plan(
    files: Sequence[JobFile],
    found: Mapping[str, Job],
    kept: Iterable[Job],
    now: Instant,
    *,
    selects: Callable[[Mapping[str, str]], bool] = lambda labels: True,
    take_over: bool = False,
    prune: bool = False,
) -> list[Step]:
    """Every step. `found` is the server's job of each name, `kept` the jobs that are managed by these files; `selects`
    says by its labels whether a job is meant."""
    ours = {str(file.managed_by) for file in files}
    steps = [
        _step(job, str(file.managed_by), found.get(job.name), ours, now, take_over=take_over)
        for file in files
        for job in file.jobs
        if selects(job.document["labels"])
    ]
    named = {job.name for file in files for job in file.jobs}
    if prune:
        for job in sorted(kept, key=lambda one: str(one["name"])):
            stays = job["name"] in named or JobStatus(job["status"]).ended or not selects(job["labels"])
            if not stays and job["managed_by"] in ours:
                steps.append(Step(Action.REMOVE, job["name"] or job["job_id"], job["managed_by"], job=job))
    return steps


def _step(said: FileJob, owner: str, job: Job | None, ours: set[str], now: Instant, *, take_over: bool) -> Step:
    wanted = said.document
    if job is None or JobStatus(job["status"]).ended:
        ended = job["status"] if job is not None else None
        if job is not None and ended != JobStatus.CANCELLED and not _differs(job, wanted):
            note = f"has ended: {ended}; it starts again when its entry changes"
            return Step(Action.OVER, said.name, owner, wanted, job, note=note)
        if (passed := _passed(wanted, now)) is not None:
            return Step(Action.OVER, said.name, owner, wanted, job, note=f"is not made: {passed}")
        return Step(Action.ADD, said.name, owner, wanted, job)
    differs = _differs(job, wanted) or spec_of(job)["paused"] != wanted["paused"]
    if job["managed_by"] not in ours:
        if not take_over:
            by = f"is managed by {job['managed_by']}" if job["managed_by"] else "was made otherwise"
            return Step(Action.TAKEN, said.name, owner, wanted, job, note=f"{by}: --take-over lets {owner} keep it")
        return Step(Action.CHANGE, said.name, owner, wanted, job, note=f"{owner} takes it over")
    if not differs and job["managed_by"] == owner:
        return Step(Action.KEEP, said.name, owner, wanted, job)
    by_hand = differs and job["applied_version"] != job["version"]
    moved = "" if job["managed_by"] == owner else f"moves here from {job['managed_by']}"
    return Step(Action.CHANGE, said.name, owner, wanted, job, by_hand, moved)


def _differs(job: Job, wanted: Document) -> bool:
    have = _comparable(spec_of(job), wanted)
    return any(have[name] != wanted[name] for name in COMPARED)


def _comparable(have: Document, wanted: Document) -> Document:
    """What the server has, without what it filled in itself and the file does not speak of."""
    schedule, target = dict(have["schedule"]), dict(have["target"])
    if wanted["schedule"]["type"] == "INTERVAL" and "anchor_at" not in wanted["schedule"]:
        schedule.pop("anchor_at", None)
    return {**have, "schedule": schedule, "target": target}


def _passed(wanted: Document, now: Instant) -> str | None:
    """Why a job could not be made any more; None where it could."""
    schedule = schedule_of(wanted["schedule"], now)
    try:
        if isinstance(schedule, Once):
            occurrences.refuse_past(schedule, now)
        occurrences.check(schedule, min(now, schedule.run_at - 1) if isinstance(schedule, Once) else now)
    except InvalidInput as refusal:
        return refusal.detail
    return None


def schedule_of(schedule: Mapping[str, Any], now: Instant) -> Schedule:
    """A schedule of the API as a value of the calendar; an interval without an anchor counts from `now`."""
    bounds = {name: parse_rfc3339(schedule[name]) if name in schedule else None for name in ("start_at", "end_at")}
    gap = GapPolicy(schedule.get("dst_gap_policy", GapPolicy.FIRST_VALID))
    repeat = RepeatPolicy(schedule.get("dst_overlap_policy", RepeatPolicy.FIRST))
    match schedule["type"]:
        case "CRON":
            rule = DayRule(schedule.get("day_rule", DayRule.OR))
            return Cron(schedule["cron"], schedule["time_zone"], gap, repeat, rule, **bounds)
        case "ONCE":
            return occurrences.resolve_once(schedule["run_at"], schedule.get("time_zone"), gap, repeat)[0]
        case _:
            anchor = parse_rfc3339(schedule["anchor_at"]) if "anchor_at" in schedule else now
            return Interval(round(schedule["every_seconds"] * SECOND_MS), anchor, **bounds)


def next_run(document: Document, now: Instant) -> str | None:
    """When the job of a document would be due next, were it made or changed now."""
    if document["paused"]:
        return None
    schedule = schedule_of(document["schedule"], now)
    due = occurrences.next_after(schedule, min(now, schedule.run_at - 1) if isinstance(schedule, Once) else now)
    return rfc3339(due.scheduled_for) if due is not None else None


# Calls


def create(step: Step, after: str | None = None) -> Call:
    """The create of a step. Its key follows from what is asked and from the job that stood here before (`after`, or the
    ended one that was found), so that a repeat makes no second job, and a name that is free again makes a new one."""
    assert step.wanted is not None, "only what a file says is made"
    before = after or (step.job["job_id"] if step.job is not None else None)
    meant = json.dumps([step.managed_by, step.wanted, before], sort_keys=True)
    key = f"apply-{blake2b(meant.encode(), digest_size=16).hexdigest()}"
    body = {name: value for name, value in step.wanted.items() if value is not None}
    return Call("create", {**body, "managed_by": step.managed_by, "applied_version": FIRST_VERSION}, key=key)


def _changes(step: Step) -> list[Call]:
    assert step.wanted is not None, "only what a file says is changed"
    assert step.job is not None, "only what there is is changed"
    have, wanted = _comparable(spec_of(step.job), step.wanted), step.wanted
    version = int(step.job["version"])
    body = {name: wanted[name] for name in COMPARED if have[name] != wanted[name]}
    flips = have["paused"] != wanted["paused"]
    body |= {"managed_by": step.managed_by, "applied_version": version + (2 if flips else 1)}
    if not flips:
        return [Call("update", body, version)]
    if wanted["paused"]:  # first of all it stops, so that nothing runs by a schedule that was never to run
        return [Call("pause", version=version), Call("update", body, version + 1)]
    return [Call("update", body, version), Call("resume", version=version + 1)]
