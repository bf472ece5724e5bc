"""Reading: one pass over the events of a history, each put where the checks look for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from schedkit.model.time import Instant
from schedkit.sim.checker.facts import NEVER, Asked, Call, Commit, Facts, JobFacts, Refusal, enters_running, is_verb
from schedkit.sim.history import Event

JOB_PREFIX: Final = "JOB#"
RUN_PREFIX: Final = "RUN#"
KEY_PREFIX: Final = "KEY#"
REDRIVE_PREFIX: Final = "REDRIVE#"
BACKFILL_PREFIX: Final = "BACKFILL#"
DOWN: Final = frozenset({"kill", "crash", "stop"})
STORE: Final = frozenset({"store", "disk"})  # what an outage of the store goes by


def read_facts(events: Iterable[Event]) -> Facts:
    """The facts of these events, in the order in which they come."""
    facts = Facts()
    readers = {
        "store.commit": _commit,
        "target.call": _call,
        "target.effect": _effect,
        "target.reply": _reply,
        "store.refused": _refused,
        "nemesis": _nemesis,
        "api.invoke": _invoked,
        "api.ok": _heard,
        "api.fail": _heard,
        "api.info": _heard,
    }
    order = 0
    last: Event | None = None
    for order, event in enumerate(events, 1):
        kind = event["kind"]
        reader = readers.get(kind)
        last = event
        if reader is not None:
            reader(facts, order, event)
        elif kind == "begin":
            facts.header, facts.begin_at = event, event["t"]
        elif kind == "bug":
            facts.bugs.append((event["t"], event["node"], str(event.get("error"))))
        elif kind == "heal":
            facts.heal_at = event["t"]
            for what in facts.troubles:
                _over(facts, what, event["t"])
    facts.events = order
    facts.end_at = last["t"] if last is not None else 0
    return facts


def _commit(facts: Facts, order: int, event: Event) -> None:
    partition, sort = event["partition"], event["sort"]
    before, after = event.get("before"), event.get("after")
    commit = Commit(
        order, event["t"], event["node"], event["arrow"], before, after,
        event.get("tag"), event.get("own"), event.get("batch"),
    )  # fmt: skip
    if not partition.startswith(JOB_PREFIX):
        if partition.startswith(KEY_PREFIX):
            facts.keys.setdefault((partition, sort), []).append(commit)
        elif partition.startswith(REDRIVE_PREFIX):
            facts.redrives.setdefault(sort, []).append(commit)
        elif partition.startswith(BACKFILL_PREFIX):
            facts.backfills.setdefault(sort, []).append(commit)
        return
    job_id = partition[len(JOB_PREFIX) :]
    job = facts.jobs.get(job_id)
    if job is None:
        job = facts.jobs[job_id] = JobFacts(job_id)
    if not sort.startswith(RUN_PREFIX):
        _job_commit(job, commit)
        return
    if job.commits:
        latest = job.commits[-1]
        same = commit.batch is not None and latest.batch == commit.batch
        commit.job = latest.before if same else latest.after
    run = facts.run(job_id, int(sort[len(RUN_PREFIX) :]))
    run.commits.append(commit)
    if commit.arrow.startswith("redrive"):
        run.redrives.append(commit)
    elif commit.arrow == "backfill":
        run.backfills.append(commit)
    if enters_running(commit) and after is not None:
        run.claims.setdefault(after.get("epoch", 0), commit)


def _job_commit(job: JobFacts, commit: Commit) -> None:
    job.commits.append(commit)
    job.orders.append(commit.order)
    after = commit.after
    if after is None:
        return
    if commit.before is None or commit.before.get("schedule") != after.get("schedule"):
        job.schedules.append((commit.t, after["schedule"], after.get("counted_from") or 0))
    if is_verb(commit):
        job.settings.append(after)
    if after.get("held") is not None:
        job.held.add(after["held"])
    if after.get("catch_up") is not None:
        job.catch_ups.add(after["catch_up"])


def _call(facts: Facts, order: int, event: Event) -> None:
    run = facts.run(event["job"], event["scheduled_for"])
    call = Call(
        order, event["t"], event["node"], event["key"], run, event["token"], event["attempt"],
        event.get("timeout_ms") or 0, event.get("own"), event.get("url") or "",
    )  # fmt: skip
    facts.calls.append(call)
    run.calls.append(call)
    facts.called[event["call"]] = call


def _effect(facts: Facts, order: int, event: Event) -> None:
    call = facts.called.get(event["call"])
    if call is not None and call.effect_at is None:
        call.effect_at = event["t"]


def _reply(facts: Facts, order: int, event: Event) -> None:
    call = facts.called.get(event["call"])
    if call is not None:
        call.replied_at, call.status = event["t"], event.get("status")
        call.retry_after_ms = event.get("retry_after_ms")


def _refused(facts: Facts, order: int, event: Event) -> None:
    facts.refusals.append(Refusal(event["t"], event["node"], event.get("tag"), event.get("epoch")))


def _nemesis(facts: Facts, order: int, event: Event) -> None:
    fault, on, t = event["fault"], event.get("on"), event["t"]
    facts.faults[fault] = facts.faults.get(fault, 0) + 1
    if on is None:
        return
    if fault in DOWN:
        facts.downs.setdefault(on, []).append((t, fault))
    match fault:
        case "boot":
            facts.boots.setdefault(on, []).append(t)
            _over(facts, f"stop {on}", t)
        case "stop":
            _begins(facts, f"stop {on}", t)
        case "cont" | "kill":
            _over(facts, f"stop {on}", t)
        case "down" if on in STORE:
            _begins(facts, "outage", t)
        case "up" if on in STORE:
            _over(facts, "outage", t)
        case "cut" if event.get("server") == "store":
            _begins(facts, f"cut {on}", t)
        case "joined" if event.get("server") == "store":
            _over(facts, f"cut {on}", t)
        case "crash":
            point = f"{event.get('point')} {event.get('verb')}"
            facts.crash_points[point] = facts.crash_points.get(point, 0) + 1
        case "delayed":
            facts.delays.setdefault(on, []).append(t)
        case "skew":
            _clock_set(facts, on, t, event)


def _begins(facts: Facts, what: str, t: Instant) -> None:
    facts.troubles.setdefault(what, []).append((t, NEVER))


def _over(facts: Facts, what: str, t: Instant) -> None:
    spans = facts.troubles.get(what)
    if spans and spans[-1][1] == NEVER:
        spans[-1] = spans[-1][0], t


def _clock_set(facts: Facts, on: str, t: Instant, event: Event) -> None:
    """How far the clock jumped: from where it had drifted to, to where it was set."""
    was: Any = facts.skews.get(on) or {"t": t, "offset_ms": 0, "drift_ppm": 0}
    drifted_ms = (t - was["t"]) * (was.get("drift_ppm") or 0) / 1_000_000
    jump_ms = event["offset_ms"] - was["offset_ms"] - drifted_ms
    facts.clocks.setdefault(on, []).append((t, jump_ms))
    facts.skews[on] = event


def _invoked(facts: Facts, order: int, event: Event) -> None:
    asked = Asked(
        order, event["t"], event["op"], event.get("job"), event.get("idempotency_key"), event.get("body") or {}
    )
    facts.api.append(asked)
    facts.asked[event["call"]] = asked


def _heard(facts: Facts, order: int, event: Event) -> None:
    asked = facts.asked.get(event["call"])
    if asked is None:
        return
    asked.heard, asked.heard_at, asked.heard_order = event["kind"].removeprefix("api."), event["t"], order
    asked.job_id = event.get("job")
    doc = event.get("doc")
    asked.doc = doc if isinstance(doc, dict) else {}
