"""One run of schemathesis against a scheduler of its own: the phases examples, coverage and fuzzing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from schedkit.api.access import Auth
from tests.architecture.tree import ROOT
from tests.fuzz.served import served

CONFIG: Final = Path(__file__).with_name("schemathesis.toml")


def fuzz(
    folder: Path,
    auth: Auth,
    *,
    seed: int,
    examples: int,
    phases: str = "examples,coverage,fuzzing",
    only: str | None = None,
    quiet: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run it; what it prints is shown, or where `quiet` kept. Exit code 1 when it found something."""
    with served(folder / "data", auth) as there:
        command = [
            str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIG), "--no-color",
            "run", f"{there.url}/openapi.json", "--phases", phases, "--seed", str(seed),
            "--max-examples", str(examples),
        ]  # fmt: skip
        for name, value in there.headers.items():
            command += ["--header", f"{name}: {value}"]
        if only is not None:
            command += ["--include-path-regex", only]
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "SCHEDKIT_FUZZ_NAMES": json.dumps(there.names),
        }
        return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=quiet, check=False)
