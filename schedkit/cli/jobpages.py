"""Pages of jobs: what a list, one job, a create, a change and a verb print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from schedkit.cli import lists, show
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, raw
from schedkit.cli.runpages import run_line
from schedkit.cli.show import DASH
from schedkit.cli.values import now_ms
from schedkit.model.time import SECOND_MS, parse_rfc3339

Doc = Mapping[str, Any]

SCHEMA: Final = "schedkit.job/v1"
MOST_TOLD: Final = 3  # times in one line
SPEC_FIELDS: Final = (
    "name",
    "description",
    "schedule",
    "target",
    "payload",
    "priority",
    "dispatch_window_seconds",
    "retry_policy",
    "misfire_policy",
    "misfire_grace_seconds",
    "overlap_policy",
    "delivery",
    "region_policy",
    "labels",
    "max_runs",
    "expires_after_seconds",
)


def called(job: Doc) -> str:
    """What people call it: its name, or its id."""
    return str(job.get("name") or job.get("job_id"))


def target_text(job: Doc) -> str:
    return show.target(job.get("target") or {})


def mentions(job: Doc, text: str) -> bool:
    return any(text.lower() in raw(job.get(field)).lower() for field in ("name", "description", "job_id"))


def zone_of(me: Invocation, job: Doc) -> str | None:
    """The zone to show a job's times in: the one asked for, or the job's own."""
    own: str | None = (job.get("schedule") or {}).get("time_zone")
    return me.zone or own


def with_a_run(client: Any) -> Callable[..., Doc]:
    """Those of the jobs asked for that have a run in progress, as a page like any other."""
    running: set[str] = set()

    def page_of(*, cursor: str | None, limit: int, **filters: Any) -> Doc:
        if cursor is None:  # the first page, also of a list that is shown again
            running.clear()
            at: str | None = ""
            while at is not None:
                runs = client.list_runs(status=["RUNNING"], cursor=at or None, limit=lists.SERVER_PAGE)
                running.update(run["job_id"] for run in runs["items"])
                at = runs.get("next_cursor")
        page = client.list_jobs(cursor=cursor, limit=limit, **filters)
        return {**page, "items": [job for job in page["items"] if job["job_id"] in running]}

    return page_of


def job_items(me: Invocation, items: list[Doc], cursor: str | None, narrowed: str) -> Items:
    """The list of jobs."""
    now = now_ms()

    def due(job: Doc) -> str:
        return show.stamp(job.get("next_run_at"), me.zone)

    def away(job: Doc) -> str:
        return show.away(parse_rfc3339(job["next_run_at"]), now) if job.get("next_run_at") else DASH

    columns = (
        Column("NAME", "name", called),
        Column("STATUS", "status"),
        Column("NEXT RUN", "next_run_at", due),
        Column("IN", "", lambda job: away(job).removeprefix("in ")),
        Column("SCHEDULE", "schedule", lambda job: show.short_schedule(job.get("schedule") or {})),
        Column("TARGET", "target", target_text, cut=True),
        Column("PRIORITY", "priority"),
        Column("RUNS", "run_count", right=True),
        Column("JOB_ID", "job_id", wide=True),
        Column(
            "WINDOW", "dispatch_window_seconds", lambda job: show.seconds(job.get("dispatch_window_seconds")), wide=True
        ),
        Column("LABELS", "labels", lambda job: show.pairs(job.get("labels")), wide=True),
        Column("CREATED", "created_at", lambda job: show.stamp(job.get("created_at"), me.zone), wide=True),
    )
    tenant = f"tenant {me.context.tenant}" if me.context.tenant else ""
    scope = ", ".join(part for part in (tenant, narrowed) if part)
    empty = (
        f"no jobs match ({scope})  try: schedkit job list --all"
        if scope
        else f"no jobs yet  try: schedkit job create --name tea --in 30s --target {_some_target(me)}"
    )
    return Items(SCHEMA, items, columns, "job_id", empty, cursor, lists.more(cursor))


def _some_target(me: Invocation) -> str:
    """A target to try; the demo's are there only where no keys are asked for."""
    return "demo-echo" if me.context.auth == "none" else "https://host.example/path"


def job_page(me: Invocation, job: Doc, runs: int) -> One:
    """One job as a page."""
    zone, now = zone_of(me, job), now_ms()
    retry = job.get("retry_policy") or {}
    lines: list[str | tuple[str, str]] = [
        ("name", job.get("name") or DASH),
        ("job id", raw(job.get("job_id"))),
        ("status", raw(job.get("status"))),
    ]
    if job.get("status_reason"):
        lines.append(("because", job["status_reason"]))
    if job.get("pause_reason") or job.get("paused_until"):
        until = f"until {show.stamp(job['paused_until'], zone)}" if job.get("paused_until") else ""
        lines.append(("paused", "  ".join(part for part in (until, job.get("pause_reason")) if part)))
    lines += [
        ("schedule", show.full_schedule(job.get("schedule") or {})),
        ("next run", _next(job, zone, now)),
        *[("note", note) for note in job.get("notes") or ()],
        *([("window", _window(job))] if job.get("dispatch_window_seconds") else []),
        ("target", target_text(job)),
        *([("signed", signed)] if (signed := show.auth((job.get("target") or {}).get("auth"))) else []),
        *([("lease", _lease(job["target"]))] if "lease_seconds" in (job.get("target") or {}) else []),
        ("payload", raw(job.get("payload")) or DASH),
        ("priority", raw(job.get("priority"))),
        ("retries", _retries(retry)),
        ("misfire", f"{raw(job.get('misfire_policy'))}, later than {show.seconds(job.get('misfire_grace_seconds'))}"),
        ("overlap", raw(job.get("overlap_policy"))),
        ("delivery", raw(job.get("delivery"))),
        ("labels", show.pairs(job.get("labels"))),
        ("runs", f"{job.get('run_count', 0):,}"),
        ("created", show.stamp(job.get("created_at"), zone)),
        ("version", raw(job.get("version"))),
        *([("managed by", job["managed_by"])] if job.get("managed_by") else []),
    ]
    recent = (job.get("recent_runs") or [])[:runs]
    if recent:
        lines += ["", "last runs", *(f"  {run_line({**_known(job), **run}, zone)}" for run in recent)]
    return One(SCHEMA, job, lines, "job_id")


def _known(job: Doc) -> Doc:
    """What the lines of a job's runs say of the job."""
    return {"job_name": called(job), "task_queue": (job.get("target") or {}).get("task_queue")}


def _lease(target: Doc) -> str:
    """`30s from each heartbeat, 3h in all`."""
    timeout_s = target.get("timeout_seconds")
    total = f", {show.seconds(timeout_s)} in all" if timeout_s is not None else ""
    return f"{show.seconds(target['lease_seconds'])} from each heartbeat{total}"


def nothing_next(job: Doc) -> str:
    """Why a job has no next runs."""
    name, status = called(job), raw(job.get("status"))
    if status == "PAUSED":
        return f"{name} is paused: nothing runs before it is resumed  try: schedkit job resume {name}"
    ended = "" if status == "SCHEDULED" else f" is {status} and"
    return f"{name}{ended} has no further runs"


def spec_page(job: Doc) -> One:
    """What a create would need to make this job again."""
    spec = {field: job[field] for field in SPEC_FIELDS if job.get(field) not in (None, {}, [])}
    return One(SCHEMA, spec, [(field, raw(value)) for field, value in spec.items()], "name")


def _next(job: Doc, zone: str | None, now: int) -> str:
    if not job.get("next_run_at"):
        return DASH
    at = job["next_run_at"]
    return f"{show.long_stamp(at, zone)}, {show.away(parse_rfc3339(at), now)}"


def _window(job: Doc) -> str:
    from schedkit.engine.when.window import offset_ms

    window_ms = int(job["dispatch_window_seconds"] * SECOND_MS)
    return f"{show.compact(window_ms)}, its place {show.place(offset_ms(str(job['job_id']), window_ms))}"


def _retries(retry: Doc) -> str:
    if not retry:
        return DASH
    first, longest = retry.get("initial_backoff_seconds"), retry.get("max_backoff_seconds")
    return f"{retry.get('max_attempts')} tries, {show.seconds(first)} to {show.seconds(longest)} apart"


def created_page(me: Invocation, job: Doc, asked_target: str | None, *, replayed: bool) -> One:
    """What was made, when it runs, whom it calls, under which key, and what to do next."""
    zone, now, name = zone_of(me, job), now_ms(), called(job)
    schedule, at = job.get("schedule") or {}, job.get("next_run_at")
    once = schedule.get("type") == "ONCE"
    waits = (job.get("target") or {}).get("task_queue")
    ident = f" ({job['job_id']})" if job.get("name") else ""
    lines = [f"{'already created' if replayed else 'created'} job {name}{ident} in {me.context.name}"]
    if at:
        when = f"{show.long_stamp(at, zone)}, {show.away(parse_rfc3339(at), now)}"
        lines.append(f"  runs      {show.schedule(schedule)}, {'' if once else 'first '}{when}")
    else:
        lines.append(f"  runs      {show.schedule(schedule)}, {raw(job.get('status')).lower()}")
    lines += [f"  note      {note}" for note in job.get("notes") or ()]
    if job.get("dispatch_window_seconds"):
        lines.append(f"  window    {_window(job)}")
    lines += _called_lines(job, asked_target)
    if at:
        key = f"{job['job_id']}:{at}"
        gets = "the worker gets it with the task" if waits else "the target gets it as Idempotency-Key"
        lines.append(f"  key       {key}   {gets}, the same on each retry")
    if job.get("status") == "PAUSED":
        lines.append(f"next:  schedkit job resume {name}      schedkit job show {name}")
    else:
        does = f"schedkit worker list --queue {waits}" if waits else f"schedkit job cancel {name}"
        lines.append(f"next:  schedkit job runs {name} -w      {does}")
    return One(SCHEMA, job, [show.line(text) for text in lines], "job_id", exact=True)


def _called_lines(job: Doc, asked: str | None) -> list[str]:
    """Whom it calls, and how the calls are signed."""
    signed = show.auth((job.get("target") or {}).get("auth"))
    return [f"  target    {_called_target(job, asked)}", *([f"  signed    {signed}"] if signed else [])]


def _called_target(job: Doc, asked: str | None) -> str:
    """`demo-echo  POST http://…/_demo/echo`; the address only where the server tells it."""
    spec = job.get("target") or {}
    name = spec.get("target_id") or (asked if asked and "://" not in asked else None)
    if not name:
        return show.target(spec)
    return f"{name}  {spec.get('method', 'POST')} {spec.get('url') or spec.get('path') or ''}".rstrip()


def would_create(me: Invocation, body: Doc, due: Doc) -> One:
    first = (due.get("occurrences") or [{}])[0]
    lines = [f"would create job {body.get('name') or '(no name)'} in {me.context.name}"]
    if first.get("scheduled_for"):
        zone = me.zone or body["schedule"].get("time_zone")
        away = show.away(parse_rfc3339(first["scheduled_for"]), now_ms())
        when = f"{show.long_stamp(first['scheduled_for'], zone)}, {away}"
        lines.append(f"  runs      {show.schedule(body['schedule'])}, first {when}")
    lines += [f"  note      {note}" for note in first.get("notes") or ()]
    lines += _called_lines(body, None)
    return One("schedkit.job-dry-run/v1", dict(body), [show.line(text) for text in lines], "name", exact=True)


def verb_page(me: Invocation, job: Doc, said: str) -> One:
    """`paused digest, next run …` after a verb."""
    zone = zone_of(me, job)
    text = f"{said} {called(job)}"
    if job.get("paused_until") and job.get("status") == "PAUSED":
        text += f" until {show.stamp(job['paused_until'], zone)}"
    elif job.get("next_run_at") and job.get("status") == "SCHEDULED":
        text += f", next run {_next(job, zone, now_ms())}"
    return One(SCHEMA, job, [show.line(text)], "job_id", exact=True)


def skipped_page(me: Invocation, job: Doc, said: str) -> One:
    """`skipped digest Tue 2026-09-29 08:00:00 -04:00, next run …` after a skip-next."""
    zone, skipped = zone_of(me, job), job.get("skipped") or []
    times = [show.long_stamp(at, zone) for at in skipped]
    told = times if len(times) <= MOST_TOLD else [times[0], "…", f"{times[-1]} ({len(times)} runs)"]
    text = f"{said} {called(job)} {', '.join(told) or 'nothing: nothing of it is due'}"
    if job.get("next_run_at"):
        text += f"; next run {_next(job, zone, now_ms())}"
    elif skipped:
        text += "; nothing else of it is due" + (f": it is {job['status']}" if job["status"] != "SCHEDULED" else "")
    return One(SCHEMA, job, [show.line(text)], "job_id", exact=True)


def triggered_page(run: Doc, *, waits: bool) -> One:
    name = run.get("job_name") or run.get("job_id")
    lines = [f"triggered {name}: run {run.get('run_id')}"]
    if not waits:
        lines.append(f"next:  schedkit run wait {run.get('run_id')}")
    return One("schedkit.run/v1", run, [show.line(text) for text in lines], "run_id", exact=True)


# Differences

_MOVES: Final = (
    "version",
    "applied_version",
    "updated_at",
    "recent_runs",
    "run_count",
    "job_id",
    "created_at",
    "next_run_local",
    "dispatch_at",
)


def merged(before: Doc, changes: Doc) -> Doc:
    """The job as it would be; when it would run next is the server's to say."""
    return {**before, **changes}


def updated_page(me: Invocation, before: Doc, after: Doc, said: str) -> One:
    """The difference, field by field: `~ schedule.cron   0 8 * * * -> 0 7 * * *`."""
    zone = zone_of(me, after)
    old, new = _leaves(before, zone), _leaves(after, zone)
    if (before.get("schedule") or {}).get("type") != (after.get("schedule") or {}).get("type"):
        for leaves, job in ((old, before), (new, after)):  # field by field they have nothing in common
            for path in [path for path in leaves if path.startswith("schedule.")]:
                del leaves[path]
            leaves["schedule"] = show.full_schedule(job.get("schedule") or {})
    changed = [path for path in dict.fromkeys([*old, *new]) if old.get(path) != new.get(path)]
    changed = [path for path in changed if path.split(".")[0] not in _MOVES]
    width = max((len(path) for path in changed), default=0)
    lines = [f"{said} {called(after)}" + ("" if changed or said == "unchanged" else ": no difference")]
    lines += [f"  ~ {path:<{width}}   {old.get(path, DASH)} -> {new.get(path, DASH)}" for path in changed]
    return One(SCHEMA, after, [show.line(text) for text in lines], "job_id", exact=True)


def _leaves(doc: Doc, zone: str | None, prefix: str = "") -> dict[str, str]:
    """Every field that has a value, by its path, as text."""
    found: dict[str, str] = {}
    for name, value in doc.items():
        if isinstance(value, Mapping) and value and name != "payload":
            found |= _leaves(value, zone, f"{prefix}{name}.")
        elif name == "next_run_at" and value:
            found[prefix + name] = show.long_stamp(str(value), zone)
        elif value not in (None, {}, []):
            found[prefix + name] = raw(value)
    return found
