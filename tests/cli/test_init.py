"""`schedkit init`: what it writes is sound, and nothing that is there is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedkit.cli.starter import PROJECTS
from tests.cli.conftest import Cli
from tests.cli.living import living


@pytest.mark.parametrize("template", PROJECTS)
def test_what_it_writes_is_valid_and_can_be_applied(
    template: str, offline: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = offline("init", "shop", "--template", template)
    assert told.exit_code == 0, told.output
    assert "next:  cd shop && schedkit job diff" in told.stdout
    monkeypatch.chdir(home / "shop")
    assert "no mistakes" in offline("job", "validate").stdout
    assert offline("config", "get", "context").stdout.strip() == "dev"
    with living(monkeypatch) as here:
        here.world._door.registered["demo-echo"] = "http://demo.example/"  # type: ignore[index]
        assert offline("job", "apply", "-y").exit_code == 0
        assert offline("job", "diff").exit_code == 0
    if (home / "shop" / "worker.py").exists():
        compile((home / "shop" / "worker.py").read_text(), "worker.py", "exec")


def test_nothing_is_overwritten_without_a_word(offline: Cli, home: Path) -> None:
    (home / "jobs.yaml").write_text("mine\n")
    told = offline("init")
    assert told.exit_code == 4
    assert "jobs.yaml is there already" in told.stderr
    assert (home / "jobs.yaml").read_text() == "mine\n"
    assert not (home / "schedkit.toml").exists()
    assert offline("init", "--force").exit_code == 0
    assert (home / "jobs.yaml").read_text() != "mine\n"


def test_an_unknown_template_and_a_folder_that_cannot_be_are_refused(offline: Cli, home: Path) -> None:
    assert offline("init", "--template", "workflow").exit_code == 9
    (home / "file").write_text("")
    assert offline("init", "file").exit_code == 9
