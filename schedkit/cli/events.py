"""`schedkit events`: what happens, line by line; in a pipe one JSON document a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schedkit.cli import output, show, values
from schedkit.cli.following import PATH, frames
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items
from schedkit.model.time import parse_rfc3339

if TYPE_CHECKING:
    from schedkit.client.streaming import Frame

SCHEMA: Final = "schedkit.event/v1"
KINDS: Final = ("run", "alert", "audit", "lease", "redrive")
COLUMNS: Final = (
    Column("AT", "at"),
    Column("KIND", "kind"),
    Column("WHAT", "what"),
    Column("SUBJECT", "subject"),
    Column("WHO", "who"),
    Column("TEXT", "text", cut=True),
)


def events(
    me: Invocation,
    kind: Annotated[str | None, typer.Option("--kind", metavar="K,K", help=f"{', '.join(KINDS)}.")] = None,
    who: Annotated[str | None, typer.Option("--who", metavar="W", help="Done by whom: has this text.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="10m", help="Begin with what is remembered from then on.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Stay for what is to come.")] = True,
) -> None:
    """Print events as they happen; ctrl+c stops. The server remembers the last 10,000.

    Examples:
      schedkit events --since 10m
      schedkit events --kind run,alert --no-follow --since 1h -o json
    """
    chosen = ",".join(values.choices(kind, KINDS, "--kind")) if kind else None
    query = {"topics": "events", "kinds": chosen, "since": values.since(since, me.zone), "follow": str(follow).lower()}
    if follow:
        for frame in frames(me, **query):
            _print(me, frame, who)
        return
    from schedkit.client.streaming import streaming

    query["since"] = query["since"] or "1970-01-01T00:00:00Z"
    with me.asking(), streaming(me.client, PATH, **query) as heard:
        found = [frame.data for frame in heard if frame.event == "event" and _by(frame.data, who)]
    me.show(Items(SCHEMA, found, COLUMNS, "subject", "nothing is remembered of that"))


def _print(me: Invocation, frame: Frame, who: str | None) -> None:
    if frame.event == "gap":
        lost = frame.data.get("lost")
        me.say(f"{show.count(lost, 'event') if lost else 'some events'} were lost: {frame.data.get('why')}")
    if frame.event != "event" or not _by(frame.data, who):
        return
    if me.style.format in ("table", "wide") and me.style.screen.terminal:
        output.write(output.fitted(_line(me, frame.data), me.style.screen.width))
    elif me.style.format == "name":
        output.write(show.line(str(frame.data["subject"])))
    else:
        output.write(me.style.json(dict(frame.data)))


def _line(me: Invocation, event: Mapping[str, Any]) -> str:
    name = f"{event['job_name']}  " if event.get("job_name") else ""
    told = event.get("text") or f"{name}{event['subject']}"
    by = f"  by {event['who']}" if event.get("who") else ""
    at = show.clock(parse_rfc3339(str(event["at"])), me.zone)
    return show.line(f"{at}  {event['kind']:<8}{event['what']:<18}  {told}{by}")


def _by(event: Mapping[str, Any], who: str | None) -> bool:
    return who is None or who in str(event.get("who") or "")
