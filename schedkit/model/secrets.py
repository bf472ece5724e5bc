"""Secrets by reference: a job says where its secret is; the value is read for one call and never stored or shown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """The value behind a reference, as bytes. It does not print: not in a log, a trace or an error."""

    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no secret behind this reference (now), or it may not be read; `why` names the reference, no value."""

    why: str
