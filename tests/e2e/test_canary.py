"""No secret comes out: jobs succeed, fail, hang and miss it; then all that was printed, logged, sent and stored."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from schedkit.adapters.system import SystemClock
from schedkit.model.time import rfc3339
from schedkit.target import verify
from tests.canary import Canary, files
from tests.e2e.processes import Target, Up, target, until, up

NAME = "SCHEDKIT_SECRET_CANARY"
Encoding = Callable[[bytes], bytes]
ENCODINGS: dict[str, Encoding] = {
    "as it is": bytes,
    "in json": lambda value: json.dumps({"key": value.decode()}).encode(),
    "in capitals": bytes.upper,
    "hex": lambda value: value.hex().encode(),
    "hex in capitals": lambda value: value.hex().upper().encode(),
    "base64": base64.b64encode,
    "base64 of urls": base64.urlsafe_b64encode,
    "in a url": lambda value: quote(value).encode(),
    "in a repr": lambda value: repr([value]).encode(),
    "in utf-16": lambda value: value.decode().encode("utf-16-le"),
}


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b'{"key":"'])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_canary_is_heard_in_every_encoding(encoding: str, before: bytes) -> None:
    canary = Canary.hatched()
    content = b"... " + ENCODINGS[encoding](before + canary.song.encode() + b"/+ ~") + b" ..."
    assert canary.heard_in({"log": content})
    assert not Canary.hatched().heard_in({"log": content})


class Stage:
    """A scheduler that knows the canaries, a target, and everything that was heard of them."""

    def __init__(self, scheduler: Up, there: Target, canary_env: dict[str, str]) -> None:
        self.scheduler = scheduler
        self.there = there
        self.env = scheduler.env | canary_env | {"SCHEDKIT_URL": scheduler.url}
        self.sinks: dict[str, bytes | str] = {}

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = httpx.request(method, self.scheduler.url + path, timeout=10, **options)
        place = f"{method} {path} {len(self.sinks)}"
        self.sinks[place] = str(answer.headers).encode() + answer.content
        return answer

    def type(self, *args: str) -> int:
        """One command line, by somebody whose shell has the secret too."""
        done = subprocess.run(
            [sys.executable, "-m", "schedkit", *args],
            capture_output=True, env=self.env, cwd=self.scheduler.folder, timeout=60, check=False,
        )  # fmt: skip
        self.sinks[f"schedkit {' '.join(args)}"] = done.stdout + done.stderr
        return done.returncode

    def runs(self, path: str, ref: str, previous: str | None = None) -> dict[str, Any]:
        """A job that is due now, and its run once it has ended, or is waiting for its next attempt."""
        auth = {"type": "HMAC_SHA256", "secret_ref": ref} | ({"previous_secret_ref": previous} if previous else {})
        made = self.ask(
            "POST",
            "/v1/jobs",
            json={
                "schedule": {"type": "ONCE", "run_at": rfc3339(SystemClock().now())},
                "target": {"url": self.there.url + path, "timeout_seconds": 1, "auth": auth},
                "retry_policy": {"max_attempts": 2, "initial_backoff_seconds": 0},
            },
        )
        assert made.status_code == 201, made.text
        job_id = made.json()["job_id"]

        def ended() -> dict[str, Any] | None:
            items = self.ask("GET", f"/v1/jobs/{job_id}/runs").json()["items"]
            return items[0] if items and items[0]["finished_at"] else None

        return until(ended, f"an end of {path}")


def test_no_secret_is_heard_outside(tmp_path: Path) -> None:
    raw, encoded, broken = Canary.hatched(), Canary.hatched(), Canary.hatched()
    home, kept = tmp_path / "home", tmp_path / "secrets"
    for folder in (home, kept):
        folder.mkdir()
    whsec = "whsec_" + base64.b64encode(encoded.song.encode()).decode()
    (kept / "encoded").write_text(whsec)
    (kept / "broken").write_text(f"whsec_ {broken.song} is no base64")
    env = {NAME: f'{raw.song} /+"', "SCHEDKIT_SECRETS_DIR": str(kept), "PYTHONASYNCIODEBUG": "1"}
    with target() as there, up(home, "--no-demo", "-v", "--debug", env=env) as scheduler:
        there.answers |= {
            "/fails": lambda key, seen: (400, 0.0),
            "/flaky": lambda key, seen: (503 if seen == 1 else 200, 0.0),
            "/hangs": lambda key, seen: (200, 1.5),
        }
        stage = Stage(scheduler, there, env)
        told = [
            stage.runs("/works", f"env:{NAME}", f"file:{kept}/encoded"),
            stage.runs("/fails", f"file:{kept}/encoded"),
            stage.runs("/flaky", f"env:{NAME}"),
            stage.runs("/hangs", f"env:{NAME}"),
            stage.runs("/missing", f"file:{kept}/absent"),
            stage.runs("/broken", f"file:{kept}/broken"),
        ]
        assert [run["status"] for run in told] == ["SUCCEEDED", "FAILED", "SUCCEEDED", "FAILED", "FAILED", "FAILED"]
        assert f"file:{kept}/absent" in told[4]["attempts"][0]["error"]
        assert {call.path for call in there.calls} == {"/works", "/fails", "/flaky", "/hangs"}
        first = next(call for call in there.calls if call.path == "/works")
        for secret in (env[NAME], whsec):  # it was really used
            verify(first.headers, first.body, secret)
        stage.sinks |= {f"call {call.path} {call.attempt}": f"{call.headers} {call.body!r}" for call in there.calls}
        the_secret_itself(stage, raw)
        every_page(stage, told)
        every_command(stage, told[0]["job_id"], told[4]["run_id"], first.headers, kept)
        stage.sinks |= {f"running: {name}": content for name, content in files(home).items()}
        assert any(name.endswith("-wal") for name in stage.sinks)
        scheduler.stop()
    stage.sinks |= {f"stopped: {name}": content for name, content in files(home).items()}
    assert "claim" in (home / "up.out").read_text(), "the log says what it does"
    for canary in (raw, encoded, broken):
        assert canary.heard_in(stage.sinks) == []
    assert Canary(told[0]["job_id"]).heard_in(stage.sinks), "what is no secret is heard"


def the_secret_itself(stage: Stage, raw: Canary) -> None:
    """Somebody gives the secret where its reference belongs."""
    for auth in (
        raw.song,
        {"type": "HMAC_SHA256", "secret_ref": raw.song},
        {"type": "HMAC_SHA256", "secret": raw.song},
    ):
        body = {"schedule": {"type": "INTERVAL", "every_seconds": 60}, "target": {"url": stage.there.url, "auth": auth}}
        assert stage.ask("POST", "/v1/jobs", json=body).status_code == 400


def every_page(stage: Stage, told: list[dict[str, Any]]) -> None:
    for path in ("/v1/jobs", "/v1/runs", "/v1/ops/snapshot", "/metrics", "/healthz", "/readyz", "/openapi.json"):
        assert stage.ask("GET", path).status_code == 200
    for run in told:
        assert stage.ask("GET", f"/v1/jobs/{run['job_id']}").status_code == 200
        assert stage.ask("GET", f"/v1/runs/{run['run_id']}").status_code == 200


def every_command(stage: Stage, job: str, run: str, headers: dict[str, str], kept: Path) -> None:
    saved = stage.scheduler.folder / "call.headers"
    saved.write_text("\n".join(f"{name}: {value}" for name, value in headers.items()))
    verify_line = ["target", "verify-signature", "--header", f"@{saved}", "--debug", "--secret-file"]
    lines: list[tuple[int, list[str]]] = [
        (0, ["job", "show", job]),
        (0, ["job", "show", job, "-o", "json", "--debug", "-v"]),
        (0, ["job", "show", job, "--spec", "-o", "yaml"]),
        (0, ["job", "list", "-o", "wide"]),
        (0, ["run", "show", run, "--debug"]),
        (0, ["run", "list", "-o", "csv"]),
        (0, ["config", "list", "--debug"]),
        (0, ["status", "-o", "json"]),
        (0, ["api", "GET", "/v1/jobs"]),
        (0, ["job", "create", "--name", "cli", "--every", "1h", "--target", stage.there.url, "--debug", "-v",
             "--hmac-secret-ref", f"env:{NAME}"]),
        (9, ["job", "create", "--every", "1h", "--target", stage.there.url, "--hmac-secret-ref", "env:HOME"]),
        (0, [*verify_line, str(kept / "encoded"), "--body", os.devnull]),
        (10, [*verify_line, str(kept / "encoded"), "--body", str(saved)]),
        (9, [*verify_line, str(kept / "broken"), "--body", os.devnull]),
    ]  # fmt: skip
    assert [(stage.type(*line), line) for _, line in lines] == lines
