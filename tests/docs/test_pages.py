"""The pages: generated ones are fresh, every command in them runs as printed, every link leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from docs import generate
from schedkit.cli import front
from tests.cli.test_frame import parse
from tests.docs import terminal
from tests.docs.console import PAGES, ROOT, Command, anchors, blocks, commands, links
from tests.e2e.processes import Up, up

ADDRESS = "127.0.0.1:8700"
SECRETS = {"SCHEDKIT_SECRET_BILLING": "a secret of the pages"}  # what docs/targets.md starts the scheduler with
INDEX = ROOT / "docs" / "README.md"
RUN = [page for page in PAGES if commands(page)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_generated_pages_say_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().out


def test_a_stale_page_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    assert generate.main(["--check"]) == 1
    assert "docs/cli.md is stale: run `make docs`" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("page", RUN, ids=name)
def test_every_command_of_a_page_runs_as_printed(page: Path, tmp_path: Path) -> None:
    for example in (ROOT / "examples").glob("*.*"):  # which pages tell their reader to save
        shutil.copy(example, tmp_path)
    with up(tmp_path, env=SECRETS) as scheduler:
        for command in commands(page):
            check(command, scheduler, page)


def check(command: Command, scheduler: Up, page: Path) -> None:
    bin_folder = Path(sys.executable).parent
    env = scheduler.env | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "TZ": "UTC",
        "TERM": "xterm",
        "COLUMNS": str(terminal.COLUMNS),
        "LC_ALL": "C.UTF-8",
    }
    here = f"127.0.0.1:{scheduler.port}"
    code, output = terminal.run(command.text.replace(ADDRESS, here), scheduler.folder, env)
    shown = output.replace(here, ADDRESS)
    where = f"{name(page)}:{command.line}: {command.text}"
    assert code == command.exit_code, f"{where}\nexit {code}, not {command.exit_code}\n{shown}"
    assert command.printed(shown), f"{where}\nprinted\n{shown}\nand the page says\n" + "\n".join(command.expected)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_are_not_run_can_be_read_at_least(page: Path) -> None:
    for _, text in blocks(page, "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            said = line.partition("  #")[0].strip()
            words = said.split()
            if words[:1] == ["schedkit"] and words[1:2] and words[1] in front.BY_NAME:
                parse(said.partition(" | ")[0].partition(" > ")[0].removesuffix(" &"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    code = [inline[1] for inline in re.finditer(r"`([^`\n]+)`", text)]
    code += [line for _, block in blocks(page, "sh", "console") for line in block.splitlines()]
    named = {found[1] for line in code for found in re.finditer(r"(?:^|\s)make ([a-z]+)", line)}
    assert named <= targets


def test_the_manual_lists_every_page_once_and_under_one_kind() -> None:
    """First steps, how to, reference, why: docs/README.md has a line for each page, also for a new one."""
    listed = [link for link in links(INDEX) if "/" not in link]
    assert sorted(listed) == sorted(page.name for page in INDEX.parent.glob("*.md") if page != INDEX)
    kinds = re.findall(r"^## (.+)$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    assert kinds == ["First steps", "How to", "Reference", "Why"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        place, _, anchor = link.partition("#")
        if "://" in place:
            continue
        there = (page.parent / place) if place else page
        assert there.exists(), f"{name(page)} links to {link}"
        if anchor:
            assert anchor in anchors(there), f"{name(page)} links to {link}"
