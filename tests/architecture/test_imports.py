"""Imports go down the house, and the rules and nouns know no machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, Module, modules

PURE = frozenset({
    "__future__", "base64", "bisect", "calendar", "collections", "collections.abc", "dataclasses", "datetime",
    "difflib", "email.utils", "enum", "functools", "hashlib", "heapq", "hmac", "importlib.resources", "ipaddress",
    "itertools", "json", "math", "operator", "re", "string", "types", "typing", "urllib.parse", "zoneinfo",
    "croniter", "tzdata", "ulid",
})  # fmt: skip
HEAVY = ("aiohttp", "boto3", "fastapi", "httpx", "pydantic", "sqlite3", "textual", "uvicorn")


def test_the_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", modules("schedkit/engine", "schedkit/model"), ids=lambda module: module.name)
def test_rules_and_nouns_import_what_is_on_the_list(module: Module) -> None:
    foreign = {name for name in module.imports() if not name.startswith("schedkit")}
    assert foreign <= PURE


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []], ids=["help", "version", "nothing"])
def test_the_first_pages_load_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    look = f"""
import atexit, json, sys
sys.argv = ["schedkit", *{arguments!r}]
heavy = {HEAVY!r}
atexit.register(lambda: print(json.dumps([name for name in heavy if name in sys.modules]), file=sys.stderr))
from schedkit.__main__ import main
main()
"""
    env = {"HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    # Typer stands on pydantic; nothing of ours asks for it
    assert set(json.loads(done.stderr)) <= {"pydantic"}
