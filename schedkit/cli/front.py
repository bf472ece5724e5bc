"""The front page: the table of commands, and what a bare `schedkit` prints. Imports nothing but the standard library.

The table is where a command's module is found, so that only what is named is loaded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from schedkit import __version__

TAGLINE: Final = "run every job at the right time, and make it safe when machines fail"
LOOPBACK_ANSWERS_S: Final = 0.1  # a local port answers within a millisecond or not at all


class Entry(NamedTuple):
    """One word after `schedkit`: where its code is, and a line of help."""

    heading: str
    name: str
    module: str
    help: str


COMMANDS: Final = (
    Entry("start here", "up", "schedkit.cli.up", "Start everything on this machine"),
    Entry("start here", "doctor", "schedkit.cli.doctor", "Check that everything needed is in place"),
    Entry("start here", "init", "schedkit.cli.init", "Make a starter project"),
    Entry("every day", "job", "schedkit.cli.job", "Create, change and look at jobs"),
    Entry("every day", "cron", "schedkit.cli.cron", "Cron expressions, clock changes (works offline)"),
    Entry("every day", "run", "schedkit.cli.run", "Look at runs, wait for them, cancel them"),
    Entry("every day", "dlq", "schedkit.cli.dlq", "Dead letters: look at them, start them again, give them up"),
    Entry("every day", "target", "schedkit.cli.target", "Receive calls: check a signature (works offline)"),
    Entry("every day", "worker", "schedkit.cli.worker", "Run pull workers, look at them"),
    Entry("what if", "sim", "schedkit.cli.sim", "Simulate the scheduler with faults (works offline)"),
    Entry("operate", "status", "schedkit.cli.status", "One-page health, exit 10 if unhealthy"),
    Entry("operate", "events", "schedkit.cli.events", "Print events as they happen"),
    Entry("operate", "backup", "schedkit.cli.backup", "Copy a data folder into one file, also while it is in use"),
    Entry("operate", "restore", "schedkit.cli.backup", "Put a backup in the place of a data folder"),
    Entry("who may", "key", "schedkit.cli.key", "API keys: make, replace, revoke"),
    Entry("who may", "audit", "schedkit.cli.audit", "Who changed what, and whether the log is whole"),
    Entry("settings", "context", "schedkit.cli.context", "Which scheduler commands talk to"),
    Entry("settings", "config", "schedkit.cli.config", "Settings and where they came from"),
    Entry("settings", "completion", "schedkit.cli.completion", "Shell completion"),
    Entry("settings", "explain", "schedkit.cli.explain", "What a code or word means and what to do"),
    Entry("settings", "api", "schedkit.cli.api", "Call the HTTP API directly"),
    Entry("settings", "version", "schedkit.cli.version", "Version of client and server"),
    Entry("settings", "down", "schedkit.cli.up", "Stop the dev server"),
)
BY_NAME: Final = {entry.name: entry for entry in COMMANDS}

EXAMPLES: Final = (
    'schedkit job create --name report --cron "0 8 * * *" --tz America/New_York --target demo-echo',
    "schedkit run tail",
    "schedkit explain epoch",
)


def page() -> str:
    """Section by section, what there is, and which scheduler is in use."""
    lines = [f"schedkit {__version__}   {TAGLINE}", ""]
    for heading in dict.fromkeys(entry.heading for entry in COMMANDS):
        names = "   ".join(entry.name for entry in COMMANDS if entry.heading == heading)
        lines.append(f"{heading:<14}{names}")
    lines += ["", *(f"  {example}" for example in EXAMPLES), ""]
    lines.append(f"{_context()}      more: schedkit COMMAND -h      every word: schedkit explain --list")
    return "\n".join(lines)


def _context() -> str:
    from schedkit.cli.settings import load

    try:
        settings = load({})
        name, url = settings.context.name, settings.context.url
    except Exception:  # a broken settings file must not take the help page away
        return "context ? (schedkit config list says what is wrong)"
    heard = answers(url)
    return f"context {name} ({url}{'' if heard is None else ', up' if heard else ', not running'})"


def answers(url: str) -> bool | None:
    """Whether a scheduler on this machine takes connections; None where asking might take long."""
    import socket
    from urllib.parse import urlsplit

    place = urlsplit(url)
    if place.hostname not in ("127.0.0.1", "::1", "localhost"):
        return None
    try:
        with socket.create_connection((place.hostname, place.port or 80), timeout=LOOPBACK_ANSWERS_S):
            return True
    except OSError:
        return False
