"""One invocation: what was said on the line, the settings it runs under, and the ways to ask, to show and to watch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from schedkit.cli import output, values
from schedkit.cli.failures import Code, ExitCode, Refusal, exit_code, printable
from schedkit.cli.output import Items, Screen, Style, View
from schedkit.cli.settings import FORMATS, Context, Settings, load
from schedkit.errors import InvalidInput, Reason, SchedkitError

if TYPE_CHECKING:
    from schedkit.cli.frame import Change
    from schedkit.client import Client
    from schedkit.client.connection import Token
    from schedkit.client.occurrences import Occurrences

T = TypeVar("T")

ASKING_AFTER_S: Final = 0.3  # what people do not notice
TOKEN_COMMAND_S: Final = 30
MIN_INTERVAL_MS: Final = 100
CLEAR_BELOW: Final = "\x1b[J"


@dataclass
class Invocation:
    """`given` holds the shared flags of this line; everything else is found when it is first needed."""

    given: dict[str, Any] = field(default_factory=dict)
    line: Sequence[str] = ()  # as it was typed
    sleep: Callable[[float], None] = time.sleep
    remembered: dict[str, str] = field(default_factory=dict)  # what was looked up for this line
    _client: Client | None = None
    _lost: bool = False

    # Settings

    @cached_property
    def settings(self) -> Settings:
        return load(self.given)

    def tell_what_is_broken(self) -> None:
        """One line for each settings file that a command did without."""
        for refusal in self.settings.broken if "settings" in self.__dict__ else ():
            self.say(f"warning: {refusal.message}; built-in defaults were used")

    @cached_property
    def context(self) -> Context:
        return self.settings.context

    @cached_property
    def zone(self) -> str | None:
        """The zone of --tz, --utc and their settings; refused under the name of the place that said it."""
        zone = self.settings.zone
        try:
            values.zone_of(zone)
        except InvalidInput as refusal:
            origin = self.settings.values["tz"].origin
            refusal.field = "--tz" if origin == "flag" else origin
            raise
        return zone

    @property
    def quiet(self) -> bool:
        return bool(self.settings.get("quiet"))

    @cached_property
    def style(self) -> Style:
        wanted = str(self.settings.get("output"))
        if wanted not in FORMATS:
            raise Refusal(Code.USAGE, ExitCode.USAGE, f"-o is one of {', '.join(FORMATS)}; not {wanted!r}")
        fields = tuple(name.strip() for name in str(self.settings.get("fields") or "").split(",") if name.strip())
        return Style(wanted, fields, self._screen(sys.stdout), self.quiet)

    @property
    def for_people(self) -> bool:
        """The output is read by a person, not by a program."""
        return self.style.format in ("table", "wide") and not self.quiet

    def _screen(self, stream: Any) -> Screen:
        return Screen(stream, no_color=bool(self.settings.get("no_color")))

    # The server

    @property
    def client(self) -> Client:
        """The client of the context in use."""
        if self._client is None:
            self._client = self.client_of(self.context)
        return self._client

    @property
    def occurrences(self) -> Occurrences:
        """What the client of the context in use asks about occurrences."""
        from schedkit.client.occurrences import Occurrences

        return Occurrences(self.client)

    def client_of(self, context: Context) -> Client:
        from schedkit.client import Client

        timeout_ms = values.duration_ms(str(self.settings.get("timeout")), "--timeout")
        headers = {
            f"Schedkit-{name.title()}": value
            for name in ("tenant", "region", "cell")
            if (value := getattr(context, name)) is not None
        }
        return Client(
            context.url,
            token=token_of(context),
            timeout_s=max(1, timeout_ms) / 1_000,
            headers=headers,
            sleep=self.sleep,
            on_exchange=self._log_exchange if self.settings.get("verbose") or self.settings.get("debug") else None,
        )

    @property
    def token(self) -> Token:
        """The way to the bearer token of the context in use."""
        return token_of(self.context)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _log_exchange(self, method: str, path: str, outcome: str, took_ms: float) -> None:
        print(f"{method} {self.context.url}{path}  {outcome}  {took_ms:.0f} ms", file=sys.stderr)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Say who is asked when an answer takes longer than people notice. On a terminal only; the line goes away."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        done = threading.Event()

        def tell() -> None:
            if not done.wait(ASKING_AFTER_S):
                sys.stderr.write(f"asking {self.context.name} ...")
                sys.stderr.flush()
                done.wait()
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            done.set()
            teller.join()

    def changing(self, change: Change, what: str) -> None:
        """The door of every change: refused in a read-only context, asked about in a protected one."""
        if change.idempotency_key == "":
            raise InvalidInput(Reason.INVALID_ARGUMENT, "an idempotency key is not empty", field="--idempotency-key")
        self.writable()
        if self.context.protected and not change.yes:
            self.confirm(f"{self.context.name} is protected. {what}?")
        if change.reason is not None:
            self.client.headers = {**self.client.headers, "Schedkit-Reason": quote(change.reason, safe=" ,.;:!?()/")}

    def writable(self) -> None:
        """Refused in a read-only context."""
        if self.context.read_only:
            raise Refusal(
                Code.READ_ONLY_CONTEXT,
                ExitCode.NOT_ALLOWED,
                f"context {self.context.name} is read-only",
                fix=[f"schedkit context update {self.context.name} --no-read-only"],
            )

    def confirm(self, question: str) -> None:
        """Ask y/N on the terminal; no terminal is no."""
        if self.settings.get("no_input") or not sys.stdin.isatty():
            raise Refusal(
                Code.NOT_CONFIRMED, ExitCode.NOT_CONFIRMED, "this needs --yes when there is no terminal to ask on"
            )
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refusal(Code.NOT_CONFIRMED, ExitCode.NOT_CONFIRMED, "nothing was changed")

    def confirm_typed(self, question: str, word: str, given: str | None) -> None:
        """For what cannot be undone: the word is typed, or was given with --confirm; --yes does not do."""
        if given is None:
            if self.settings.get("no_input") or not sys.stdin.isatty():
                raise Refusal(
                    Code.NOT_CONFIRMED,
                    ExitCode.NOT_CONFIRMED,
                    f"this needs --confirm {word} when there is no terminal to ask on",
                )
            sys.stderr.write(f"{question} type  {word}  to go on: ")
            sys.stderr.flush()
            given = sys.stdin.readline().strip()
        if given.replace(",", "") != word:
            raise Refusal(Code.NOT_CONFIRMED, ExitCode.NOT_CONFIRMED, f"it takes {word}, not {given or 'nothing'}")

    # Saying and showing

    def say(self, text: str) -> None:
        """A message for the person: stderr, not with -q."""
        if not self.quiet:
            print(printable(text), file=sys.stderr, flush=True)

    def show(self, view: View) -> None:
        """The data: stdout."""
        output.write(output.render(view, self.style))
        if isinstance(view, Items) and not view.items and self.for_people:
            self.say(view.empty)

    def watch(self, look: Callable[[], View], interval: str) -> None:
        """Until ctrl+c: repaint on a terminal; in a pipe one JSON line for each thing that changed."""
        pause_s = max(MIN_INTERVAL_MS, values.duration_ms(interval, "--interval")) / 1_000
        live = self.style.screen.terminal and self.style.format in ("table", "wide")
        seen: dict[str, str] = {}
        painted = 0
        view: View | None = look()
        while True:
            if view is not None and live:
                painted = self._repaint(view, painted)
            elif view is not None:
                for line in _changes(view, self.style, seen):
                    output.write(line)
            self.sleep(pause_s)
            view = self.again(look)

    def again(self, look: Callable[[], T]) -> T | None:
        """Look once more; None while the server is away, since whoever watches wants to see it come back."""
        try:
            found = look()
        except SchedkitError as trouble:
            if exit_code(trouble) is not ExitCode.UNREACHABLE:
                raise
            if not self._lost:
                self.say(f"lost {self.context.name} ({trouble.detail}); trying again, ctrl+c stops")
            self._lost = True
            return None
        if self._lost:
            self.say(f"{self.context.name} is back")
        self._lost = False
        return found

    def _repaint(self, view: View, painted: int) -> int:
        text = output.render(view, self.style) or (view.empty if isinstance(view, Items) else "")
        lines = text.split("\n")[: max(1, shutil.get_terminal_size().lines - 1)]
        up = f"\x1b[{painted}A\r" if painted else ""
        output.write(f"{up}{CLEAR_BELOW}" + "\n".join(lines))
        return len(lines)


def _changes(view: View, style: Style, seen: dict[str, str]) -> Iterator[str]:
    """The items that look other than last time, as JSON lines."""
    docs = view.items if isinstance(view, Items) else [view.doc]
    output.known(style.fields, docs, "--fields")
    for doc in docs:
        ident = output.raw(output.at_path(doc, view.ident)) if view.ident else ""
        shown = {path: output.at_path(doc, path) for path in style.fields} if style.fields else dict(doc)
        text = style.json(shown)
        if seen.get(ident) != text:
            seen[ident] = text
            yield text


def token_of(context: Context) -> str | Callable[[], str] | None:
    """The way to the bearer token of a context: a file or a command, read when a call is made."""
    match context.auth:
        case "token-file":
            return lambda: _token_from_file(context)
        case "token-command":
            return lambda: _token_from_command(context)
        case _:
            return None


def _token_from_file(context: Context) -> str:
    try:
        token = Path(context.token_file or "").expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise no_token(context, f"cannot read {context.token_file}: {problem}") from problem
    return token or _empty(context)


def _token_from_command(context: Context) -> str:
    try:
        done = subprocess.run(  # noqa: S602 - the user's own command from the user's own settings
            context.token_command or "",
            shell=True,
            capture_output=True,
            text=True,
            timeout=TOKEN_COMMAND_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise no_token(context, f"its token command failed: {type(problem).__name__}") from problem
    return done.stdout.strip() or _empty(context)


def _empty(context: Context) -> str:
    raise no_token(context, "the token is empty")


def no_token(context: Context, problem: str) -> Refusal:
    return Refusal(
        Code.NO_TOKEN,
        ExitCode.NOT_ALLOWED,
        f"no token for context {context.name}: {problem}",
        fix=[f"schedkit context update {context.name} --token-file FILE"],
    )


def each(
    me: Invocation, names: Sequence[str], act: Callable[[str], Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], SchedkitError | None]:
    """Do one thing to several; a refusal is told and the rest goes on. Returns what was done and the first refusal."""
    from schedkit.cli.failures import report

    done: list[Mapping[str, Any]] = []
    first: SchedkitError | None = None
    for name in names:
        try:
            done.append(act(name))
        except SchedkitError as refusal:
            if len(names) == 1:
                raise
            first = first or refusal
            report(refusal, as_json=me.style.format in ("json", "jsonl"), color=False)
    return done, first


def single(items: Sequence[str], flag: str) -> str:
    """Exactly one value of a flag that may stand once only."""
    if len(items) != 1:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{flag} takes one value", field=flag)
    return items[0]
