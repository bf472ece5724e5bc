"""Following the server: events as they come, again and again from where a line broke."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from schedkit.cli.failures import ExitCode, exit_code
from schedkit.cli.invocation import Invocation
from schedkit.errors import NotFound, SchedkitError

if TYPE_CHECKING:
    from schedkit.client.streaming import Frame

PATH: Final = "/v1/ops/stream"
PAUSE_S: Final = 1.0


def frames(me: Invocation, **query: Any) -> Iterator[Frame]:
    """The frames of a stream that is opened again when it ends; the first one that cannot be opened is an error."""
    from schedkit.client.streaming import streaming

    last: str | None = None
    while True:
        try:
            with streaming(me.client, PATH, last, **query) as heard:
                for frame in heard:
                    last = frame.place or last
                    yield frame
        except SchedkitError as trouble:
            if last is None or exit_code(trouble) is not ExitCode.UNREACHABLE:
                raise
            me.say(f"lost {me.context.name} ({trouble.detail}); trying again, ctrl+c stops")
        me.sleep(PAUSE_S)


def ended_runs(
    me: Invocation, look: Callable[[], list[dict[str, Any]]], pause_s: float
) -> Iterator[list[dict[str, Any]]]:
    """Runs that ended, some of them more than once: what `look` finds, then what the stream says.

    Where there is no stream, or none at the moment, it is looked again after each pause.
    """
    from schedkit.client.streaming import streaming

    yield look()
    streams = True
    while True:
        try:
            if streams:
                with streaming(me.client, PATH, topics="runs") as heard:
                    yield look()  # what ended before the stream began
                    for frame in heard:
                        if frame.event == "run":
                            yield [frame.data]
                        elif frame.event == "gap":
                            yield look()
        except NotFound:  # an older server
            streams = False
        except SchedkitError:
            pass  # said below, where looking fails too
        me.sleep(pause_s)
        yield me.again(look) or []
