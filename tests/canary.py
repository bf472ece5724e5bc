"""A canary: a value nobody else has, put where a secret stands, and looked for in everything that comes out.

    canary = Canary.hatched()
    sinks = {"GET /v1/jobs": answer.content, **files(data_folder)}      whatever was printed, logged, sent or stored
    assert not canary.heard_in(sinks)

A feature that writes somewhere new adds a sink to the test of `tests/e2e/test_canary.py`.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

LETTERS = 24  # enough that no other text holds them, and few enough to stand on one page of a database


@dataclass(frozen=True)
class Canary:
    """Letters and digits only: they stay as they are in JSON, URLs and reprs, whatever the text around them does."""

    song: str

    @classmethod
    def hatched(cls) -> Self:
        return cls("".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(LETTERS)))

    @cached_property
    def forms(self) -> Mapping[str, bytes]:
        """How it looks when it was encoded, whatever stands before and after it."""
        plain = self.song.encode()
        hexadecimal = plain.hex()
        percent = "".join(f"%{byte:02x}" for byte in plain)
        found = {"plain": plain, "upper": plain.upper(), "lower": plain.lower(), "backwards": plain[::-1]}
        found |= {"hex": hexadecimal.encode(), "HEX": hexadecimal.upper().encode()}
        found |= {"url": percent.encode(), "URL": percent.upper().encode()}
        found |= {"utf-16": self.song.encode("utf-16-le"), "json": "".join(rf"\u{byte:04x}" for byte in plain).encode()}
        for shift in range(3):  # base64 depends on how many bytes stand before
            whole = base64.b64encode(b"\0" * shift + plain)
            found[f"base64 + {shift}"] = whole[-(-shift * 8 // 6) : (shift + len(plain)) * 8 // 6]
        return found

    def heard_in(self, sinks: Mapping[str, bytes | str]) -> list[str]:
        """`sink: form` for each place in which it is heard."""
        heard = []
        for sink, content in sinks.items():
            raw = content.encode(errors="surrogateescape") if isinstance(content, str) else content
            urls = raw.replace(b"-", b"+").replace(b"_", b"/")  # the base64 of URLs
            heard += [f"{sink}: {form}" for form, sound in self.forms.items() if sound in raw or sound in urls]
        return heard


def files(folder: Path) -> dict[str, bytes]:
    """Every file under a folder as a sink, databases with their logs among them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
