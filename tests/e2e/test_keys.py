"""A scheduler that asks for keys, from the first one on, as real processes; and where a key's text never stands."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.processes import Up, environment, schedkit, up


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Up]:
    with up(tmp_path, "--auth", "api-key", "--no-demo") as scheduler:
        yield scheduler


def run(scheduler: Up, *args: str) -> subprocess.CompletedProcess[str]:
    return schedkit(scheduler.folder, *args)


def first_admin(scheduler: Up) -> str:
    """The text of the first key, once a context uses it."""
    made = run(scheduler, "key", "bootstrap", "--data", "data", "--out", "admin.key")
    assert made.returncode == 0, made.stderr
    added = run(scheduler, "context", "add", "here", "--url", scheduler.url, "--token-file", "admin.key")
    assert added.returncode == 0, added.stderr
    used = run(scheduler, "context", "use", "here")
    assert used.returncode == 0, used.stderr
    return (scheduler.folder / "admin.key").read_text().strip()


def test_a_context_with_a_token_file_works_from_the_first_key_to_the_audit_log(keyed: Up) -> None:
    refused = schedkit(keyed.folder, "job", "list", url=keyed.url)
    assert refused.returncode == 5
    assert "UNAUTHENTICATED" in refused.stderr
    secret = first_admin(keyed)
    assert secret not in keyed.log.read_text()
    assert (keyed.folder / "admin.key").stat().st_mode & 0o777 == 0o600
    assert (keyed.folder / "data" / "pepper").stat().st_mode & 0o777 == 0o600
    assert "key bootstrap --data" in keyed.log.read_text()

    tested = json.loads(run(keyed, "context", "test", "-o", "json").stdout)
    assert (tested["whoami"]["role"], tested["whoami"]["tenant_id"]) == ("admin", "default")
    made = run(keyed, "key", "create", "look", "--role", "viewer", "--out", "look.key")
    assert made.returncode == 0, made.stderr
    run(keyed, "context", "add", "look", "--url", keyed.url, "--token-file", "look.key")
    denied = run(keyed, "-c", "look", "job", "pause", "x")
    assert (denied.returncode, "FORBIDDEN" in denied.stderr) == (5, True)

    listed = json.loads(run(keyed, "audit", "list", "-o", "json").stdout)["items"]
    told = [(record["action"], record["outcome"]) for record in listed]
    assert told == [("pause_job", "REFUSED"), ("create_key", "DONE"), ("bootstrap_key", "DONE")]
    assert run(keyed, "audit", "verify").returncode == 0
    headers = {"Authorization": f"Bearer {secret}", "X-Forwarded-For": "203.0.113.7"}
    assert httpx.delete(f"{keyed.url}/v1/keys/{listed[1]['resource']}", headers=headers).status_code == 200
    last = json.loads(run(keyed, "audit", "list", "-n", "1", "-o", "json").stdout)["items"][0]
    assert (last["action"], last["address"]) == ("revoke_key", "127.0.0.1"), "nobody says where they come from"


def test_a_record_that_was_changed_in_the_database_is_found(keyed: Up) -> None:
    first_admin(keyed)
    for name in ("one", "two"):
        assert run(keyed, "key", "create", name, "--out", f"{name}.key").returncode == 0
    ends = json.loads(run(keyed, "audit", "verify", "-o", "json").stdout)["ends"]
    keyed.stop()
    with sqlite3.connect(keyed.folder / "data" / "dev.db") as database:
        where = "partition = 'AUDIT#default#0' AND sort LIKE '%2'"
        body = json.loads(database.execute(f"SELECT body FROM items WHERE {where}").fetchone()[0])  # noqa: S608
        body["action"] = "list_keys"
        database.execute(f"UPDATE items SET body = ? WHERE {where}", (json.dumps(body).encode(),))  # noqa: S608
    keyed.start()
    found = run(keyed, "audit", "verify")
    assert found.returncode == 10
    assert "chain 0, record 2 was changed" in found.stdout
    assert run(keyed, "audit", "verify", "--expect", ends[0]).returncode == 10

    keyed.stop()
    with sqlite3.connect(keyed.folder / "data" / "dev.db") as database:
        database.execute("DELETE FROM items WHERE partition = 'AUDIT#default#0' AND sort > '000000000001'")
    keyed.start()
    assert run(keyed, "audit", "verify").returncode == 0, "that the end is gone cannot be seen from the rest"
    cut = run(keyed, "audit", "verify", "--expect", ends[0])
    assert cut.returncode == 10
    assert "is not there" in cut.stdout


def test_a_key_s_text_stands_in_its_own_file_and_nowhere_else(keyed: Up) -> None:
    secret = first_admin(keyed)
    said = []
    for line in (
        ["--debug", "-v", "job", "list"],
        ["--debug", "key", "list", "-o", "json"],
        ["--debug", "key", "show", secret.split("_")[2]],
        ["--debug", "job", "show", "nothing"],
        ["--debug", "context", "show", "-o", "json"],
        ["--debug", "config", "list", "--origin"],
        ["--debug", "audit", "list", "-o", "json"],
        ["--debug", "api", "GET", "/v1/whoami"],
        ["--debug", "status"],
    ):
        done = run(keyed, *line)
        said.append(done.stdout + done.stderr)
    (keyed.folder / "admin.key").write_text(secret[:-1] + "\n")
    wrong = run(keyed, "--debug", "-v", "job", "list")
    assert wrong.returncode == 5
    keyed.stop()
    (keyed.folder / "admin.key").write_text(secret + "\n")
    away = run(keyed, "--debug", "-v", "job", "list")
    assert away.returncode == 7
    said += [wrong.stdout, wrong.stderr, away.stdout, away.stderr]
    files = [file for file in keyed.folder.rglob("*") if file.is_file() and file.name != "admin.key"]
    kept = [file.read_bytes() for file in files] + [text.encode() for text in said]
    random = secret.rpartition("_")[2][:40]
    forms = [random.encode(), random.encode().hex().encode(), base64.b64encode(random.encode())[:-4]]
    assert (keyed.folder / "data" / "dev.db").exists()
    assert not [form for form in forms for content in kept if form in content]


def test_a_key_that_has_no_file_to_go_to_is_not_made(keyed: Up) -> None:
    first_admin(keyed)
    taken = run(keyed, "key", "create", "again", "--out", "admin.key")
    assert (taken.returncode, "File exists" in taken.stderr) == (2, True)
    assert [key["name"] for key in json.loads(run(keyed, "key", "list", "-o", "json").stdout)["items"]] == [
        "first-admin"
    ]


def test_a_scheduler_that_asks_for_keys_may_be_reached_from_elsewhere(tmp_path: Path) -> None:
    def refused(*flags: str) -> str:
        command = schedkit(tmp_path, "up", "--data", str(tmp_path / "data"), "--no-demo", *flags)
        assert command.returncode in (5, 9), command.stderr
        return command.stderr

    assert "--auth api-key" in refused("--host", "0.0.0.0")  # noqa: S104 - that is the question
    assert "needs a data folder" in refused("--auth", "api-key", "--ephemeral")
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "pepper").write_text("short")
    (tmp_path / "data" / "pepper").chmod(0o600)
    assert "PEPPER_UNUSABLE" in refused("--auth", "api-key")
    (tmp_path / "data" / "pepper").unlink()
    with up(tmp_path, "--auth", "api-key", "--host", "0.0.0.0", "--no-demo") as open_one:  # noqa: S104
        answer = schedkit(tmp_path, "job", "list", url=open_one.url)
        assert answer.returncode == 5


def test_the_pepper_may_come_from_elsewhere(tmp_path: Path) -> None:
    place = tmp_path / "secret"
    place.write_text("p" * 40)
    env = environment(tmp_path) | {"SCHEDKIT_PEPPER_FILE": str(place)}
    place.chmod(0o644)
    command = ["key", "bootstrap", "--data", "data", "--out", "admin.key"]

    def bootstrap() -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "schedkit", *command]
        return subprocess.run(line, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert "can be read by others" in bootstrap().stderr
    assert not (tmp_path / "admin.key").exists()
    place.chmod(0o600)
    assert bootstrap().returncode == 0
    assert not (tmp_path / "data" / "pepper").exists()
