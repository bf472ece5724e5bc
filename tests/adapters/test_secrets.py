"""Secrets of the machine: a job reads the variables and files that are meant for it, and nothing else of the server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedkit.adapters.secrets import FOLDER_VARIABLE, MAX_SECRET_BYTES, MachineSecrets
from schedkit.embedded import Settings, check
from schedkit.errors import InvalidInput
from schedkit.model.secrets import Missing, Secret

ELSEWHERE = b"of somebody else"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "other").write_bytes(ELSEWHERE)
    made = tmp_path / "secrets"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    "ref",
    [
        "env:PATH", "env:AWS_SECRET_ACCESS_KEY", "env:SCHEDKIT_SECRET_", "env:SCHEDKIT_SECRETS_DIR", "env:",
        "env:schedkit_secret_billing", "env:SCHEDKIT_SECRET_A\n", "env:SCHEDKIT_SECRET_A=B", "ENV:SCHEDKIT_SECRET_A",
        "SCHEDKIT_SECRET_A", "arn:aws:secretsmanager:x", "", "file:", "file:billing", "file:/etc/passwd",
        "file:/proc/self/environ", "file:{folder}/../other", "file:{folder}/a/../../other", "file:{folder}other",
        "file:{folder}/a\0", "file:~/a",
    ],
)  # fmt: skip
async def test_whatever_else_is_on_the_machine_is_refused(ref: str, folder: Path) -> None:
    environment = {"PATH": "x", "AWS_SECRET_ACCESS_KEY": "x", "SCHEDKIT_SECRETS_DIR": "x", "SCHEDKIT_SECRET_": "x"}
    secrets = MachineSecrets(environment, folder)
    ref = ref.format(folder=folder)
    assert secrets.refusal(ref) is not None
    assert isinstance(await secrets.read(ref), Missing)


async def test_without_a_folder_no_file_is_read(folder: Path) -> None:
    (folder / "billing").write_text("s")
    assert "SCHEDKIT_SECRETS_DIR" in (MachineSecrets({}).refusal(f"file:{folder}/billing") or "")


async def test_a_link_within_the_folder_is_followed_and_one_out_of_it_is_not(folder: Path) -> None:
    """Mounted secrets are links to a folder beside them."""
    (folder / "..data").mkdir()
    (folder / "..data" / "billing").write_text("s")
    (folder / "billing").symlink_to("..data/billing")
    (folder / "out").symlink_to("../other")
    secrets = MachineSecrets({}, folder)
    assert await secrets.read(f"file:{folder}/billing") == Secret(b"s")
    out = await secrets.read(f"file:{folder}/out")
    assert isinstance(out, Missing)
    assert "leads out of the folder" in out.why


async def test_what_is_no_plain_small_file_is_missing_and_holds_nothing_up(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    (folder / "large").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    (folder / "empty").write_text("\n")
    secrets = MachineSecrets({}, folder)
    for name, why in {"pipe": "no plain file", "sub": "", "large": "longer than", "empty": "empty"}.items():
        found = await secrets.read(f"file:{folder}/{name}")
        assert isinstance(found, Missing)
        assert why in found.why


async def test_a_line_end_is_no_part_of_a_secret_and_a_new_value_counts_at_once(folder: Path) -> None:
    secrets = MachineSecrets({"SCHEDKIT_SECRET_A": "x y\r\n"}, folder)
    assert await secrets.read("env:SCHEDKIT_SECRET_A") == Secret(b"x y")
    for value in (b"one", b"two \xff"):
        (folder / "billing").write_bytes(value + b"\n")
        assert await secrets.read(f"file:{folder}/billing") == Secret(value)


def test_a_folder_that_is_none_is_refused_at_the_start(folder: Path) -> None:
    check(Settings(secrets_folder=folder))
    with pytest.raises(InvalidInput) as refused:
        check(Settings(secrets_folder=folder / "absent"))
    assert refused.value.field == FOLDER_VARIABLE
