"""A terminal of 120 x 40 for the commands of the docs: a page shows what a person sees, so the test is a person."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROWS, COLUMNS = 40, 120
PATIENCE_S: Final = 60
_PASSING: Final = re.compile(r"(asking |\d+ of )[^\r\n]* \.\.\.\r\x1b\[K")  # said while something is slow, then wiped


def run(command: str, folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """(exit code, what stood on the terminal) of a shell command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder, env=dict(env)
    ) as process:
        os.close(theirs)
        seen = bytearray()
        try:
            while chunk := os.read(ours, 65_536):
                seen += chunk
        except OSError:  # the last writer has gone
            pass
        finally:
            os.close(ours)
        code = process.wait(PATIENCE_S)
    return code, _PASSING.sub("", seen.decode()).replace("\r\n", "\n")
