"""What calls name: paths of jobs, runs, redrives, backfills and keys; queries and bodies without what is not given.

What could never be one segment of a path names nothing, and is refused without asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from schedkit.errors import NotFound, Reason


def query_of(**values: Any) -> list[tuple[str, str]]:
    """Query parameters; what is None is left out."""
    return [(name, str(value)) for name, value in values.items() if value is not None]


def given(**values: Any) -> dict[str, Any]:
    """A body; what is None is left out."""
    return {name: value for name, value in values.items() if value is not None}


def matching(version: int | None) -> dict[str, str]:
    """The header that makes a change conditional on this version; none without one."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def as_seen(run: Mapping[str, Any] | None) -> dict[str, str]:
    """The header that makes a verb conditional on this run as it was read; none without one."""
    return {} if run is None else {"If-Match": f'"{run["status"]}/{run["epoch"]}"'}


def job_path(job: str) -> str:
    """A job's path. Raises NotFound."""
    if _no_segment(job):
        raise NotFound(Reason.JOB_NOT_FOUND, f"{job!r} is no job's name or id", fix=["schedkit job list"], field="job")
    return f"/v1/jobs/{quote(job, safe='')}"


def run_path(run_id: str) -> str:
    """A run's path. Raises NotFound."""
    if _no_segment(run_id):
        raise NotFound(Reason.RUN_NOT_FOUND, f"{run_id!r} is no run's id", fix=["schedkit run list"], field="run")
    return f"/v1/runs/{quote(run_id, safe=':')}"


def redrive_path(redrive_id: str) -> str:
    """A redrive's path. Raises NotFound."""
    if _no_segment(redrive_id):
        said = f"{redrive_id!r} is no redrive's id"
        raise NotFound(Reason.REDRIVE_NOT_FOUND, said, fix=["schedkit dlq redrives"], field="redrive")
    return f"/v1/redrives/{quote(redrive_id, safe='')}"


def backfill_path(backfill_id: str) -> str:
    """A backfill's path. Raises NotFound."""
    if _no_segment(backfill_id):
        said = f"{backfill_id!r} is no backfill's id"
        raise NotFound(Reason.BACKFILL_NOT_FOUND, said, fix=["schedkit job backfills"], field="backfill")
    return f"/v1/backfills/{quote(backfill_id, safe='')}"


def key_path(key_id: str) -> str:
    """An API key's path. Raises NotFound."""
    if _no_segment(key_id):
        raise NotFound(Reason.KEY_NOT_FOUND, f"{key_id!r} is no key's id", fix=["schedkit key list"], field="key")
    return f"/v1/keys/{quote(key_id, safe='')}"


def _no_segment(text: str) -> bool:
    """Empty and dots change the path they stand in; a slash ends its segment, however it is written."""
    return text in ("", ".", "..") or "/" in text
