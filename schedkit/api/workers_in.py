"""What workers say: that they have room, that they are still at it, how it ended."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from schedkit.api.bodies import WHOLE, Body, Seconds
from schedkit.model.jobs import MAX_BACKOFF_MS
from schedkit.model.time import SECOND_MS

MAX_TASKS: Final = 50
MAX_POLL_SECONDS: Final = 20
MAX_EPOCH: Final = 2**53 - 1  # what every reader of JSON keeps exactly; restored stores count from their time in ms

Epoch = Annotated[int, Field(strict=True, ge=1, le=MAX_EPOCH, description="as it was handed out with the run"), WHOLE]
RunId = Annotated[str, Field(strict=True, max_length=256)]


class PollBody(Body):
    """`worker_id` names the process that asks, the same at each poll; `max_tasks` is how many it has room for."""

    worker_id: Annotated[str, Field(strict=True, min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    wait_seconds: Annotated[Seconds, Field(ge=0, le=MAX_POLL_SECONDS)] = 0
    max_tasks: Annotated[int, Field(strict=True, ge=1, le=MAX_TASKS), WHOLE] | None = None


class HeartbeatBody(Body):
    """`progress` is kept for whoever goes on with the run, 4 KiB at most; without it, what was said last stands."""

    epoch: Epoch
    progress: Any = None


class CompleteBody(Body):
    """How it ended. 4 KiB of `result` are kept. FAILED, where `retryable`, is tried again as the retry policy says."""

    epoch: Epoch
    outcome: Literal["SUCCEEDED", "FAILED", "CANCELLED"]
    result: Any = None
    error: Annotated[str, Field(strict=True)] | None = None
    retryable: Annotated[bool, Field(strict=True)] = True
    retry_after_seconds: Annotated[Seconds, Field(ge=0, le=MAX_BACKOFF_MS / SECOND_MS)] = 0


class ReleaseBody(Body):
    epoch: Epoch


class HeartbeatEntry(HeartbeatBody):
    run_id: RunId


class CompleteEntry(CompleteBody):
    run_id: RunId


class BatchHeartbeat(Body):
    """Up to 50; each entry is a heartbeat with its `run_id`."""

    heartbeats: Annotated[list[Any], Field(min_length=1, max_length=MAX_TASKS)]


class BatchComplete(Body):
    """Up to 50; each entry is a completion with its `run_id`."""

    completions: Annotated[list[Any], Field(min_length=1, max_length=MAX_TASKS)]
