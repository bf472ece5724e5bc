"""`schedkit init`: what it writes is sound, and nothing that is there is lost."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from schedkit.cli.starter import PROJECTS
from schedkit.files import jobfile
from schedkit.testing import run_twice
from tests.cli.conftest import Cli, FakeServer
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


def test_nothing_is_overwritten_without_a_word(offline: Cli, home: Path) -> None:
    (home / "jobs.yaml").write_text("mine\n")
    told = offline("init")
    assert told.exit_code == 4
    assert "jobs.yaml is there already" in told.stderr
    assert (home / "jobs.yaml").read_text() == "mine\n"
    assert not (home / "schedkit.toml").exists()
    assert offline("init", "--force").exit_code == 0
    assert (home / "jobs.yaml").read_text() != "mine\n"


def test_a_project_talks_to_whom_commands_talk_now(offline: Cli, home: Path, server: FakeServer) -> None:
    """Its `next:` line works, and a table of the project takes no token and no guard away."""
    assert offline("init", "by-url", env={"SCHEDKIT_URL": server.url}).exit_code == 0
    assert f'current = "dev"\n\n[context.dev]\nurl = "{server.url}"' in (home / "by-url/schedkit.toml").read_text()
    offline("context", "add", "alpha", "--url", server.url)
    assert offline("init", "shop").exit_code == 0
    assert f'current = "alpha"\n\n[context.alpha]\nurl = "{server.url}"' in (home / "shop/schedkit.toml").read_text()
    offline("context", "add", "prod-1", "--url", server.url, "--protected")
    assert offline("-c", "prod-1", "init", "live").exit_code == 0
    assert (home / "live/schedkit.toml").read_text().endswith('current = "prod-1"\n')


def test_an_unknown_template_and_a_folder_that_cannot_be_are_refused(offline: Cli, home: Path) -> None:
    assert offline("init", "--template", "workflow").exit_code == 9
    (home / "file").write_text("")
    assert offline("init", "file").exit_code == 9


def test_its_worker_does_what_its_job_asks_for_and_a_second_run_changes_nothing(
    offline: Cli, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offline("init", "--template", "full").exit_code == 0
    (payload,) = [
        job.document["payload"]
        for job in jobfile.read((home / "jobs.yaml").read_text(), "jobs.yaml").jobs
        if job.document["target"].get("task_queue") == "starter"
    ]
    names = runpy.run_path(str(home / "worker.py"))
    assert names["w"].queue == "starter"
    twice = run_twice(names["rebuild"], payload)
    assert twice.same, twice
    assert capsys.readouterr().out.count("main: row") >= 3
