"""Values for TAB: from a cache of 30 s, asked anew within 300 ms, so that TAB never hangs when the server is down."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from schedkit.cli.failures import Refusal
from schedkit.cli.settings import Context, load
from schedkit.cli.values import now_ms
from schedkit.errors import SchedkitError
from schedkit.model.time import SECOND_MS

FRESH_FOR_MS: Final = 30 * SECOND_MS
PATIENCE_S: Final = 0.3
MOST: Final = 200


def jobs(incomplete: str) -> list[str]:
    """Names of jobs, and ids of those without one."""
    return _remembered(
        "jobs",
        incomplete,
        lambda client: [job.get("name") or job["job_id"] for job in client.list_jobs(limit=MOST)["items"]],
    )


def runs(incomplete: str) -> list[str]:
    return _remembered(
        "runs", incomplete, lambda client: [run["run_id"] for run in client.list_runs(limit=MOST)["items"]]
    )


def contexts(incomplete: str) -> list[str]:
    try:
        return sorted(name for name in load({}).contexts if name.startswith(incomplete))
    except Refusal:
        return []


def words(incomplete: str) -> list[str]:
    from schedkit.cli.explain import dictionary

    return [word for word in dictionary() if word.lower().startswith(incomplete.lower())]


def _remembered(what: str, incomplete: str, ask: Callable[[Any], list[str]]) -> list[str]:
    try:
        context = load({}).context
        known = _fresh(context, what) or _asked(context, what, ask)
    except (Refusal, SchedkitError, OSError, ValueError, KeyError):
        return []
    return [value for value in known if value.startswith(incomplete)]


def _cache(context: Context, what: str) -> Path:
    import platformdirs

    name = blake2b(f"{context.name} {context.url}".encode(), digest_size=8).hexdigest()
    return Path(platformdirs.user_cache_dir("schedkit")) / "complete" / f"{what}-{name}.json"


def _fresh(context: Context, what: str) -> list[str]:
    path = _cache(context, what)
    if not path.exists() or now_ms() - path.stat().st_mtime_ns // 1_000_000 > FRESH_FOR_MS:
        return []
    return [str(value) for value in json.loads(path.read_text(encoding="utf-8"))]


def _asked(context: Context, what: str, ask: Callable[[Any], list[str]]) -> list[str]:
    from schedkit.cli.invocation import token_of
    from schedkit.client import Client

    with Client(context.url, token=token_of(context), timeout_s=PATIENCE_S) as client:
        known = ask(client)
    path = _cache(context, what)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known), encoding="utf-8")
    return known
