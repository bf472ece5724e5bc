"""Every command of the tree, and a line that makes each succeed against the fake server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from schedkit.cli.app import app
from tests.cli.samples import BACKFILL_ID, KEY_ID, REDRIVE_ID, RUN_ID

SIGNED = Path(__file__).with_name("signed")  # a call as its target received it
JOBS = Path(__file__).with_name("jobs.yaml")
NO_JOBS = Path(__file__).with_name("no-jobs.yaml")

# What each command needs to end well. The tests of those that start and stop a server or a worker are elsewhere.
ARGUMENTS: dict[str, list[str]] = {
    "cron next": ["0 8 * * *"],
    "cron explain": ["0 8 * * *"],
    "cron check": ["15 8 * * *"],
    "cron convert": ["0 8 * * *", "--to", "quartz"],
    "cron dst": ["--year", "2026", "--tz", "Europe/Berlin"],
    "job list": [],
    "job show": ["digest"],
    "job create": ["--name", "digest", "--every", "10m", "--target", "demo-echo"],
    "job update": ["digest", "--window", "5m"],
    "job pause": ["digest"],
    "job resume": ["digest"],
    "job skip-next": ["digest"],
    "job cancel": ["digest"],
    "job trigger": ["digest"],
    "job runs": ["digest"],
    "job next": ["digest"],
    "job ledger": ["digest"],
    "job backfill": ["digest", "--from", "7d", "--yes"],
    "job backfills": [],
    "job backfill-pause": [BACKFILL_ID],
    "job backfill-resume": [BACKFILL_ID],
    "job backfill-stop": [BACKFILL_ID],
    "job validate": ["-f", str(JOBS)],
    "job diff": ["-f", str(NO_JOBS)],
    "job apply": ["-f", str(NO_JOBS)],
    "job export": ["digest"],
    "job import": ["--from", "crontab", str(Path(__file__).parents[1] / "files" / "crontab")],
    "key list": [],
    "key show": [KEY_ID],
    "key create": ["deploy", "--role", "operator"],
    "key rotate": [KEY_ID],
    "key revoke": [KEY_ID],
    "audit list": [],
    "audit verify": [],
    "run list": [],
    "run show": [RUN_ID],
    "run wait": [RUN_ID],
    "run cancel": [RUN_ID],
    "run retry": [RUN_ID],
    "run resolve": [RUN_ID, "--as", "succeeded", "--yes"],
    "run tail": ["--limit", "1"],
    "dlq list": [],
    "dlq show": [RUN_ID],
    "dlq redrive": ["--yes"],
    "dlq redrives": [],
    "dlq redrive-pause": [REDRIVE_ID],
    "dlq redrive-resume": [REDRIVE_ID],
    "dlq redrive-continue": [REDRIVE_ID],
    "dlq redrive-stop": [REDRIVE_ID],
    "dlq drop": ["--confirm", "2"],
    "worker list": [],
    "worker poll": ["ledger"],
    "worker heartbeat": [RUN_ID, "--epoch", "1"],
    "worker complete": [RUN_ID, "--epoch", "1", "--outcome", "succeeded"],
    "worker release": [RUN_ID, "--epoch", "1"],
    "sim run": ["--seed", "7", "--hours", "0.02", "--jobs", "2"],
    "sim swarm": ["--seeds", "1", "--hours", "0.02", "--jobs", "2", "--workers", "1"],
    "sim replay": [str(Path(__file__).with_name("history.jsonl"))],
    "sim scenario": [],
    "target verify-signature": [
        *("--secret-file", str(SIGNED / "secret"), "--body", str(SIGNED / "body.json"), "--at", "2026-09-28T12:00:05Z"),
        *("--header", f"@{SIGNED / 'headers'}"),
    ],
    "init": ["--force"],
    "status": [],
    "events": ["--no-follow"],
    "doctor": [],
    "version": [],
    "explain": ["epoch"],
    "completion": ["bash"],
    "api": ["GET", "/v1/jobs"],
    "context list": [],
    "context show": [],
    "context use": ["here"],
    "context add": ["fresh", "--url", "http://127.0.0.1:1"],
    "context update": ["here", "--protected"],
    "context remove": ["here"],
    "context test": [],
    "config list": [],
    "config get": ["output"],
    "config set": ["tz", "UTC"],
    "config path": [],
    "config edit": [],
}
SERVERS = ("up", "down", "worker run", "worker exec", "key bootstrap", "backup", "restore")


def walk() -> Iterator[tuple[str, Any]]:
    """(path, command) of every leaf."""
    root = get_command(app)
    ctx = typer.Context(root, info_name="schedkit")
    for name in root.list_commands(ctx):  # type: ignore[attr-defined]
        command = root.get_command(ctx, name)  # type: ignore[attr-defined]
        if hasattr(command, "list_commands"):
            inner = typer.Context(command, info_name=name, parent=ctx)
            for verb in command.list_commands(inner):
                yield f"{name} {verb}", command.get_command(inner, verb)
        else:
            yield name, command


LEAVES = dict(walk())
