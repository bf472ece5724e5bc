"""Documents of jobs, as many different ones as the API can show."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from schedkit.model.time import rfc3339

EARLY: Final = 1_577_836_800_000  # 2020-01-01
LATE: Final = 2_524_608_000_000  # 2050-01-01
ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
CRONS: Final = ("0 8 * * *", "@daily", "*/15 9-17 * * 1-5", "0 0 L * *", "0 0 1 * 1", "30 2 15W * *", "0 12 * * fri#2")
REFERENCE: Final = st.sampled_from(("env:SCHEDKIT_SECRET_A", "env:SCHEDKIT_SECRET_B"))
HEADER_CHARS: Final = "".join(map(chr, range(32, 127)))
GAPS: Final = ("FIRST_VALID", "SHIFT_FORWARD", "SKIP")
REPEATS: Final = ("FIRST", "SECOND", "BOTH")

texts = st.text(min_size=1, max_size=30).filter(lambda said: bool(said.strip()))
words = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_", min_size=1, max_size=20)
names = words.filter(lambda said: not said.startswith(("job_", "-")) and said not in (".", ".."))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
spans = st.integers(1_000, 300_000).map(lambda ms: ms // 1_000 if ms % 1_000 == 0 else ms / 1_000)
instants = st.integers(EARLY, LATE).map(rfc3339)


@st.composite
def bounds(draw: st.DrawFn) -> dict[str, str]:
    first = draw(st.integers(EARLY, LATE))
    found = {"start_at": rfc3339(first), "end_at": rfc3339(first + draw(st.integers(86_400_000 * 366 * 12, LATE)))}
    return {name: found[name] for name in found if draw(st.booleans())}


def policies() -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries(
        {"dst_gap_policy": st.sampled_from(GAPS), "dst_overlap_policy": st.sampled_from(REPEATS)}
    )


@st.composite
def crons(draw: st.DrawFn) -> dict[str, Any]:
    said = {"type": "CRON", "cron": draw(st.sampled_from(CRONS)), "time_zone": draw(st.sampled_from(ZONES))}
    return {**said, **draw(policies()), "day_rule": draw(st.sampled_from(("OR", "AND"))), **draw(bounds())}


@st.composite
def onces(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"type": "ONCE", "run_at": draw(instants | st.just("2026-09-28T09:00:00+02:00"))}
    zone = draw(st.sampled_from(ZONES))
    wall = draw(instants) if zone == "UTC" and draw(st.booleans()) else "2026-09-28T09:00"
    return {"type": "ONCE", "run_at": wall, "time_zone": zone, **draw(policies())}


@st.composite
def intervals(draw: st.DrawFn) -> dict[str, Any]:
    anchor = {"anchor_at": draw(instants)} if draw(st.booleans()) else {}
    return {"type": "INTERVAL", "every_seconds": draw(spans), **anchor, **draw(bounds())}


def is_queue(name: str) -> bool:
    return name[0].isalnum()


@st.composite
def targets(draw: st.DrawFn) -> dict[str, Any]:
    place = draw(st.sampled_from(("url", "target", "queue")))
    if place == "queue":
        optional = {"task_type": st.none() | words.filter(is_queue), "timeout_seconds": st.none() | spans}
        lease = {"lease_seconds": draw(spans.filter(lambda seconds: seconds >= 5))}
        queue = {"type": "TASK_QUEUE", "task_queue": draw(words.filter(is_queue))}
        return {**queue, **lease, **draw(st.fixed_dictionaries(optional))}
    where: dict[str, Any] = {"url": f"https://{draw(st.sampled_from(('a', 'b')))}.example/{draw(words)}"}
    if place == "target":
        where = {"target_id": draw(words), "path": draw(st.sampled_from(("", "/", "/a/b?c=d")))}
    auth = draw(
        st.none() | st.fixed_dictionaries({"secret_ref": REFERENCE}, optional={"previous_secret_ref": REFERENCE})
    )
    signed = {"auth": {"type": "HMAC_SHA256", **auth} if auth is not None and place == "url" else None}
    method = draw(st.sampled_from(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")))
    headers = draw(st.dictionaries(words.map("x-{}".format), st.text(HEADER_CHARS, max_size=10), max_size=2))
    return {"type": "HTTP", **where, **signed, "method": method, "timeout_seconds": draw(spans), "headers": headers}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A job as the API's whole document."""
    first = draw(st.integers(0, 900))
    window = draw(st.integers(0, 86_400))
    return {
        "name": draw(names),
        "description": draw(st.none() | texts),
        "schedule": draw(crons() | onces() | intervals()),
        "target": draw(targets()),
        "payload": draw(json_values),
        "priority": draw(st.sampled_from(("CRITICAL", "HIGH", "DEFAULT", "LOW"))),
        "dispatch_window_seconds": window,
        "retry_policy": {
            "max_attempts": draw(st.integers(1, 100)),
            "initial_backoff_seconds": first,
            "max_backoff_seconds": draw(st.integers(first, 900)),
        },
        "misfire_policy": draw(st.sampled_from(("RUN_ONCE", "SKIP", "RUN_ALL"))),
        "misfire_grace_seconds": draw(st.integers(0, 31_536_000)),
        "overlap_policy": draw(st.sampled_from(("ALLOW", "SKIP", "BUFFER_ONE"))),
        "delivery": draw(st.sampled_from(("AT_LEAST_ONCE", "AT_MOST_ONCE"))),
        "region_policy": draw(st.sampled_from(("SINGLE_REGION", "HOME_ASYNC", "STRICT"))),
        "labels": draw(st.dictionaries(words, st.text(max_size=10), max_size=3)),
        "max_runs": draw(st.none() | st.integers(1, 1_000_000_000)),
        "expires_after_seconds": draw(st.none() | st.integers(window + 1, 31_536_000)),
        "paused": draw(st.booleans()),
    }
