"""`schedkit doctor`: is everything in place, from this terminal to the server; each finding with its fix."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schedkit import __version__
from schedkit.cli import show, values
from schedkit.cli.context import clock_offset_ms
from schedkit.cli.failures import ExitCode, Refusal
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.cli.settings import user_file
from schedkit.doctor import Finding, Level, fail, machine, ok, private, warn
from schedkit.errors import NotFound, SchedkitError
from schedkit.model.time import SECOND_MS

if TYPE_CHECKING:
    from schedkit.client import Client

PLACES: Final = ("dev",)
DEFAULT_DATA: Final = Path(".schedkit")
CLOCK_OFF_MS: Final = SECOND_MS  # H3: an offset above a second is worth an alarm
HEADER_MS: Final = SECOND_MS // 2  # as far as a Date header of whole seconds may be wrong
NARROW: Final = 80
WIDTH: Final = 13
TONES: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@dataclass(slots=True)
class Clock:
    """How far this machine's clock is from the server's; None where the server did not say."""

    offset_ms: int | None = None


def doctor(
    me: Invocation,
    fix: Annotated[
        bool, typer.Option("--fix", help="Do the harmless repairs: make folders, take rights from others.")
    ] = False,
    place: Annotated[str, typer.Option("--for", metavar="dev", help="What has to be in place.")] = "dev",
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The data folder to look at.")] = DEFAULT_DATA,
) -> None:
    """Check that everything needed is in place; exit 10 when something is not.

    Examples:
      schedkit doctor
      schedkit doctor --fix --data /var/lib/schedkit
    """
    values.choice(place, PLACES, "--for")
    clock = Clock()
    findings = [*machine(data, repair=fix), *_settings(me, repair=fix), *_server(me, clock), *_terminal(me)]
    counts = {level.value: sum(finding.level is level for finding in findings) for level in Level}
    failed = counts[Level.FAIL] > 0
    doc: dict[str, Any] = {"ok": not failed, "clock_offset_ms": clock.offset_ms, "counts": counts}
    doc |= {"checks": [asdict(finding) | {"level": finding.level.value} for finding in findings]}
    summary = ", ".join(f"{number} {level}" for level, number in counts.items() if number)
    lines = [line for finding in findings for line in _lines(me, finding)]
    me.show(One("schedkit.doctor/v1", doc, [*lines, f"{show.count(len(findings), 'check')}: {summary}"], exact=True))
    if failed:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _lines(me: Invocation, finding: Finding) -> Iterator[str]:
    level = me.style.screen.paint(f"{finding.level.value:<4}", TONES[finding.level])
    yield f"{level}  {finding.check:<{WIDTH}}{show.line(finding.text)}{'   (repaired)' if finding.repaired else ''}"
    if finding.fix is not None:
        yield f"{'':<{WIDTH + 6}}fix: {show.line(finding.fix)}"


# ── this machine's settings and terminal ─────────────────────────────────────────────────────────────────────────────


def _settings(me: Invocation, *, repair: bool) -> Iterator[Finding]:
    settings = me.settings
    for refusal in settings.broken:
        yield fail("settings", refusal.message, "schedkit config edit")
    if not settings.broken:
        yield ok("settings", f"{show.count(len(settings.files), 'file')}, {show.count(len(settings.found), 'context')}")
    if (mine := user_file()).is_file():
        yield from private("settings", mine, 0o600, repair=repair)
    try:
        context = me.context
    except Refusal as refusal:
        yield fail("context", refusal.message, refusal.fix[0] if refusal.fix else "schedkit context list")
        return
    yield ok("context", f"{context.name}, {context.url}")
    if context.auth == "token-file" and (file := Path(context.token_file or "").expanduser()).is_file():
        yield from private("token file", file, 0o600, repair=repair)


def _terminal(me: Invocation) -> Iterator[Finding]:
    screen = me.style.screen
    if not sys.stdout.isatty():
        yield ok("terminal", "none: output goes to a file or a program")
        return
    if not screen.unicode:
        said = f"its encoding is {sys.stdout.encoding}; what it cannot show is escaped"
        yield warn("terminal", said, "export LC_ALL=C.UTF-8")
    if screen.width < NARROW:
        yield warn("terminal", f"it is {screen.width} columns wide; tables drop columns", f"make it {NARROW} or wider")
    colour = "colour" if screen.color else f"no colour (TERM={os.environ.get('TERM', '')}, or NO_COLOR, or a setting)"
    yield ok("terminal", f"{screen.width} columns, {sys.stdout.encoding}, {colour}")


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _server(me: Invocation, clock: Clock) -> Iterator[Finding]:
    """From the address to readiness; what comes after a failure would only repeat it."""
    try:
        client = me.client_of(me.context)
    except Refusal:
        return  # said above
    try:
        yield from _asked(me, client, clock)
    finally:
        client.close()


def _asked(me: Invocation, client: Client, clock: Clock) -> Iterator[Finding]:
    started = values.now_ms()
    try:
        with me.asking():
            answer = client.call("GET", "/healthz")
    except SchedkitError as trouble:
        start = "schedkit up, or schedkit context list"
        yield (warn if me.context.built_in else fail)("server", trouble.detail, start)
        return
    yield ok("server", f"{me.context.url} answers")
    clock.offset_ms = clock_offset_ms(answer.headers.get("date"), (started + values.now_ms()) // 2)
    yield from _compared(clock)
    try:
        who = client.whoami()
        yield ok("auth", f"{who['role']} of team {who['team_id']}, tenant {who['tenant_id']}")
        yield _versions(client.version())
    except NotFound:
        yield warn("auth", "the server is too old to say who you are to it", "upgrade the server")
    except Refusal as refusal:
        yield fail("auth", refusal.message, refusal.fix[0] if refusal.fix else "schedkit context show")
        return
    except SchedkitError as refused:
        yield fail("auth", refused.detail, refused.fix[0] if refused.fix else "schedkit context show")
        return
    yield _ready(client)


def _compared(clock: Clock) -> Iterator[Finding]:
    if clock.offset_ms is None:
        return
    if abs(clock.offset_ms) <= CLOCK_OFF_MS + HEADER_MS:
        yield ok("clock", "as the server's, to a second")
    else:
        which = "behind" if clock.offset_ms > 0 else "ahead of"
        yield warn("clock", f"this machine's is more than a second {which} the server's", "run NTP on both machines")


def _versions(said: dict[str, Any]) -> Finding:
    theirs = said.get("version")
    if theirs != __version__:
        return warn("versions", f"the server is {theirs}, this program {__version__}", "upgrade the older one")
    return ok("versions", f"{__version__} here and there")


def _ready(client: Client) -> Finding:
    try:
        client.call("GET", "/readyz", repeatable=False)
    except SchedkitError as trouble:
        answered = trouble.extra.get("http_status") is not None  # then its reason is what it is not ready for
        return fail("ready", f"no: {trouble.reason if answered else trouble.detail}", "schedkit status")
    return ok("ready", "jobs can be created and run")
