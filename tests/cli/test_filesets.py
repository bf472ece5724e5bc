"""Whose jobs a file's are, and which files a folder has."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedkit.cli import filesets
from schedkit.errors import InvalidInput

EMPTY = "schedkit: v1\njobs: {}\n"


def clone(folder: Path, url: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(
        f'[core]\n\tbare = false\n[remote "other"]\n\turl = https://git.example/not/this\n[remote "origin"]\n'
        f"\tfetch = +refs/heads/*:refs/remotes/origin/*\n\turl = {url}\n[branch]\n"
    )
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "git@git.example:growth/app.git",
        "ssh://git@git.example:22/growth/app",
        "https://user:hush@git.example/growth/app.git",
        "https://git.example/deep/growth/app/",
    ],
)
def test_a_file_in_a_clone_belongs_to_its_repository_and_no_secret_is_told(url: str, tmp_path: Path) -> None:
    folder = clone(tmp_path / "app", url)
    assert filesets.owner_of(folder / "ops" / "jobs.yaml") == "ops/jobs.yaml@growth/app"


def test_a_work_tree_belongs_to_the_repository_of_its_clone(tmp_path: Path) -> None:
    main = clone(tmp_path / "app", "git@git.example:growth/app.git")
    (main / ".git" / "worktrees" / "fix").mkdir(parents=True)
    tree = tmp_path / "fix"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/fix\n")
    assert filesets.owner_of(tree / "jobs.yaml") == "jobs.yaml@growth/app"


def test_a_file_anywhere_else_belongs_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()  # a clone of nothing, and the end of the way up, wherever the tests run
    assert filesets.owner_of(tmp_path / "jobs.yaml") == f"jobs.yaml@{tmp_path}"
    assert filesets.owner_of(tmp_path / "ops" / "jobs.yaml") == f"jobs.yaml@{tmp_path / 'ops'}"


def test_a_long_owner_fits_and_two_long_ones_differ(tmp_path: Path) -> None:
    first, second = (filesets.owner_of(tmp_path / name / ("x" * 120) / "jobs.yaml") for name in "ab")
    assert len(first) == len(second) == 128
    assert first != second


def test_what_the_file_says_of_its_owner_stands(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(f"managed_by: growth/crons\n{EMPTY}")
    (file,) = filesets.read([str(tmp_path / "jobs.yaml")])
    assert file.managed_by == "growth/crons"


def test_a_folder_gives_its_job_files_and_no_others(tmp_path: Path) -> None:
    for name in ("a.yaml", "deep/b.yml", "c.json", ".hidden/d.yaml", "notes.txt", "compose.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        said = '{"schedkit": "v1", "jobs": {}}' if name == "c.json" else EMPTY
        (tmp_path / name).write_text("services: {}\n" if name == "compose.yaml" else said)
    found = [Path(file.file).relative_to(tmp_path).as_posix() for file in filesets.read([str(tmp_path)])]
    assert found == ["a.yaml", "c.json", "deep/b.yml"]


def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"schedkit: v1 # \xe9\n")
    for name, why in (("nowhere.yaml", "there is no file"), ("empty", "is a job file"), ("latin.yaml", "is no UTF-8")):
        with pytest.raises(InvalidInput, match=why):
            filesets.read([str(tmp_path / name)])
