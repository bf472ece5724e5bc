"""`schedkit backup` and `restore` on data folders: what they say and refuse, and that a folder stays as it was."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from schedkit import backups
from schedkit.adapters.sqlite import backup, schema
from schedkit.adapters.sqlite.folder import DataFolder
from schedkit.adapters.system import SystemClock
from schedkit.embedded import Settings, running
from schedkit.errors import Conflict
from tests.cli.conftest import Cli, environment
from tests.worlds import URL

EVERY_DAY = {"type": "CRON", "cron": "0 8 * * *", "time_zone": "UTC"}


async def with_a_job(data: Path, name: str) -> None:
    """A scheduler works in the folder for a moment, and has one more job afterwards."""
    import httpx

    async with running(Settings(data=data, demo=False, grace_ms=0)) as scheduler:
        transport = httpx.ASGITransport(app=scheduler.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.post("/v1/jobs", json={"name": name, "schedule": EVERY_DAY, "target": {"url": URL}})
            assert answer.status_code == 201, answer.text


async def names_in(data: Path) -> list[str]:
    """The jobs that a scheduler finds in the folder."""
    import httpx

    async with running(Settings(data=data, demo=False, grace_ms=0)) as scheduler:
        transport = httpx.ASGITransport(app=scheduler.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return sorted(job["name"] for job in (await client.get("/v1/jobs")).json()["items"])


@pytest.fixture
def data(home: Path) -> Path:
    """A folder with the job `first`, and beside it a backup that has only that one."""
    folder = home / "data"
    asyncio.run(with_a_job(folder, "first"))
    (folder / "pepper").write_text("p" * 64)
    (folder / "pepper").chmod(0o600)
    return folder


def test_a_backup_says_what_is_in_it_and_a_restore_what_may_repeat(offline: Cli, data: Path) -> None:
    taken = offline("backup", "b.db", "--data", "data")
    assert taken.exit_code == 0, taken.stderr
    assert "jobs\t1" in taken.stdout
    assert "checked\tevery page" in taken.stdout
    asyncio.run(with_a_job(data, "second"))

    done = offline("restore", "b.db", "--data", "fresh")
    assert done.exit_code == 0, done.stderr
    for said in ("taken ", "may repeat", "higher fencing tokens", "UNKNOWN", "pepper\trestored", "schedkit up --data"):
        assert said in done.stdout
    assert asyncio.run(names_in(Path("fresh"))) == ["first"]
    assert asyncio.run(names_in(data)) == ["first", "second"], "the folder that it was taken of is not touched"
    assert Path("fresh/pepper").read_text() == "p" * 64
    assert Path("fresh/pepper").stat().st_mode & 0o777 == 0o600
    assert b"p" * 64 not in Path("fresh/dev.db").read_bytes()


def test_a_backup_is_written_over_only_when_asked_to(offline: Cli, data: Path) -> None:
    assert offline("backup", "b.db", "--data", str(data)).exit_code == 0
    again = offline("backup", "b.db", "--data", str(data))
    assert (again.exit_code, "[FILE_EXISTS]" in again.stderr) == (4, True)
    assert offline("backup", "b.db", "--data", str(data), "--force", "-o", "json").exit_code == 0
    nothing = offline("backup", "c.db", "--data", "nowhere")
    assert (nothing.exit_code, "[DATA_FOLDER_UNUSABLE]" in nothing.stderr) == (9, True)
    assert not Path("c.db").exists()
    assert not Path("nowhere").exists()


def test_a_folder_with_data_needs_its_name_typed_and_yes_is_not_enough(offline: Cli, data: Path) -> None:
    offline("backup", "b.db", "--data", "data")
    asyncio.run(with_a_job(data, "second"))
    before = (data / "dev.db").read_bytes()
    for flags in ([], ["--yes"], ["--confirm", "other"]):
        refused = offline("restore", "b.db", "--data", "data", *flags)
        assert (refused.exit_code, "[NOT_CONFIRMED]" in refused.stderr) == (8, True)
    would = offline("restore", "b.db", "--data", "data", "--dry-run", "-o", "json")
    assert json.loads(would.stdout)["replaces"] is True
    assert (data / "dev.db").read_bytes() == before

    done = json.loads(
        offline("restore", "b.db", "--data", "data", "--confirm", "data", "--reason", "a test", "-o", "json").stdout
    )
    assert (done["jobs"], done["open_runs"], done["pepper"]) == (1, 0, "there already")
    assert asyncio.run(names_in(data)) == ["first"]
    kept = Path(done["replaced"])
    assert kept.read_bytes() == before
    assert sorted(path.name for path in data.iterdir()) == ["dev.db", kept.name, "lock", "pepper"]


def test_a_pepper_of_other_keys_is_kept_beside_the_one_that_comes(offline: Cli, data: Path) -> None:
    offline("backup", "b.db", "--data", "data")
    (data / "pepper").write_text("q" * 64)
    done = json.loads(offline("restore", "b.db", "--data", "data", "--confirm", "data", "-o", "json").stdout)
    assert done["pepper"].startswith("restored; the one before is pepper.replaced-")
    assert (data / "pepper").read_text() == "p" * 64
    assert [path.read_text() for path in data.glob("pepper.replaced-*")] == ["q" * 64]


def test_a_dry_run_says_what_becomes_of_the_folder(offline: Cli, data: Path, home: Path) -> None:
    offline("backup", "b.db", "--data", "data")
    (home / "empty").mkdir()
    for folder, would in (("data", "replace the database of"), ("empty", "restore into"), ("fresh", "make")):
        assert f"would\t{would} {folder}\n" in offline("restore", "b.db", "--data", folder, "--dry-run").stdout
    assert not (home / "fresh").exists()


def test_a_folder_in_use_is_refused_and_nothing_is_asked(offline: Cli, data: Path) -> None:
    offline("backup", "b.db", "--data", "data")
    held = DataFolder(data)
    try:
        for flags in (["--dry-run"], ["--confirm", "data"]):
            refused = offline("restore", "b.db", "--data", "data", *flags)
            assert (refused.exit_code, "[DATA_FOLDER_IN_USE]" in refused.stderr) == (4, True)
            assert "schedkit down --data data   stops it" in refused.stderr
            assert "schedkit up" not in refused.stderr
        assert offline("backup", "c.db", "--data", "data").exit_code == 0, "a backup needs no lock"
    finally:
        held.release()


def test_a_file_that_is_no_backup_changes_nothing(offline: Cli, data: Path) -> None:
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    Path("text").write_text("no database at all" * 400)
    for file in ("text", "data/dev.db"):
        refused = offline("restore", file, "--data", "data", "--confirm", "data")
        assert (refused.exit_code, "[BACKUP_INVALID]" in refused.stderr) == (9, True)
    assert offline("restore", "nowhere", "--data", "other").exit_code == 9
    assert not Path("other").exists()
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before


def test_a_damaged_database_can_be_replaced_and_is_kept_with_what_is_left_of_its_log(
    offline: Cli, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline("backup", "b.db", "--data", "data")
    (data / "dev.db").write_bytes(b"nothing that anybody could read" * 500)
    done = offline("restore", "b.db", "--data", "data", "--confirm", "data", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert asyncio.run(names_in(data)) == ["first"]

    (data / "dev.db").write_bytes(b"nothing that anybody could read" * 500)
    (data / "dev.db-wal").write_bytes(b"nor this")
    monkeypatch.setattr(backup, "fold", lambda database: False)
    monkeypatch.setattr(backup, "last_restore", lambda database: 0)
    done = offline("restore", "b.db", "--data", "data", "--confirm", "data", "-o", "json")
    assert done.exit_code == 0, done.stderr
    kept = Path(json.loads(done.stdout)["replaced"])
    assert kept.read_bytes().startswith(b"nothing")
    assert kept.with_name(kept.name + "-wal").read_bytes() == b"nor this"
    assert asyncio.run(names_in(data)) == ["first"]


def test_a_database_that_another_program_has_open_is_left_alone(offline: Cli, data: Path) -> None:
    offline("backup", "b.db", "--data", "data")
    with sqlite3.connect(data / "dev.db") as other:
        other.execute("SELECT count(*) FROM items").fetchone()
        refused = offline("restore", "b.db", "--data", "data", "--confirm", "data")
        assert refused.exit_code == 9
        assert "another program has dev.db open" in refused.stderr
    other.close()
    assert asyncio.run(names_in(data)) == ["first"]
    assert not list(data.glob("*restoring*"))


def test_what_came_to_be_there_after_the_look_is_not_replaced(offline: Cli, data: Path) -> None:
    offline("backup", "b.db", "--data", "data")
    plan = backups.look(Path("b.db"), Path("fresh"))
    asyncio.run(with_a_job(Path("fresh"), "second"))
    with pytest.raises(Conflict, match="since it was looked at"):
        backups.restore(plan, None)
    assert asyncio.run(names_in(Path("fresh"))) == ["second"]


def test_a_backup_of_an_older_version_is_brought_to_this_one(
    offline: Cli, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline("backup", "b.db", "--data", "data")
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "CREATE TABLE later (n INTEGER)"))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(backup, "VERSION", schema.VERSION)
    assert offline("restore", "b.db", "--data", "fresh").exit_code == 0
    with sqlite3.connect("fresh/dev.db") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    database.close()


def test_a_clock_that_is_behind_the_backup_is_refused(
    offline: Cli, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens after a restore count from its time, so that time may not be one that has been."""
    offline("backup", "b.db", "--data", "data")
    monkeypatch.setattr(backups, "SystemClock", lambda: SystemClock(-3_600_000))
    refused = offline("restore", "b.db", "--data", "fresh")
    assert (refused.exit_code, "[CLOCK_BEHIND]" in refused.stderr) == (4, True)
    assert not Path("fresh").exists()


KILLED = """
    import os, shutil, signal
    from pathlib import Path
    from schedkit import backups

    def trapped(real, at, passed=[0]):
        def call(*args, **rest):
            if passed[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            passed[0] += 1
            return real(*args, **rest)
        return call

    for step in range(100):
        folder = Path(f"step-{step}")
        shutil.copytree("data", folder)
        if not (child := os.fork()):
            plan = backups.look(Path("b.db"), folder)
            for name in ("replace", "link", "fsync", "unlink", "ftruncate"):
                setattr(os, name, trapped(getattr(os, name), step))
            backups.restore(plan, None)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL), code
        if code == 0:
            break
"""


def stored_in(folder: Path) -> tuple[list[str], bool]:
    """The names of the jobs, and whether the store says that it was restored."""
    with sqlite3.connect(folder / "dev.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        jobs = [json.loads(row[0])["name"] for row in database.execute("SELECT body FROM items WHERE sort = 'JOB'")]
        marked = database.execute("SELECT count(*) FROM items WHERE (partition, sort) = ('META', 'restored')")
        found = sorted(jobs), bool(marked.fetchone()[0])
    database.close()
    return found


def test_kill_9_at_each_step_of_a_restore_leaves_the_old_state_or_the_new_one(offline: Cli, data: Path) -> None:
    """Before the rename the folder is as it was, after it the restore is whole; and it can be done again either way."""
    offline("backup", "b.db", "--data", "data")
    asyncio.run(with_a_job(data, "second"))
    done = subprocess.run(
        [sys.executable, "-c", dedent(KILLED)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    steps = sorted(Path().glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))
    seen = [stored_in(folder) for folder in steps]
    old, new = (["first", "second"], False), (["first"], True)
    assert set(map(str, seen)) == {str(old), str(new)}
    assert seen == sorted(seen, key=lambda state: state == new), "there is one moment at which it becomes true"
    assert seen.count(old) > 5, "there are steps to be killed at"
    for folder in (steps[0], steps[seen.count(old) - 1], steps[-1]):
        again = offline("restore", "b.db", "--data", str(folder), "--confirm", folder.name)
        assert again.exit_code == 0, again.stderr
        assert stored_in(folder) == new
        assert not list(folder.glob("*restoring*"))
