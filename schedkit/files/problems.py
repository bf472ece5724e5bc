"""What is wrong in a job file: where, what, and how to put it right. All of a file at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedkit.errors import InvalidInput, Reason


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. `job` and `field` are None where the file as a whole is meant; `line` counts from 1."""

    file: str
    line: int
    message: str
    job: str | None = None
    field: str | None = None
    fix: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.job, self.field) if part)
        fixes = f"  fix: {ways(self.fix)}" if self.fix else ""
        return f"{self.file}:{self.line}: {place + ': ' if place else ''}{self.message}{fixes}"

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "file": self.file,
            "line": self.line,
            "job": self.job,
            "field": self.field,
            "message": self.message,
            "fix": list(self.fix),
        }


def ways(fix: Sequence[str]) -> str:
    """Ways out in one line. Some are written to stand below the one before, and begin with `or` by themselves."""
    return "; or ".join(one.removeprefix("or ") for one in fix)


def refusal(problems: Sequence[Problem]) -> InvalidInput:
    """All of them as one error, for those who cannot go on with such a file."""
    assert problems, "there is something to refuse"
    files = list(dict.fromkeys(problem.file for problem in problems))
    count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    return InvalidInput(
        Reason.INVALID_FILE,
        "\n".join([f"{count} in {', '.join(files)}", *(f"  {problem}" for problem in problems)]),
        why="a file is applied whole or not at all, so nothing was changed",
        field=problems[0].field,
        extra={"problems": [problem.document() for problem in problems]},
    )
