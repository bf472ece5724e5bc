"""The entry point. `--version` and a bare `schedkit` are answered before anything heavy is imported."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130  # the shells' word for ctrl+c


def main() -> None:
    """Run one command line and leave with its exit code."""
    try:
        _answer(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (`schedkit job list | head -1`). What is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)


def _answer(argv: list[str]) -> None:
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us (`>&-`)
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is escaped
    if "_SCHEDKIT_COMPLETE" not in os.environ:  # the shell is not asking what could come next
        if argv in (["--version"], ["-V"]):
            from schedkit import __version__

            print(f"schedkit {__version__}", flush=True)
            return
        if not argv:
            from schedkit.cli import front

            print(front.page(), flush=True)
            return
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # its own command line: a sixth of our start
    from schedkit.cli.app import run

    run(argv)


if __name__ == "__main__":
    main()
