"""What is kept in the repository: nothing of the machine it was written on, and exact versions of what it needs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.tree import ROOT, tracked

# Written in parts, so that this file does not contain them.
REGISTRIES = re.compile(
    "|".join(("py" + "pi\\.", "python" + "hosted", "index" + "-url", "npm" + "js", "find" + "-links"))
)
HOMES = re.compile("|".join(("/root" + "/", "/home" + "/[a-z]", "/Users" + "/", "/work" + "/(main|shared|seed)")))
URL = re.compile(r"\bhttps?://(?:[^/\s\"'`)>@]*@)?(\[[^\]]*\]|[A-Za-z0-9.-]+\.[A-Za-z]{2,})")
FOR_EXAMPLES = (".example", ".invalid", ".test", ".internal", "example.com", "example.org", "example.net")
SOURCES = ("www.apache.org", "json-schema.org")  # texts and names that the repository quotes
REQUIREMENT = re.compile(
    r"^([a-z0-9._-]+)==(\S+)((?: ; [^\\]+)?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\\n|\n))+)", re.M
)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def test_no_file_names_a_registry_or_a_place_of_this_machine() -> None:
    texts = {str(path.relative_to(ROOT)): text_of(path) for path in tracked()}
    named = {name: REGISTRIES.findall(text) + HOMES.findall(text) for name, text in texts.items()}
    assert not {name: found for name, found in named.items() if found}
    assert not [name for name, text in texts.items() if str(ROOT) in text]


def test_a_host_that_a_file_names_is_an_example() -> None:
    named: dict[str, set[str]] = {}
    for path in tracked():
        hosts = {host.lower() for host in URL.findall(text_of(path)) if not host.startswith("[")}
        odd = {host for host in hosts if not host.endswith(FOR_EXAMPLES) and host not in SOURCES}
        if odd:
            named[str(path.relative_to(ROOT))] = odd
    assert not named


def test_every_requirement_has_one_version_and_its_hashes() -> None:
    text = text_of(ROOT / "requirements.txt")
    assert "".join(found[0] for found in REQUIREMENT.finditer(text)) == text
    named = [found[1] for found in REQUIREMENT.finditer(text)]
    assert len(named) == len(set(named))
    assert {"aiohttp", "croniter", "fastapi", "tzdata", "pytest"} <= set(named)
