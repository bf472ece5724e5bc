"""What every answer is made of: times, words of a list, and the shape of a refusal.

The shapes of answers stand beside the views that make them (`jobs_out`, `runs_out`, `dead_out`, `ops_out`): mypy holds
the views to them, and the OpenAPI document is made of them. No answer is checked while it is made, which costs nothing
and refuses nobody; the tests hold each one that they see against the document.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, NotRequired

from pydantic import ConfigDict, WithJsonSchema, with_config
from typing_extensions import TypedDict

from schedkit.errors import Reason
from schedkit.model.jobs import Priority
from schedkit.model.runs import RunStatus

exact: Final = with_config(ConfigDict(extra="forbid"))  # these fields and no others
open_ended: Final = with_config(ConfigDict(extra="allow"))


def word(of: Iterable[str]) -> WithJsonSchema:
    """One of these words."""
    return WithJsonSchema({"type": "string", "enum": [str(each) for each in of]})


def word_or_null(of: Iterable[str]) -> WithJsonSchema:
    """One of these words, or null."""
    return WithJsonSchema({"type": ["string", "null"], "enum": [*(str(each) for each in of), None]})


Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
JSON = Annotated[Any, WithJsonSchema({"description": "any JSON"})]
RunState = Annotated[str, word(RunStatus)]
Rank = Annotated[str, word(Priority)]


@open_ended
class Problem(TypedDict):
    """RFC 9457, with a stable `reason`, why it is so, and how to fix it; some reasons add what helps to act."""

    type: str
    title: str
    status: int
    detail: str
    reason: Annotated[str, word(Reason)]
    why: NotRequired[str]
    fix: NotRequired[list[str]]
    field: NotRequired[str]
    retry_after_seconds: NotRequired[int]
    request_id: str
