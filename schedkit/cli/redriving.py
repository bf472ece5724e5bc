"""Watching a redrive or a backfill: a line of progress, the question after the canary, and how it ended.

Exit 0 when every run of it ended well, 10 when some failed again or it was stopped, 8 when nobody said yes to the rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import typer

from schedkit.cli.backfillpages import backfill_page, backfill_progress
from schedkit.cli.dlqpages import canary_line, progress, redrive_page
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.frame import Change
from schedkit.cli.invocation import Invocation
from schedkit.model.redrives import RedriveState

FIRST_LOOK_S: Final = 0.2
SLOWEST_LOOK_S: Final = 1.0
TELL_EVERY_S: Final = 10.0  # where no terminal can be repainted
HINT: Final = "                ctrl+c leaves it running; schedkit dlq redrives shows it"
BACKFILL_HINT: Final = "                ctrl+c leaves it running; schedkit job backfills shows it"
MOST_LOOKED_AT: Final = 20  # runs of a canary whose times are asked for

Doc = Mapping[str, Any]
Act = Callable[[str, str], Doc]


def to_its_end(me: Invocation, redrive: Doc) -> None:
    """Watch until it has ended, ask where it waits for a yes, show it, and leave with the code of its end."""
    redrive_id = str(redrive["redrive_id"])
    try:
        while True:
            redrive = _until_still(me, redrive, partial(me.client.get_redrive, redrive_id), progress, HINT)
            if redrive["state"] != RedriveState.WAITING:
                break
            runs = [me.client.get_run(run_id) for run_id in redrive["canary_runs"][:MOST_LOOKED_AT]]
            me.say(canary_line(redrive, runs))
            left = max(0, redrive["total"] - redrive["redriven"])
            _ask(me, redrive_id, f"continue with {left:,} at {redrive['max_per_second']}/s?")
            redrive = me.client.move_redrive(redrive_id, "continue")
    except KeyboardInterrupt:
        me.say(f"\n{redrive_id} goes on; look at it: schedkit dlq redrives   end it: schedkit dlq redrive-stop ID")
        raise
    me.show(redrive_page(redrive, me.zone))
    if redrive["state"] != RedriveState.DONE or redrive["failed"]:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def backfill_to_its_end(me: Invocation, backfill: Doc) -> None:
    """Watch until it has ended or was paused, show it, and leave with the code of its end."""
    backfill_id = str(backfill["backfill_id"])
    look = partial(me.occurrences.get_backfill, backfill_id)
    try:
        backfill = _until_still(me, backfill, look, backfill_progress, BACKFILL_HINT)
    except KeyboardInterrupt:
        me.say(f"\n{backfill_id} goes on; look at it: schedkit job backfills   end it: schedkit job backfill-stop ID")
        raise
    me.show(backfill_page(backfill, me.zone))
    if backfill["state"] != RedriveState.DONE or backfill["failed"]:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _ask(me: Invocation, redrive_id: str, question: str) -> None:
    try:
        me.confirm(question)
    except Refusal as no:
        raise Refusal(
            Code.NOT_CONFIRMED,
            ExitCode.NOT_CONFIRMED,
            f"{no.message}; the rest of {redrive_id} waits",
            fix=[f"schedkit dlq redrive-continue {redrive_id}", f"schedkit dlq redrive-stop {redrive_id}"],
        ) from None


def _until_still(me: Invocation, redrive: Doc, look: Callable[[], Doc], told: Callable[[Doc], str], hint: str) -> Doc:
    """What was begun, once it waits for a person or has ended; a line says how far it is."""
    live = sys.stderr.isatty() and not me.quiet
    pause_s, told_at = FIRST_LOOK_S, time.monotonic()
    while RedriveState(redrive["state"]).driven:
        if live:
            sys.stderr.write(f"\r\x1b[K{told(redrive)}\n{hint}\x1b[1A\r")
            sys.stderr.flush()
        elif time.monotonic() - told_at >= TELL_EVERY_S:
            told_at = time.monotonic()
            me.say(told(redrive))
        me.sleep(pause_s)
        pause_s = min(SLOWEST_LOOK_S, pause_s * 1.5)
        redrive = me.again(look) or redrive
    if live:
        sys.stderr.write("\r\x1b[J")
    me.say(told(redrive))
    return redrive


def moved(me: Invocation, change: Change, found_id: str, verb: str, look: Callable[[str], Doc], act: Act) -> Doc:
    """A redrive or backfill after this verb; as it stands, and what would be done, in a dry run."""
    if change.dry_run:
        with me.asking():
            found = look(found_id)
        me.say(f"would {verb} {found_id}, which is {found['state']}")
        return found
    me.changing(change, f"{verb} {found_id}")
    with me.asking():
        return act(found_id, verb)
