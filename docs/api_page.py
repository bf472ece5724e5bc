"""The page of the HTTP API, from the app's OpenAPI document, the bodies its routes read, and two sample answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import httpx

from docs.markdown import cell, plain
from schedkit import profiles
from schedkit.api.access import Auth
from schedkit.api.app import make_app
from schedkit.api.openapi import openapi
from schedkit.api.ops import Vitals
from schedkit.api.problems import MEDIA_TYPE
from schedkit.cli.explain import dictionary
from schedkit.model.keys import run_id, run_key
from schedkit.model.runs import Attempt, AttemptOutcome, Run, RunStatus, run_attributes
from schedkit.model.time import Instant, parse_rfc3339
from schedkit.model.writes import Absent, Write
from schedkit.roles.workers import Workers

Doc = Mapping[str, Any]

TITLES: Final = {
    "jobs": "Jobs",
    "workers": "Workers",
    "runs": "Runs",
    "dead letters": "Dead letters",
    "backfills": "Backfills",
    "schedules": "Schedules",
    "keys": "Keys",
    "audit": "The audit log",
    "operate": "Operating",
}
NOON: Final = parse_rfc3339("2026-09-28T12:00:00Z")
DAY_BEFORE: Final = parse_rfc3339("2026-09-27T15:00:00Z")
SAMPLE: Final = {
    "name": "digest",
    "schedule": {"type": "CRON", "cron": "0 8 * * *", "time_zone": "America/New_York"},
    "target": {"target_id": "demo-echo"},
    "payload": {"kind": "daily_digest"},
}
USUAL: Final = ("X-Request-Id", "Schedkit-Reason", "Schedkit-Tenant")  # of many calls; the page says so once
INTRO: Final = """\
# HTTP API

JSON in UTF-8. Times are RFC 3339; answers are in UTC, with `Z`. The same as OpenAPI 3.1 is at `/openapi.json`, and a
short page at `/docs`. What the values mean is in [contract.md](contract.md).

- `{ref}` is a job's id or its name. `{run_id}` is `<job_id>:<scheduled_for>`.
- A field that is not known is refused, by name. A string is no number and `true` is no 1.
- A body is `application/json`, at most 256 KiB; a payload is at most 64 KiB.
- A name is at most 128 characters; a job has at most 64 labels and 64 headers.
- Lists answer `{"items": [...], "next_cursor": ...}`. Ask again with `cursor` until it is null. A filtered list looks
  at 10,000 items at most before it answers with what it has found, so a page may be short or empty and still have a
  `next_cursor`.
- Every answer has `X-Request-Id`; one that you send (64 characters of `A-Za-z0-9_.-`) is kept.
- `Schedkit-Reason`, percent-encoded, says why; the audit log keeps it. `Schedkit-Tenant` is refused where it is not the
  key's.
- With `--auth api-key` a call has `Authorization: Bearer sk_…`, and its key the role that the route names, or a higher
  one. Without, the server listens on a loopback address only, and refuses requests that name another host (`Host`) or
  come from another page (`Origin`). Who may see what is in [security.md](security.md).
"""


def api_page() -> str:
    """Every route, what it takes and what it answers."""
    document, job, run = asyncio.run(_looked_at())
    lines = [INTRO, "## Routes", "", "| call | does |", "|---|---|"]
    lines += [
        f"| [`{method} {path}`](#{_anchor(method, path)}) | {it['summary']} |" for method, path, it in _calls(document)
    ]
    parts = document["components"]["schemas"]
    for tag, title in TITLES.items():
        lines += ["", f"## {title}"]
        for method, path, operation in _calls(document):
            if operation.get("tags", [""])[0] == tag:
                lines += ["", *_call(method, path, operation, parts)]
    lines += ["", "## Bodies", *_tables(parts, {name for _, _, it in _calls(document) if (name := _body_of(it))})]
    lines += ["", "## Answers", *_tables(parts, {name for _, _, it in _calls(document) for name in _shapes(it)})]
    lines += ["", "## A job as it is answered", "", "```json", json.dumps(job, indent=2), "```"]
    lines += ["", "## A run as it is answered", "", "```json", json.dumps(run, indent=2), "```"]
    return "\n".join([*lines, "", *_refusals(parts["Problem"])])


async def _looked_at() -> tuple[Doc, Doc, Doc]:
    """The OpenAPI document, a job and a run, from an app that is never served, at a time that stands still."""
    wired = profiles.embedded(None, registered={"demo-echo": "http://127.0.0.1:8700/_demo/echo"})
    world = replace(wired, clock=Standing(), chance=Standing())
    try:
        app = make_app(world, Vitals("embedded", "", 0, lambda: None, dict, bytes), Workers(world))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8700") as client:
            job = (await client.post("/v1/jobs", json=SAMPLE)).json()
            await world.store.apply(Write(run_key(job["job_id"], NOON), "sample", (Absent(),), _ran(job["job_id"])))
            run = (await client.get(f"/v1/runs/{run_id(job['job_id'], NOON)}")).json()
        return openapi(app, app.state.routes, Auth.API_KEY), job, run
    finally:
        await wired.targets.close()  # type: ignore[attr-defined]


class Standing:
    """A clock that stands still and chance that has no surprise, so that the page is the same each time."""

    def now(self) -> Instant:
        return DAY_BEFORE

    async def sleep(self, duration_ms: float) -> None: ...

    def draw(self) -> float:
        return 0.0

    def bytes(self, count: int) -> bytes:
        return bytes(range(count))


def _ran(job_id: str) -> dict[str, Any]:
    """A run of two attempts, as it is stored."""
    failed = Attempt(1, 1, NOON + 4, 4, NOON + 9, AttemptOutcome.FAILED, 503, "the target answered 503")
    done = Attempt(2, 2, NOON + 6_100, 2, NOON + 6_104, AttemptOutcome.SUCCEEDED, 200)
    return run_attributes(
        Run(
            job_id, NOON, RunStatus.SUCCEEDED, job_name="digest", due_at=NOON, epoch=2, attempt=2,
            attempts=(failed, done), result='{"status":"done"}', created_at=NOON + 4, finished_at=NOON + 6_104,
        )
    )  # fmt: skip


def _calls(document: Doc) -> Iterator[tuple[str, str, Doc]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _call(method: str, path: str, operation: Doc, parts: Doc) -> list[str]:
    lines = [f"### {method} {path}", "", f"{operation['summary']}."]
    if description := operation.get("description"):
        lines += ["", " ".join(description.split())]
    if parameters := [it for it in operation.get("parameters", ()) if it["name"] not in USUAL]:
        lines += ["", "| parameter | in | type and limits | default |", "|---|---|---|---|"]
        for it in parameters:
            schema = it["schema"]
            shown, described = _type(schema, parts), it.get("description", "")
            shown += f" ({described})" if described not in shown else ""
            lines.append(f"| `{it['name']}` | {it['in']} | {shown} | {_default(schema, it.get('required', False))} |")
    if body := _body_of(operation):
        optional = "" if operation["requestBody"].get("required") else "; it may be left out"
        lines += ["", f"Body: [{body}](#{body.lower()}){optional}."]
    if "x-audit" in operation:
        lines += ["", f"The audit log calls it `{operation['x-audit']}`."]
    lines += ["", f"Role: {operation['x-role'] or 'none, it is open to anybody'}."]
    answers = [status for status in operation["responses"] if status < "4" or not _refused(operation, status)]
    refusals = [status for status in operation["responses"] if status not in answers]
    shapes = " or ".join(f"[{name}](#{name.lower()})" for name in _shapes(operation))
    note = f" {NOTES[method, path]}" if (method, path) in NOTES else ""
    lines += ["", f"Answers {', '.join(answers)}{f' with {shapes}' if shapes else ''}.{note}"]
    return [*lines, "", f"Refuses with {', '.join(refusals)}."]


def _refused(operation: Doc, status: str) -> bool:
    return MEDIA_TYPE in operation["responses"][status].get("content", {})


def _shapes(operation: Doc) -> list[str]:
    """The names of what a call answers, refusals left out."""
    contents = [answer.get("content", {}).get("application/json") for answer in operation["responses"].values()]
    return list(dict.fromkeys(name for content in contents if content for name in _refers_to(content["schema"])))


NOTES: Final = {
    ("POST", "/v1/jobs"): (
        "Under an `Idempotency-Key` that was used within 24 hours: 200, the job that it made, and"
        " `Idempotent-Replayed: true`; with another body 422 IDEMPOTENCY_KEY_REUSED."
    ),
    ("POST", "/v1/jobs:batchCreate"): "In the order of the entries; one that is refused does not stop the others.",
    ("GET", "/v1/jobs"): "Newest id first.",
    ("POST", "/v1/jobs/{ref}:trigger"): "The run has not started yet.",
    ("PATCH", "/v1/jobs/{ref}"): "`If-Match` is the `version` you read; another one is 409 VERSION_CONFLICT.",
    ("DELETE", "/v1/jobs/{ref}"): "The same when it is repeated.",
    ("POST", "/v1/runs/{run_id}:cancel"): "409 RUN_FINISHED when it has ended otherwise.",
    ("POST", "/v1/keys"): "No other answer has the `secret`. Repeating it makes another key.",
    ("DELETE", "/v1/keys/{key_id}"): "The same when it is repeated.",
    ("POST", "/v1/schedules:preview"): "Fewer than `count` where the schedule ends.",
    ("GET", "/metrics"): "Prometheus text; see [operating.md](operating.md).",
}


def _tables(parts: Doc, wanted: Iterable[str]) -> Iterator[str]:
    """One table for each of these objects, and for each object inside one."""
    names = sorted(wanted)
    for name in names:  # grows while it is read: what stands inside comes after what it stands in
        for inner in _refers_to(parts[name]):
            if inner not in names and "properties" in parts[inner]:
                names.append(inner)
        yield from ("", f"### {name}", "")
        if description := parts[name].get("description"):
            yield from (" ".join(description.split()), "")
        yield from ("| field | type and limits | default |", "|---|---|---|")
        for field, it in parts[name]["properties"].items():
            required = field in parts[name].get("required", ())
            yield f"| `{field}` | {_type(it, parts)} | {_default(it, required)} |"


def _body_of(operation: Doc) -> str | None:
    """The name of the model that a call's body is read as."""
    content = operation.get("requestBody", {}).get("content", {})
    return _named(content["application/json"]["schema"]) if content else None


def _named(schema: Doc) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _refers_to(schema: Any) -> Iterator[str]:
    """Every model that a schema names."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield _named(schema)
        for value in schema.values():
            yield from _refers_to(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _refers_to(value)


def _type(schema: Doc, defs: Doc | None = None) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = _named(schema)
        part = (defs or {}).get(name, {})
        if "enum" in part:
            return _type(part)
        return f"[{name}](#{name.lower()})" if part or defs is None else f"`{name}`"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " / ".join(f"`{value}`" for value in schema["enum"])
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(_type(part, defs) for part in schema[word])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema['items'], defs) if schema.get('items') else 'entries'}{_limits(schema)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'], defs)}"
    described = schema.get("description", "a time" if schema.get("format") == "date-time" else "")
    return f"{kind}{_limits(schema)}{f', {described}' if described else ''}"


def _limits(schema: Doc) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    parts = []
    if low is not None and high is not None:
        parts.append(f"{low:,} to {high:,}")
    elif low is not None or high is not None:
        parts.append(f"at least {low:,}" if low is not None else f"at most {high:,}")
    if "maxLength" in schema:
        parts.append(f"at most {schema['maxLength']:,} characters")
    if "maxItems" in schema:
        parts.append(f"{schema.get('minItems', 0)} to {schema['maxItems']} entries")
    if "pattern" in schema:
        parts.append("matching `" + schema["pattern"].replace("|", "\\|") + "`")
    return f" ({', '.join(parts)})" if parts else ""


def _default(schema: Doc, required: bool) -> str:
    if required:
        return "required"
    return f"`{json.dumps(schema['default'])}`" if schema.get("default") is not None else "none"


def _anchor(method: str, path: str) -> str:
    kept = "".join(letter for letter in f"{method} {path}".lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _refusals(problem: Doc) -> list[str]:
    """The shape of a refusal, and every reason with its status."""
    lines = [
        "## Refusals",
        "",
        "`application/problem+json` (RFC 9457). `reason` is stable; the texts are not. `why` says the rule behind it,",
        "`fix` what to do. Never a stack trace.",
        "",
        "| field | type |",
        "|---|---|",
    ]
    required = problem["required"]
    for name, schema in problem["properties"].items():
        kind = "one of the reasons below" if "enum" in schema else _type(schema)
        lines.append(f"| `{name}` | {kind}{'' if name in required else ', where it applies'} |")
    lines += ["", "| status | reason | meaning |", "|---|---|---|"]
    found = [
        (entry["http_status"], word, entry["means"]) for word, entry in dictionary().items() if "http_status" in entry
    ]
    lines += [
        f"| {status} | {word} | {cell(plain(means))} |" for status, word, means in sorted(found, key=lambda row: row[0])
    ]
    return lines
