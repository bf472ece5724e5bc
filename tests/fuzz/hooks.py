"""What schemathesis is told about this API: read by it alone, as `hooks` of schemathesis.toml.

Half of the things that a path names are made to be there, since a drawn name never is. No poll waits long. Each call
comes from an address of its own, so that those who knock without a key are not slowed down by each other.
"""

from __future__ import annotations

import json
import os
from itertools import count
from typing import Any, Final
from zlib import crc32

import schemathesis
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from schedkit.engine.when import zones
from schedkit.model.time import rfc3339

NAMES: Final[dict[str, list[str]]] = json.loads(os.environ.get("SCHEDKIT_FUZZ_NAMES", "{}"))
LONGEST_POLL_S: Final = 0.05

# A request that is as the document says is refused only by a rule that no JSON schema can state. These are the rules.
RULES: Final = {
    "INVALID_CRON": "a cron has a grammar",
    "CRON_NEVER_FIRES": "30 February is well formed",
    "NO_FURTHER_OCCURRENCE": "a schedule may have ended before it begins",
    "INVALID_TIME_ZONE": "zones are a list of 600 names that changes with the zone data",
    "INVALID_RUN_AT": "a wall time, or RFC 3339, of a day that exists",
    "RUN_AT_IN_PAST": "it depends on the time of asking",
    "OFFSET_NOT_IN_ZONE": "it depends on the zone",
    "INVALID_JSON": "numbers that a double would change",
    "INVALID_HEADER": "names of headers, and which of them are ours",
    "TARGET_NOT_ALLOWED": "addresses that may not be called",
}
FIELDS: Final = {
    "cursor": "one that a list gave",
    "name": "printable, as Unicode says",
    "labels.": "printable, as Unicode says, and no =",
    "target": "a url or a target_id; a host has a grammar; path and auth go with one of them",
    "schedule.time_zone": "a wall time needs one",
    "schedule.end_at": "later than start_at",
    "expires_after_seconds": "longer than the window",
    "filter.run_ids": "ids of runs",
    "failed_before": "not before failed_after",
    "until": "ahead of now, to pause until then; later than since, and few occurrences between them, in a ledger",
    "from": "of a backfill: 30 days back at the earliest",
    "to": "of a backfill: later than from, and few occurrences between them",
    "as_of": "not ahead of now",
    "error": "goes with FAILED",
    "retryable": "goes with FAILED",
    "retry_after_seconds": "goes with FAILED",
}
TIMES: Final = frozenset(
    {"since", "until", "from", "to", "due_before", "failed_after", "failed_before", "after", "as_of"}
)

_addresses = count(1)

# What a format of ours draws: texts that are often what they should be, since a drawn one never is.
INSTANTS: Final = (st.integers(1_800_000_000, 7_000_000_000) | st.integers(0, 2**33)).map(
    lambda at: rfc3339(at * 1_000)
)
schemathesis.openapi.format("date-time", INSTANTS)
schemathesis.openapi.format("rfc3339-or-local", INSTANTS | INSTANTS.map(lambda text: text[:19]))
schemathesis.openapi.format("iana-time-zone", st.sampled_from(zones.names()) | st.text())
schemathesis.openapi.format(
    "cron", st.sampled_from(["0 8 * * *", "*/5 9-17 * * mon-fri", "@daily", "0 0 L * *"]) | st.text()
)
schemathesis.openapi.format("uri", st.sampled_from(["https://email.example/x", "http://127.0.0.1:9/y"]) | st.text())


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Change the request that is about to be sent."""
    number = next(_addresses)
    case.headers["X-Forwarded-For"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    for name, value in dict(case.path_parameters or {}).items():
        there = NAMES.get(name)
        if there and (chance := crc32(repr(value).encode())) % 2:
            case.path_parameters[name] = there[chance // 2 % len(there)]
    if isinstance(case.body, dict):
        wait = case.body.get("wait_seconds")
        if isinstance(wait, int | float) and not isinstance(wait, bool) and LONGEST_POLL_S < wait <= 20:
            case.body["wait_seconds"] = LONGEST_POLL_S


@schemathesis.check
def refused_by_a_rule(context: Any, response: Any, case: Any) -> None:
    """What fits the document is taken, or refused by a rule of RULES and FIELDS."""
    positive = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    if not positive or response.status_code not in (400, 413):
        return
    problem = response.json()
    field = problem.get("field") or ""
    known = problem["reason"] in RULES or any(field.startswith(name) for name in FIELDS)
    a_time = (
        field.rpartition(".")[2] in TIMES | {"start_at", "end_at", "anchor_at"} and "is not a time" in problem["detail"]
    )
    assert known or a_time, f"{problem['reason']} {field}: {problem['detail']}"
