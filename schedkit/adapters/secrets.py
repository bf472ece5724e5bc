"""Secrets of the machine: environment variables with one prefix, and the files of one folder. A job can read no others.

    env:SCHEDKIT_SECRET_BILLING        a variable of the scheduler's environment
    file:/run/secrets/billing          a file in the folder that the deployment names; links are followed, but not out

A line end at the end of a value is not part of it: editors and `echo` leave one behind.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from schedkit.model.secrets import Missing, Secret

ENV: Final = "env:"
FILE: Final = "file:"
PREFIX: Final = "SCHEDKIT_SECRET_"
FOLDER_VARIABLE: Final = "SCHEDKIT_SECRETS_DIR"
MAX_SECRET_BYTES: Final = 4_096  # an HMAC hashes a key longer than its block of 64 bytes anyway

_VARIABLE: Final = re.compile(rf"{PREFIX}[A-Z0-9_]{{1,100}}")


class MachineSecrets:
    """`Secrets` over an environment and one folder; None: no files. Each call reads anew, so a new value needs no
    restart where it is a file."""

    def __init__(self, environment: Mapping[str, str], folder: Path | None = None) -> None:
        self._environment = environment
        self._folder = folder.absolute() if folder is not None else None

    def refusal(self, ref: str) -> str | None:
        if ref.startswith(ENV):
            if not _VARIABLE.fullmatch(ref.removeprefix(ENV)):
                return f"only variables named {PREFIX}… (capitals, digits and _) may be read"
            return None
        if not ref.startswith(FILE):
            return f"a reference is {ENV}{PREFIX}NAME or {FILE}/folder/name"
        if self._folder is None:
            return f"this scheduler reads no secrets from files; {FOLDER_VARIABLE} would name their folder"
        place = Path(ref.removeprefix(FILE))
        if not ref.isprintable() or ".." in place.parts or not place.is_relative_to(self._folder):
            return f"only files in the folder that {FOLDER_VARIABLE} names may be read"
        return None

    async def read(self, ref: str) -> Secret | Missing:
        why = self.refusal(ref)
        if why is not None:
            return Missing(f"the secret {ref} may not be read: {why}")
        if ref.startswith(ENV):
            value = os.fsencode(self._environment.get(ref.removeprefix(ENV), ""))
        else:
            try:
                value = await asyncio.to_thread(self._file, Path(ref.removeprefix(FILE)))
            except OSError as error:
                return Missing(f"the secret {ref} cannot be read: {(error.strerror or str(error)).lower()}")
        value = value.rstrip(b"\r\n")
        return Secret(value) if value else Missing(f"the secret {ref} is not there, or empty")

    def _file(self, place: Path) -> bytes:
        """Raises OSError, also for what is no plain file, is too large, or is a link that leads out of the folder."""
        assert self._folder is not None, "refusal came first"
        real = place.resolve(strict=True)
        if not real.is_relative_to(self._folder.resolve()):
            raise OSError("it is a link that leads out of the folder")
        with open(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # a pipe would block
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise OSError("it is no plain file")
            if facts.st_size > MAX_SECRET_BYTES:
                raise OSError(f"it is longer than {MAX_SECRET_BYTES} bytes")
            return file.read(MAX_SECRET_BYTES)
