"""Pages of files: what is wrong in them, what an apply would change, and what it did.

~ digest         cron   "0 8 * * *" -> "0 7 * * *"
                 next   Mon 08:00 EDT -> Mon 07:00 EDT      UTC 12:00 -> 11:00
+ settle-cards   every 5m, CRITICAL strict
- old-report     would be cancelled; its next run was Mon 08:00 UTC
! purge-carts    was changed by hand on Fri 2026-05-29 (paused): apply would resume it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedkit.cli import show, values
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, View, raw
from schedkit.cli.show import DASH, count
from schedkit.errors import SchedkitError
from schedkit.files import plan as plans
from schedkit.files.documents import spec_of
from schedkit.files.jobfile import JobFile
from schedkit.files.keys import BY_NAME
from schedkit.files.plan import Action, Step
from schedkit.model.time import Instant, parse_rfc3339

SCHEMA: Final = "schedkit.job-plan/v1"
MARKS: Final = {Action.ADD: "+", Action.CHANGE: "~", Action.REMOVE: "-", Action.TAKEN: "!", Action.OVER: " "}
TIMED: Final = ("cron", "every", "at", "tz", "day_rule", "anchor", "start", "end", "dst_gap", "dst_overlap")
WIDEST_NAME: Final = 40


def problems_page(me: Invocation, files: Sequence[JobFile]) -> View:
    """What is wrong in the files, or that nothing is."""
    found = [problem for file in files for problem in file.problems]
    if me.for_people and not me.style.fields:
        jobs = sum(len(file.jobs) for file in files)
        fine = f"{', '.join(file.file for file in files)}: {count(jobs, 'job')}, no mistakes"
        lines = [show.line(str(problem)) for problem in found] or [fine]
        return One("schedkit.job-file/v1", {}, lines, exact=True)
    items = [
        {
            "file": file.file,
            "managed_by": file.managed_by,
            "jobs": [job.name for job in file.jobs],
            "problems": [problem.document() for problem in file.problems],
        }
        for file in files
    ]
    columns = tuple(Column(name.upper(), name) for name in ("file", "managed_by", "jobs", "problems"))
    return Items("schedkit.job-file/v1", items, columns, "file", "no files")


def plan_page(me: Invocation, steps: Sequence[Step], results: Mapping[str, str] | None = None) -> One:
    """What is to be done; with `results`, by name, what became of it."""
    now = values.now_ms()
    told = [step for step in steps if step.action is not Action.KEEP]
    lines: list[str | tuple[str, str]] = []
    if me.for_people:
        width = min(WIDEST_NAME, max((len(step.name) for step in told), default=0))
        lines += [show.line(text) for step in told for text in _lines(me, step, now, width)]
        lines.append(summary(steps))
    items = [_item(step, now) | ({"result": results.get(step.name)} if results is not None else {}) for step in told]
    counts = {action.value: sum(step.action is action for step in steps) for action in Action}
    doc = {"steps": items, "counts": counts | {"to_look_at": sum(step.to_look_at for step in steps)}}
    return One(SCHEMA, doc, lines, exact=True)


def summary(steps: Sequence[Step]) -> str:
    """`1 to change, 1 to add, 0 to remove, 1 to look at`, or that there is nothing to do."""
    number = {action: sum(step.action is action for step in steps) for action in Action}
    look_at = sum(step.to_look_at for step in steps)
    if not any(step.acts for step in steps) and not look_at:
        over = f", {number[Action.OVER]} over" if number[Action.OVER] else ""
        return f"nothing to do: {count(number[Action.KEEP], 'job')} as the files say{over}"
    return (
        f"{number[Action.CHANGE]} to change, {number[Action.ADD]} to add, {number[Action.REMOVE]} to remove, "
        f"{look_at} to look at"
    )


def _lines(me: Invocation, step: Step, now: Instant, width: int) -> list[str]:
    mark = "!" if step.by_hand else MARKS[step.action]
    texts = _texts(me, step, now)
    first, *rest = texts or [step.note or "is as the file says"]
    return [f"{mark} {step.name:<{width}}   {first}", *(f"  {'':<{width}}   {text}" for text in rest)]


def _texts(me: Invocation, step: Step, now: Instant) -> list[str]:
    match step.action:
        case Action.ADD if step.wanted is not None:
            return [_made(step.wanted), *_due(me, step, now)]
        case Action.REMOVE if step.job is not None:
            zone = _zone(me, step.job["schedule"])
            due = step.job.get("next_run_at")
            return [f"would be cancelled; its next run was {_moment(due, zone)}" if due else "would be cancelled"]
        case Action.CHANGE:
            return _changed(me, step, now)
        case _:
            return [step.note]


def _made(wanted: Mapping[str, Any]) -> str:
    words = [show.full_schedule(wanted["schedule"])]
    if wanted["priority"] != "DEFAULT":
        words[0] += f", {wanted['priority']}" + ("" if wanted["dispatch_window_seconds"] else " strict")
    if wanted["dispatch_window_seconds"]:
        words.append(f"within {show.seconds(wanted['dispatch_window_seconds'])}")
    return ", ".join([*words, *(["paused"] if wanted["paused"] else [])])


def _changed(me: Invocation, step: Step, now: Instant) -> list[str]:
    differences = step.differences()
    lines = [step.note] if step.note else []
    if step.by_hand and step.job is not None:
        lines.append(_by_hand(me, step, differences))
        differences = {key: pair for key, pair in differences.items() if key != "paused"}
    width = max((len(key) for key in differences), default=4)
    lines += [f"{key:<{width}}   {_said(key, old)} -> {_said(key, new)}" for key, (old, new) in differences.items()]
    return [*lines, *(_due(me, step, now, width) if set(differences) & set(TIMED) else [])]


def _by_hand(me: Invocation, step: Step, differences: Mapping[str, Any]) -> str:
    assert step.job is not None, "a hand changed what there is"
    at = values.local(parse_rfc3339(step.job["updated_at"]), me.zone)
    day = f"{show.DAYS[at.weekday()]} {at:%Y-%m-%d}"
    if "paused" not in differences:
        return f"was changed by hand on {day}: apply would set it back"
    paused = spec_of(step.job)["paused"]
    did, undo = ("paused", "resume") if paused else ("resumed", "pause")
    return f"was changed by hand on {day} ({did}): apply would {undo} it"


def _said(key: str, value: Any) -> str:
    if value is None:
        return BY_NAME[key].default or DASH
    return f'"{value}"' if key == "cron" else raw(value)


def _due(me: Invocation, step: Step, now: Instant, width: int = 4) -> list[str]:
    """The next run, and where it was before; in UTC too, where the zone is another."""
    assert step.wanted is not None, "only what a file says is due"
    schedule = step.wanted["schedule"]
    zone = _zone(me, schedule)
    after = plans.next_run(step.wanted, now)
    label = f"{'next':<{width}}   "
    if step.job is None or step.action is Action.ADD:
        return [f"{label}{_moment(after, zone)}"] if after else []
    before = step.job.get("next_run_at")
    line = f"{label}{_moment(before, _zone(me, step.job['schedule']))} -> {_moment(after, zone)}"
    if zone != "UTC" and before and after:
        line += f"      UTC {_clock(before)} -> {_clock(after)}"
    return [line]


def _zone(me: Invocation, schedule: Mapping[str, Any]) -> str:
    return me.zone or schedule.get("time_zone") or "UTC"


def _moment(text: str | None, zone: str) -> str:
    return show.wall(text, zone) if text else DASH


def _clock(text: str) -> str:
    return show.wall(text, "UTC").split()[2]


def _item(step: Step, now: Instant) -> dict[str, Any]:
    before = step.job.get("next_run_at") if step.job is not None else None
    after = plans.next_run(step.wanted, now) if step.wanted is not None and step.acts else None
    return {
        "action": step.action.value,
        "name": step.name,
        "job_id": step.job["job_id"] if step.job is not None else None,
        "managed_by": step.managed_by,
        "by_hand": step.by_hand,
        "note": step.note or None,
        "changes": {key: {"from": old, "to": new} for key, (old, new) in step.differences().items()},
        "next_run": {"from": before, "to": after},
    }


def conflict(name: str, error: SchedkitError) -> SchedkitError:
    """An error of one call, with the job it is about in front."""
    if name not in error.detail:
        error.detail = f"{name}: {error.detail}"
    return error
