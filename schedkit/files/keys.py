"""The keys of a job's entry in a file: what each means, what it may be, and the field of the API it becomes.

This table is the format: reading, writing, the JSON schema and the reference in docs/files.md all follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from schedkit.model.jobs import Delivery, MisfirePolicy, OverlapPolicy, Priority, RegionPolicy
from schedkit.model.schedules import DayRule, GapPolicy, RepeatPolicy


class Kind(StrEnum):
    """What a value has to be."""

    TEXT = "text"
    WORD = "one of its words"
    SPAN = "a duration"
    TIME = "a time"
    FLAG = "true or false"
    COUNT = "a whole number"
    PAIRS = "names and texts"
    RETRY = "max_attempts and backoff"
    ANY = "any JSON"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `api` is the field of the API, where the value goes there as it is; `words` maps a file's words to the
    API's; `default` is what a file that does not say it means, as it would be written."""

    name: str
    kind: Kind
    means: str
    default: str = ""
    api: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    own: bool = False  # says something of one job only, and has no place in `defaults`


def _words(kind: type[StrEnum]) -> dict[str, str]:
    return {word.value.lower().replace("_", "-"): word.value for word in kind}


OVERLAPS: Final = {
    "allow": OverlapPolicy.ALLOW.value,
    "skip": OverlapPolicy.SKIP.value,
    "queue": OverlapPolicy.BUFFER_ONE.value,
}
REGIONS: Final = {
    "single": RegionPolicy.SINGLE_REGION.value,
    "home-async": RegionPolicy.HOME_ASYNC.value,
    "strict": RegionPolicy.STRICT.value,
}

KEYS: Final = (
    Key("cron", Kind.TEXT, "When: five fields, minute hour day month weekday, or a macro such as @daily.", own=True),
    Key("every", Kind.SPAN, "When: at a steady pace, whatever clocks do.", own=True),
    Key("at", Kind.TIME, "When: once, at this time.", own=True),
    Key("tz", Kind.TEXT, "The zone whose clock `cron`, `at`, `start` and `end` are read on.", "UTC"),
    Key("dialect", Kind.WORD, "Whose cron this is; read as the Unix form of it.", "unix",
        words={"unix": "unix", "quartz": "quartz", "eventbridge": "eventbridge"}),
    Key("day_rule", Kind.WORD, "Of a cron with day of month and day of week: either matches, or both have to.", "or",
        words=_words(DayRule)),
    Key("dst_gap", Kind.WORD, "Of a time that clocks going forward leave out.", "first-valid", words=_words(GapPolicy)),
    Key("dst_overlap", Kind.WORD, "Of a time that clocks going back repeat.", "first", words=_words(RepeatPolicy)),
    Key("start", Kind.TIME, "No run before this time.", own=True),
    Key("end", Kind.TIME, "No run at or after this time.", own=True),
    Key("anchor", Kind.TIME, "What `every` counts from; the moment the job is made, where it is not said.", own=True),
    Key("url", Kind.TEXT, "Where the call goes: an http or https URL."),
    Key("target", Kind.TEXT, "Where the call goes: the name of a registered target."),
    Key("path", Kind.TEXT, "Below the registered target, such as /digests."),
    Key("method", Kind.WORD, "The HTTP method of the call.", "POST",
        words={name: name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")}),
    Key("headers", Kind.PAIRS, "Sent along with the call; nothing secret."),
    Key("secret_ref", Kind.TEXT, "With a url: where the secret stands that signs the calls; never a secret itself."),
    Key("previous_secret_ref", Kind.TEXT, "While a secret is replaced: where the old one stands."),
    Key("timeout", Kind.SPAN, "Bound of one call, or of one task.", "30s, for calls"),
    Key("queue", Kind.TEXT, "Instead of a call: the queue that pull workers take the run from."),
    Key("task_type", Kind.TEXT, "On a queue: which of its worker's tasks."),
    Key("lease", Kind.SPAN, "On a queue: how long a worker holds a run between two heartbeats.", "30s"),
    Key("payload", Kind.ANY, "What the target or the worker is given.", own=True),
    Key("priority", Kind.WORD, "Which pool runs it.", "default", "priority", _words(Priority)),
    Key("window", Kind.SPAN, "It may start anywhere in this long after its time.", "0s", "dispatch_window_seconds"),
    Key("strict", Kind.FLAG, "true: no window, at its second; the other way to say `window: 0s`."),
    Key("retry", Kind.RETRY, "Tries of one run, and the first and the longest wait between them.",
        "{ max_attempts: 5, backoff: 10s..10m }"),
    Key("misfire", Kind.WORD, "Of runs that were missed.", "run-once", "misfire_policy", _words(MisfirePolicy)),
    Key("misfire_grace", Kind.SPAN, "Later than this is missed.", "60s", "misfire_grace_seconds"),
    Key("overlap", Kind.WORD, "While the run before is still going.", "allow", "overlap_policy", OVERLAPS),
    Key("delivery", Kind.WORD, "What a lost answer means: call again, or never twice.", "at-least-once", "delivery",
        _words(Delivery)),
    Key("at_most_once", Kind.FLAG, "true: the other way to say `delivery: at-most-once`."),
    Key("region_policy", Kind.WORD, "How it goes on when a region is lost.", "home-async", "region_policy", REGIONS),
    Key("labels", Kind.PAIRS, "To find jobs by.", api="labels"),
    Key("max_runs", Kind.COUNT, "It ends after this many runs.", api="max_runs", own=True),
    Key("expires_after", Kind.SPAN, "A run not started by then is skipped.", api="expires_after_seconds"),
    Key("description", Kind.TEXT, "For those who look.", api="description", own=True),
    Key("paused", Kind.FLAG, "true: kept, and not run.", "false", "paused"),
)  # fmt: skip
BY_NAME: Final = {key.name: key for key in KEYS}
TIMINGS: Final = ("cron", "every", "at")
PLACES: Final = ("url", "target", "queue")
TOP: Final = {
    "schedkit": "The version of the format: v1.",
    "managed_by": "Who these jobs belong to; the file's own path and repository, where it is not said.",
    "defaults": "Keys that every job of the file has unless it says otherwise.",
    "jobs": "The jobs, by name.",
    "targets": "Registered targets; no scheduler can keep them yet, so they are refused.",
    "schema": "Not read: what `-o json` of an export names itself.",
    "notes": "Not read: what an import said.",
}
