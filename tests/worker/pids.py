"""Whether processes that a test did not start itself still run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.e2e.processes import until


def lives(pid: int) -> bool:
    """Whether this process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_in(file: Path, count: int) -> list[int]:
    """The process ids that a script wrote there, once there are so many."""

    def look() -> list[int] | None:
        found = file.read_text().split() if file.exists() else []
        return [int(pid) for pid in found] if len(found) == count else None

    return until(look, f"{count} process ids")


def gone(pids: Sequence[int]) -> None:
    until(lambda: not any(map(lives, pids)) or None, f"end of {pids}")
