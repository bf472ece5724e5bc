"""The warden: a small process beside a worker, which ends the worker's programs when the worker dies without a word.

worker ──"+4711"──► warden      a program has started, in process group 4711
worker ──"-4711"──► warden      nothing of it is left
worker ──(dies)───► warden      end of file: SIGKILL to every group that is left

It is a process of its own since nothing in a worker runs after kill -9, and it works on groups since a program has
children. Run by its path with the bare interpreter, so it imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True, slots=True)
class Warden:
    """The worker's end of it."""

    _process: subprocess.Popen[bytes]

    def began(self, group: int) -> None:
        """A program runs in this process group."""
        self._say(f"+{group}")

    def ended(self, group: int) -> None:
        """Nothing of this process group is left."""
        self._say(f"-{group}")

    def close(self) -> None:
        """Let it end."""
        self._pipe.close()
        self._process.wait()

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process.stdin is not None, "started with a pipe"
        return self._process.stdin

    def _say(self, word: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # somebody killed it: programs run on unguarded, as they did before
            self._pipe.write(f"{word}\n".encode())
            self._pipe.flush()


def start() -> Warden:
    """Start a warden, in a session of its own: ctrl+c is for the worker."""
    process = subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Warden(process)


def watch(words: Iterable[str]) -> None:
    """Read until the worker is gone, then end what it left."""
    groups: set[int] = set()
    for word in words:
        group = int(word[1:])
        if word.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in sorted(groups):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    watch(sys.stdin)
