"""The first key of a tenant: made in the data folder itself, since there is no key yet to ask the API with."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

from schedkit.adapters.failpoints import bare
from schedkit.adapters.sqlite.folder import DATABASE_NAME, PRIVATE
from schedkit.api.keys import make_key
from schedkit.api.trail import Chains, Trail
from schedkit.api.views import key_out
from schedkit.embedded import Settings, check, keyring_of
from schedkit.errors import InvalidInput, Reason
from schedkit.model.access import NAME_PATTERN, Caller, Role
from schedkit.model.audit import Entry, Recorded
from schedkit.profiles import embedded


async def first_key(settings: Settings, tenant_id: str, team_id: str, name: str) -> dict[str, Any]:
    """Make an admin's key for whoever may write to the data folder, beside a running scheduler or without one.

    The answer is that of POST /v1/keys. Raises StartupRefused, Conflict (KEYS_AT_LIMIT), InvalidInput.
    """
    assert settings.data is not None, "keys are kept"
    check(settings)
    for field, text in {"--tenant": tenant_id, "--team": team_id, "--name": name}.items():
        if re.fullmatch(NAME_PATTERN, text) is None:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{text[:80]!r} is not 1 to 63 of a-z, 0-9 and -", field=field)
    settings.data.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    world = embedded(settings.data / DATABASE_NAME, alone=False)
    try:
        entry = Entry(
            tenant_id=tenant_id,
            team_id=team_id,
            role=Role.ADMIN.value,
            action="bootstrap_key",
            resource=name,
            outcome=Recorded.DONE,
            request_id=f"pid_{os.getpid()}",
            address=f"local user {os.getuid()}",
        )
        trail = Trail(world.store, world.clock, Chains(), entry, afterwards=False)
        caller, keyring = Caller(tenant_id, team_id), keyring_of(settings)
        key, text = await make_key(replace(world, store=trail), keyring, caller, name, team_id, Role.ADMIN, None)
        return key_out(key, world.clock.now()) | {"secret": text}
    finally:
        bare(world.store).close()
        await bare(world.targets).close()
