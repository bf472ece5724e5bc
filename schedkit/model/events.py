"""Events: what happened just now, in a form that is small enough to be kept for a while in memory.

run       a run became ready, ended, is to be tried again, was cancelled, skipped, dropped, resolved
lease     somebody took a run, or let go of it
redrive   a redrive was asked for, moved on, ended
audit     somebody changed something
alert     the scheduler warned of something
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from schedkit.model.access import Caller, Role
from schedkit.model.jobs import DEFAULT_TENANT
from schedkit.model.keys import run_id
from schedkit.model.time import Instant


class EventKind(StrEnum):
    RUN = "run"
    LEASE = "lease"
    REDRIVE = "redrive"
    AUDIT = "audit"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `what` is the arrow, `about` what it happened to, `who` did it.

    Of a run `about` is the job, with `scheduled_for`: names are put together for those who read, and few are read.
    `tenant_id` None: it is about the scheduler itself. `team_id` None: it is about every team of the tenant.
    """

    kind: EventKind
    what: str
    at: Instant
    about: str
    who: str | None = None
    tenant_id: str | None = None
    team_id: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    scheduled_for: Instant | None = None

    @property
    def subject(self) -> str:
        """What it happened to, as it is called outside."""
        return self.about if self.scheduled_for is None else run_id(self.about, self.scheduled_for)

    @property
    def ended(self) -> bool:
        """It is the end of a run."""
        return bool(self.facts.get("final"))

    def shown_to(self, caller: Caller) -> bool:
        """Whether it is there for the caller: its own team's; the audit log and the scheduler's own for admins only.

        The scheduler's own events are for the tenant of those who run it.
        """
        if self.tenant_id is None:
            return caller.tenant_id == DEFAULT_TENANT and caller.role is Role.ADMIN
        if self.tenant_id != caller.tenant_id:
            return False
        return caller.role is Role.ADMIN if self.kind is EventKind.AUDIT else caller.reaches(self.team_id)
