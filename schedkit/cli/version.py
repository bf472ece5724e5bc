"""`schedkit version`: this program, and the server it talks to."""

from __future__ import annotations

import platform
from typing import Annotated, Any

import typer

from schedkit import __version__
from schedkit.cli.failures import Refusal
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.errors import SchedkitError


def version(
    me: Invocation,
    check: Annotated[bool, typer.Option("--check", help="Ask the server too; exit 7 without an answer.")] = False,
) -> None:
    """Version of client and server.

    Examples:
      schedkit version
      schedkit version --check
    """
    doc: dict[str, Any] = {"client": __version__, "python": platform.python_version(), "server": None, "tzdata": None}
    if check:
        with me.asking():
            said = me.client.version()
        doc |= {"server": said.get("version"), "tzdata": said.get("tzdata")}
    else:
        doc |= _quick_look(me)
    lines = [("client", f"schedkit {doc['client']} (Python {doc['python']})")]
    lines.append(
        ("server", f"{doc['server']} (tzdata {doc['tzdata']})" if doc["server"] else "not asked or not running")
    )
    me.show(One("schedkit.version/v1", doc, lines, "client"))


def _quick_look(me: Invocation) -> dict[str, Any]:
    """The server's version where it answers at once; a version is no reason to wait."""
    try:
        client = me.client_of(me.context)
    except Refusal:
        return {}  # no settings, no server; the version of this program is still known
    client.timeout_s = min(client.timeout_s, 0.5)
    try:
        said = client.version()
    except SchedkitError:
        return {}
    finally:
        client.close()
    return {"server": said.get("version"), "tzdata": said.get("tzdata")}
