"""`schedkit doctor`: what is in place, what is not, how to mend it, and what --fix mends by itself."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedkit import doctor
from schedkit.adapters.sqlite import health
from schedkit.adapters.sqlite.folder import DataFolder
from schedkit.adapters.sqlite.schema import VERSION
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.doctor import Level
from schedkit.model.keys import ZONES_KEY
from schedkit.model.writes import Write
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import problem


def checks(cli: Cli, *flags: str, env: Mapping[str, str] | None = None) -> dict[str, list[dict[str, Any]]]:
    """The findings by the name of their check."""
    doc = json.loads(cli("doctor", "-o", "json", *flags, env=env).stdout)
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in doc["checks"]:
        found.setdefault(finding["check"], []).append(finding)
    return found


def levels(cli: Cli, check: str, *flags: str, env: Mapping[str, str] | None = None) -> list[str]:
    return [finding["level"] for finding in checks(cli, *flags, env=env)[check]]


async def database(folder: Path, zones: str = "2020a") -> None:
    folder.mkdir(mode=0o700)
    store = SqliteStore(folder / "dev.db")
    await store.apply(Write(ZONES_KEY, "recounted", (), {"version": zones}))
    store.close()


def test_everything_in_place_is_one_page_and_exit_0(cli: Cli) -> None:
    result = cli("doctor", "--fix")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("ok    python       3.")
    assert list(dict.fromkeys(line[6:19].strip() for line in lines[:-1])) == [
        "python", "packages", "data folder", "space", "lock", "settings", "context", "server", "clock", "auth",
        "versions", "ready", "terminal",
    ]  # fmt: skip
    assert lines[-1].endswith(" ok")


def test_a_finding_has_its_fix_and_a_failure_is_exit_10(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /readyz", 503, {"status": "not ready", "reason": "the disk is full"})
    result = cli("doctor")
    assert result.exit_code == 10
    assert "fail  ready        no: the disk is full\n" in result.stdout
    assert "                   fix: schedkit status\n" in result.stdout
    doc = json.loads(cli("doctor", "-o", "json").stdout)
    assert (doc["ok"], doc["counts"]["fail"]) == (False, 1)


def test_a_server_that_is_not_there_fails_unless_nobody_named_one(
    offline: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {"SCHEDKIT_URL": "http://127.0.0.1:1"}
    assert levels(offline, "server", env=away) == ["fail"]
    assert "auth" not in checks(offline, env=away), "what comes after would only repeat it"
    monkeypatch.setattr("schedkit.cli.settings.DEFAULT_URL", "http://127.0.0.1:1")
    assert levels(offline, "server") == ["warn"]


def test_a_key_that_is_not_accepted_fails_with_the_server_s_own_fix(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/whoami", 401, problem(401, "UNAUTHENTICATED", fix=["schedkit context update NAME"]))
    (found,) = checks(cli)["auth"]
    assert (found["level"], found["fix"]) == ("fail", "schedkit context update NAME")


def test_another_version_and_another_clock_are_warned_of(
    cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer("GET /v1/version", 200, {"version": "9.9", "tzdata": "2026f"})
    assert levels(cli, "versions") == ["warn"]
    for offset_s, said in ((0, "ok"), (-30, "warn"), (30, "warn")):
        here = int((time.time() - offset_s) * 1_000)
        monkeypatch.setattr("schedkit.cli.values.now_ms", lambda at=here: at)
        (found,) = checks(cli)["clock"]
        assert found["level"] == said
    assert "behind the server's" in found["text"]


def test_settings_that_cannot_be_understood_fail_and_open_ones_are_closed(
    offline: Cli, server: FakeServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / "config.toml"
    monkeypatch.setenv("SCHEDKIT_CONFIG", str(path))
    path.write_text(
        f'current = "here"\n[context.here]\nurl = "{server.url}"\ntoken_file = "key"\nauth = "token-file"\n'
    )
    (home / "key").write_text("sk_dev_x")
    for file in (path, home / "key"):
        file.chmod(0o644)
    monkeypatch.chdir(home)
    assert levels(offline, "settings") == ["ok", "warn"]
    assert levels(offline, "token file") == ["warn"]
    fixed = checks(offline, "--fix")
    assert [fixed["settings"][1]["repaired"], fixed["token file"][0]["repaired"]] == [True, True]
    assert path.stat().st_mode & 0o777 == (home / "key").stat().st_mode & 0o777 == 0o600
    assert levels(offline, "settings") == ["ok", "ok"]
    path.write_text("curent = 3\n")
    found = checks(offline)
    assert [finding["level"] for finding in found["settings"]] == ["fail", "ok"]
    assert "curent is no setting" in found["settings"][0]["text"]
    assert found["context"][0]["level"] == "fail"


def test_a_data_folder_is_made_and_closed_only_when_asked(cli: Cli, home: Path) -> None:
    data = home / "data"
    assert levels(cli, "data folder", "--data", "data") == ["warn"]
    assert not data.exists()
    made = checks(cli, "--data", "data", "--fix")["data folder"]
    assert (made[0]["repaired"], data.stat().st_mode & 0o777) == (True, 0o700)
    data.chmod(0o755)
    assert levels(cli, "data folder", "--data", "data") == ["warn"]
    assert checks(cli, "--data", "data", "--fix")["data folder"][0]["repaired"] is True
    assert data.stat().st_mode & 0o777 == 0o700
    assert list(data.iterdir()) == [], "what was tried out is gone"
    (home / "file").touch()
    assert levels(cli, "data folder", "--data", "file/data", "--fix") == ["fail"]


def test_a_database_is_looked_at_as_a_whole_unless_a_scheduler_works_in_it(cli: Cli, home: Path) -> None:
    asyncio.run(database(home / "data"))
    found = checks(cli, "--data", "data")
    assert found["database"][0]["text"] == f"schema {VERSION}; every page looked at"
    assert found["zone data"][0]["level"] == "warn"
    assert "computed with 2020a" in found["zone data"][0]["text"]
    held = DataFolder(home / "data")
    held.note(url="http://127.0.0.1:8700")
    found = checks(cli, "--data", "data")
    held.release()
    assert "when no scheduler runs" in found["database"][0]["text"]
    assert found["lock"][0]["text"] == f"held by pid {os.getpid()}, http://127.0.0.1:8700"
    (home / "data" / "dev.db").write_bytes(b"no database" * 1_000)
    broken = cli("doctor", "--data", "data")
    assert broken.exit_code == 10
    assert "fix: keep a copy of data, then put a backup back: schedkit restore FILE --data data" in broken.stdout


def test_a_database_of_another_version_or_program_is_said(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(database(home / "data"))
    monkeypatch.setattr(health, "VERSION", VERSION + 1)
    assert levels(cli, "database", "--data", "data") == ["warn"]
    monkeypatch.setattr(health, "VERSION", VERSION - 1)
    assert levels(cli, "database", "--data", "data") == ["fail"]
    monkeypatch.setattr(health, "APPLICATION_ID", 1)
    assert "another program" in checks(cli, "--data", "data")["database"][0]["text"]


@pytest.mark.parametrize(("free", "level"), [(10**6, "fail"), (10**8, "warn"), (10**12, "ok")])
def test_room_is_counted(free: int, level: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert levels(cli, "space", "--fix") == [level]


def test_a_file_system_without_locks_or_shared_memory_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(file: int, how: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    (found,) = checks(cli, "--fix")["data folder"][-1:]
    assert (found["level"], "has no locks" in found["text"]) == ("fail", True)


def test_secrets_are_for_the_scheduler_only(cli: Cli, home: Path) -> None:
    env = {"SCHEDKIT_SECRETS_DIR": str(home / "secrets")}
    assert "secrets" not in checks(cli)
    assert levels(cli, "secrets", env=env) == ["fail"]
    (home / "secrets").mkdir(mode=0o755)
    (home / "secrets" / "billing").write_text("x")
    (home / "secrets" / "billing").chmod(0o644)
    assert levels(cli, "secrets", env=env) == ["warn", "warn"]
    assert [finding["repaired"] for finding in checks(cli, "--fix", env=env)["secrets"]] == [True, True]
    assert levels(cli, "secrets", env=env) == ["ok"]


def test_python_and_packages_are_compared_with_what_was_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.python((3, 10, 1)).level is Level.FAIL
    assert doctor.python((3, 13, 0)).level is Level.OK
    needs = ["typer>=0.29,<0.30", "rich>=99", "no-such-thing>=1", 'pytest>=9; extra == "dev"']
    monkeypatch.setattr("importlib.metadata.requires", lambda name: needs)
    found = [(finding.level.value, finding.text.split()[0]) for finding in doctor.packages()]
    assert found == [("warn", "rich"), ("fail", "no-such-thing")]


@pytest.mark.parametrize(
    ("version", "bounds", "inside"),
    [
        ("3.11", ">=3.11,<4", True),
        ("4.0", ">=3.11,<4", False),
        ("0.29.2", ">=0.29,<0.30", True),
        ("2026.10", ">=2026.6", True),
        ("1.0", "", True),
        ("8.2.8", "==8.2.8", True),
    ],
)
def test_bounds_of_versions(version: str, bounds: str, inside: bool) -> None:
    assert doctor.within(version, bounds) is inside
