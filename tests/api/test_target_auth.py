"""How a target's calls are signed, through the API: references go in and come out, and values have no way in."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.adapters.secrets import MachineSecrets
from tests.api.asking import DAILY, post, refused
from tests.worlds import URL, Virtual

BILLING: dict[str, Any] = {"type": "HMAC_SHA256", "secret_ref": "env:SCHEDKIT_SECRET_BILLING"}


@pytest.fixture
async def strict() -> Any:
    """A world with the rules of a real machine about what may be named."""
    async with Virtual(secrets=MachineSecrets({"SCHEDKIT_SECRET_BILLING": "s3cr3t"})) as world:
        yield world


async def test_a_reference_comes_out_as_it_went_in(strict: Virtual) -> None:
    both = BILLING | {"previous_secret_ref": "env:SCHEDKIT_SECRET_BILLING_OLD"}
    for auth in (BILLING, both):
        made = await strict.create(DAILY, target={"url": URL, "auth": auth})
        read = await strict.ask("GET", f"/v1/jobs/{made['job_id']}")
        assert made["target"]["auth"] == read["target"]["auth"] == auth
    plain = await strict.create(DAILY, target={"url": URL, "auth": {"type": "NONE"}})
    assert "auth" not in plain["target"]


async def test_it_is_patched_like_every_other_field_of_a_target(strict: Virtual) -> None:
    path = f"/v1/jobs/{(await strict.create(DAILY))['job_id']}"

    async def patched(target: dict[str, Any]) -> Any:
        return (await strict.ask("PATCH", path, json={"target": target}))["target"].get("auth")

    assert await patched({"auth": BILLING}) == BILLING
    assert await patched({"timeout_seconds": 7}) == BILLING
    assert await patched({"url": URL + "/2"}) == BILLING
    assert await patched({"auth": {"type": "NONE"}}) is None
    assert await patched({"auth": BILLING}) == BILLING
    assert await patched({"target_id": "billing"}) is None


@pytest.mark.parametrize(
    ("auth", "field"),
    [
        ({"type": "HMAC_SHA256"}, "target.auth.secret_ref"),
        ({"type": "NONE", "secret_ref": "env:SCHEDKIT_SECRET_A"}, "target.auth.secret_ref"),
        ({"type": "BASIC"}, "target.auth.type"),
        ({"type": "HMAC_SHA256", "secret": "s3cr3t"}, "target.auth.secret"),
        ({"type": "HMAC_SHA256", "secret_ref": "s3cr3t"}, "target.auth.secret_ref"),
        ({"type": "HMAC_SHA256", "secret_ref": "s3cr3t" * 400}, "target.auth.secret_ref"),
        ({"type": "HMAC_SHA256", "secret_ref": "env:HOME"}, "target.auth.secret_ref"),
        ({"type": "HMAC_SHA256", "secret_ref": "file:/etc/passwd"}, "target.auth.secret_ref"),
        (BILLING | {"previous_secret_ref": "env:s3cr3t"}, "target.auth.previous_secret_ref"),
        ("s3cr3t", "target.auth"),
        (["s3cr3t"], "target.auth"),
    ],
)
async def test_what_cannot_be_a_reference_is_refused_and_never_quoted(strict: Virtual, auth: Any, field: str) -> None:
    """Somebody may have given the secret itself."""
    answer = await post(strict, target={"url": URL, "auth": auth})
    refused(answer, 400, "INVALID_ARGUMENT", field)
    assert "s3cr3t" not in answer.text


async def test_a_registered_target_has_its_own(strict: Virtual) -> None:
    answer = await post(strict, target={"target_id": "billing", "auth": BILLING})
    refused(answer, 400, "INVALID_ARGUMENT", "target.auth")
