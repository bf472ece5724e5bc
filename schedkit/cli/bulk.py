"""One thing done to many: which they are, a yes, then one after the other; ctrl+c stops after the one in flight.

    schedkit job pause --target billing -l team=growth

Nothing is everything: without a name and without a filter a line is wrong, and --all has to be said.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import typer

from schedkit.cli.failures import Code, ExitCode, Refusal, exit_code, report
from schedkit.cli.frame import Change
from schedkit.cli.invocation import Invocation
from schedkit.cli.lists import MOST_ROWS
from schedkit.cli.show import count
from schedkit.errors import Reason, SchedkitError

MOST_NAMED: Final = 5  # in the question
PAINT_AFTER_S: Final = 1.0  # what is done sooner needs no line of progress
TELL_EVERY_S: Final = 10.0  # where no terminal can be repainted

Doc = Mapping[str, Any]


@dataclass(slots=True)
class Outcome:
    """What was done, what was refused, and how many were not come to."""

    done: list[Doc] = field(default_factory=list)
    refused: list[SchedkitError] = field(default_factory=list)
    left: int = 0
    interrupted: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """The highest of them, and ctrl+c above all."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        return max((exit_code(refusal) for refusal in self.refused), default=ExitCode.DONE)

    @property
    def changed(self) -> int:
        """How many were refused because they were not as they had been shown."""
        return sum(refusal.reason == Reason.VERSION_CONFLICT for refusal in self.refused)


def by_filter(names: Sequence[str], narrowed: bool, everything: bool, line: str, noun: str = "JOB") -> bool:
    """Whether a filter says which ones; `line` is the command. Raises Refusal (USAGE) where both or nothing is said."""
    if bool(names) + narrowed + everything == 1:
        return not names
    if not names and not narrowed:
        said = f"{line} needs a {noun}, or a filter that says which ones"
        raise Refusal(Code.USAGE, ExitCode.USAGE, said, fix=[f"{line} digest", f"{line} --all --dry-run"])
    said = f"{line} takes names, or filters, or --all; not several of them"
    raise Refusal(Code.USAGE, ExitCode.USAGE, said)


def agreed(me: Invocation, change: Change, verb: str, noun: str, names: Sequence[str], narrowed: str) -> None:
    """Say what matches and ask. Raises Refusal (NOT_CONFIRMED; USAGE where there are more than a list shows)."""
    if len(names) >= MOST_ROWS:
        said = f"{MOST_ROWS:,} {noun}s or more match, and no more are looked at"
        raise Refusal(Code.USAGE, ExitCode.USAGE, said, fix=["narrow it down, and do it part by part"])
    shown = [*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])]
    scope = f" ({narrowed})" if narrowed else ""
    me.say(f"{me.context.name}: {verb} {count(len(names), noun)}{scope}: {', '.join(shown)}")
    me.changing(change, f"{verb} {count(len(names), noun)}")
    if not change.yes and not me.context.protected:
        me.confirm(f"{verb} them?")


def one_by_one(
    me: Invocation, found: Sequence[Doc], called: Callable[[Doc], str], act: Callable[[Doc], Doc]
) -> Outcome:
    """Do it to each; a refusal is told, by the name it is `called`, and the others go on.

    A server that is gone ends it, and so does ctrl+c.
    """
    outcome, told = Outcome(), _Progress(me, len(found))
    with _stoppable(told):
        for number, one in enumerate(found):
            if told.stopping:
                outcome.left, outcome.interrupted = len(found) - number, True
                break
            try:
                outcome.done.append(act(one))
            except SchedkitError as refusal:
                told.wipe()
                outcome.refused.append(refusal)
                refusal.detail = f"{called(one)}: {refusal.detail}"
                report(refusal, as_json=me.style.format in ("json", "jsonl"), color=False)
                if exit_code(refusal) is ExitCode.UNREACHABLE:
                    outcome.left = len(found) - number - 1
                    break
            told.tell(number + 1)
        told.wipe()
    return outcome


class _Progress:
    """`38 of 200` on stderr: on a terminal one line that is painted again, elsewhere a line now and then."""

    def __init__(self, me: Invocation, total: int) -> None:
        self._me = me
        self._total = total
        self._live = sys.stderr.isatty() and not me.quiet
        self._begun_at = self._told_at = time.monotonic()
        self._number = 0
        self._painted = False
        self.stopping = False

    def tell(self, number: int) -> None:
        self._number = number
        if self._live:
            if time.monotonic() - self._begun_at < PAINT_AFTER_S:
                return
            self._painted = True
            sys.stderr.write(f"\r\x1b[K{number} of {self._total}")
            sys.stderr.flush()
        elif time.monotonic() - self._told_at >= TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._me.say(f"{number} of {self._total}")

    def wipe(self) -> None:
        if self._painted:
            self._painted = False
            sys.stderr.write("\r\x1b[K")

    def stop(self, signum: int, frame: FrameType | None) -> None:
        """Once: after the one in flight. Twice: now."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        self.wipe()
        self._me.say(f"stopping after the one in flight ({self._number} of {self._total}); ctrl+c again drops it")


def summed(me: Invocation, outcome: Outcome, done: str, noun: str) -> None:
    """`paused 37 of 38 jobs, 1 changed meanwhile`, and leave by its code where not all went well."""
    total = len(outcome.done) + len(outcome.refused) + outcome.left
    others = {
        "changed meanwhile": outcome.changed,
        "refused": len(outcome.refused) - outcome.changed,
        "not touched": outcome.left,
    }
    parts = [f"{done} {len(outcome.done)} of {count(total, noun)}"]
    parts += [f"{number} {what}" for what, number in others.items() if number]
    me.say(", ".join(parts))
    if outcome.exit_code is not ExitCode.DONE:
        raise typer.Exit(outcome.exit_code)


@contextmanager
def _stoppable(told: _Progress) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, told.stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
