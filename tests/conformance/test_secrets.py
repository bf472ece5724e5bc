"""What every kind of secrets promises: the value that is there, and words without values where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedkit.adapters.memory.secrets import MemorySecrets
from schedkit.adapters.secrets import MachineSecrets
from schedkit.model.secrets import Missing, Secret
from schedkit.ports import NoSecrets, Secrets

ENV, ABSENT = "env:SCHEDKIT_SECRET_BILLING", "env:SCHEDKIT_SECRET_ABSENT"
VALUE = b"k9-very-secret"


@pytest.fixture(params=["memory", "environment", "files", "none"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Secrets, str, str]:
    """(the secrets, a reference that is there, one that is not)."""
    (tmp_path / "billing").write_bytes(VALUE)
    match request.param:
        case "memory":
            return MemorySecrets({ENV: VALUE}), ENV, ABSENT
        case "environment":
            return MachineSecrets({"SCHEDKIT_SECRET_BILLING": VALUE.decode()}), ENV, ABSENT
        case "files":
            return MachineSecrets({}, tmp_path), f"file:{tmp_path}/billing", f"file:{tmp_path}/absent"
        case _:
            return NoSecrets(), "", ABSENT


async def test_a_reference_gives_its_value_and_the_value_does_not_print(kind: tuple[Secrets, str, str]) -> None:
    secrets, there, _ = kind
    if there:
        assert secrets.refusal(there) is None
        found = await secrets.read(there)
        assert found == Secret(VALUE)
        assert VALUE.decode() not in f"{found} {found!r}"


async def test_a_missing_one_is_told_by_its_reference(kind: tuple[Secrets, str, str]) -> None:
    secrets, _, absent = kind
    found = await secrets.read(absent)
    assert isinstance(found, Missing)
    assert absent in found.why
    assert VALUE.decode() not in found.why


async def test_what_no_job_may_name_is_not_read_either(kind: tuple[Secrets, str, str]) -> None:
    secrets, there, absent = kind
    for ref in (there, absent, "env:PATH", "file:/etc/passwd"):
        if secrets.refusal(ref) is not None:
            assert isinstance(await secrets.read(ref), Missing)
