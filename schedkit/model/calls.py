"""Calls: what is sent to a target, the three things that can come back, and what they mean for the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedkit.model.time import Instant


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a target, all headers included; `timeout_ms` bounds it from connect to the last byte."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: bytes | None
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The target answered."""

    http_status: int
    body: str = ""
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class NotSent:
    """Nothing reached the target: connection refused, name not found, address not allowed."""

    error: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The request may have reached the target, its answer did not reach us: timeout, reset."""

    error: str


Reply = Answered | NotSent | NoAnswer


@dataclass(frozen=True, slots=True)
class Done:
    """The target did it."""

    result: str | None = None
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class RetryAt:
    """It may work later: not before `at`."""

    at: Instant
    error: str
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class Dead:
    """It will not work without a person: a permanent failure, or no attempts left."""

    error: str
    reason: str
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Whether it happened cannot be known, and the job is to be delivered at most once (C7)."""

    error: str


Verdict = Done | RetryAt | Dead | Unknown
