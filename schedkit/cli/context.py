"""`schedkit context`: which scheduler commands talk to. A context keeps the way to a secret, never the secret."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schedkit.cli import complete, settings_edit, show, values
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.frame import noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One
from schedkit.cli.settings import AUTHS, CONTEXT_KEYS, Context, load, no_context
from schedkit.errors import InvalidInput, NotFound, Reason, SchedkitError
from schedkit.model.time import SECOND_MS, from_datetime

app = noun("Which scheduler commands talk to")

Option = typer.Option
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete.contexts)]
SomeName = Annotated[str | None, typer.Argument(metavar="[NAME]", autocompletion=complete.contexts)]
SCHEMA: Final = "schedkit.context/v1"
CLOCK_OFFSET_MS: Final = 5 * SECOND_MS  # more than this and times on this machine are misleading
COLORS: Final = ("red", "green", "yellow", "cyan")


@dataclass(frozen=True, slots=True)
class Place:
    """The flags of add and update."""

    url: Annotated[str | None, Option("--url", metavar="URL", help="Of the API.")] = None
    auth: Annotated[str | None, Option("--auth", metavar="A", help=f"{', '.join(AUTHS)}.")] = None
    token_file: Annotated[str | None, Option("--token-file", metavar="F", help="A file that holds the token.")] = None
    token_command: Annotated[str | None, Option("--token-command", metavar="CMD", help="Prints the token.")] = None
    protected: Annotated[bool | None, Option("--protected/--no-protected", help="Ask before every change.")] = None
    read_only: Annotated[bool | None, Option("--read-only/--no-read-only", help="Refuse every change.")] = None
    color: Annotated[str | None, Option("--color", metavar="red", help="Of its name, where it is shown.")] = None


def _document(context: Context, *, current: bool) -> dict[str, Any]:
    doc: dict[str, Any] = {"name": context.name, "current": current}
    for spec in fields(Context):
        if spec.name != "name":
            doc[spec.name] = getattr(context, spec.name)
    doc["token_command"] = "(set)" if context.token_command else None  # its words may hold a secret
    return doc


def _known(me: Invocation) -> dict[str, Context]:
    """Every context of the files that can be read, and the one in use where it stands in none."""
    known = dict(me.settings.found)
    with contextlib.suppress(Refusal):  # the one in use may be none of them: then the list shows what there is
        known.setdefault(me.context.name, me.context)
    return known


@verb(app, "list")
def list_contexts(me: Invocation) -> None:
    """List contexts, * marks the one in use.

    Examples:
      schedkit context list
      schedkit context list -o json
    """
    current = str(me.settings.get("context"))
    with contextlib.suppress(Refusal):
        current = me.context.name
    items = [_document(context, current=name == current) for name, context in sorted(_known(me).items())]
    columns = (
        Column(" ", "current", lambda doc: "*" if doc["current"] else ""),
        Column("NAME", "name"),
        Column("URL", "url"),
        Column("AUTH", "auth"),
        Column("TENANT", "tenant", lambda doc: doc["tenant"] or show.DASH),
        Column("KIND", "protected", _kind),
        Column("FROM", "origin", wide=True),
    )
    empty = (
        "no context can be read  try: schedkit config edit"
        if me.settings.broken
        else "no contexts yet  try: schedkit context add NAME --url URL"
    )
    me.show(Items(SCHEMA, items, columns, "name", empty))


def _kind(doc: Mapping[str, Any]) -> str:
    words = [word for word, key in (("protected", "protected"), ("read-only", "read_only")) if doc[key]]
    return ", ".join(words) or show.DASH


@verb(app, "show")
def show_context(
    me: Invocation,
    name: SomeName = None,
    origin: Annotated[bool, Option("--origin", help="And where it was said.")] = False,
) -> None:
    """Show a context; secrets are never shown.

    Examples:
      schedkit context show
      schedkit context show prod-use1 --origin
    """
    context = _named(me, name)
    doc = _document(context, current=context.name == me.context.name)
    lines = [
        (key.replace("_", " "), value if isinstance(value, str) else "yes" if value else "no")
        for key, value in doc.items()
        if value is not None and (key != "origin" or origin)
    ]
    me.show(One(SCHEMA, doc, lines, "name"))


def _named(me: Invocation, name: str | None) -> Context:
    if name is None or name == me.context.name:
        return me.context
    if name not in me.settings.contexts:
        raise no_context(name, me.settings.contexts)
    return me.settings.contexts[name]


@verb(app, "use")
def use_context(
    me: Invocation,
    name: Name,
    project: Annotated[bool, Option("--project", help="In this project's schedkit.toml.")] = False,
) -> None:
    """Switch context.

    Examples:
      schedkit context use prod-use1
      schedkit context use dev --project
    """
    if name not in me.settings.contexts:
        raise no_context(name, me.settings.contexts)
    path = settings_edit.place(project=project)

    def edit(document: Any) -> None:
        document["current"] = name

    settings_edit.change(path, edit)
    context, overruled = me.settings.contexts[name], _overruled(name)
    doc = {**_document(context, current=overruled is None), "file": str(path)}
    lines = [f"now using {name} ({context.url})"] if overruled is None else _still(name, path, *overruled)
    me.show(One(SCHEMA, doc, lines, "name", exact=True))


def _overruled(name: str) -> tuple[Context, str] | None:
    """The context that commands without -c use here instead of this one, and what says so; None where they use it."""
    here = load({})
    url = here.values.get("url")
    said = url or here.values["context"]
    return None if url is None and said.value == name else (here.context, said.origin)


def _still(name: str, path: Path, used: Context, said: str) -> list[str]:
    """What a person is told who switched to a context where something else wins."""
    other = f"unset {said}" if said.startswith("SCHEDKIT_") else f"schedkit context use {name} --project"
    return [
        f"{path} says {name} now, but {said} wins here: still using {used.name} ({used.url})",
        f"to use {name} here: schedkit -c {name} COMMAND   or: {other}",
    ]


@verb(app, "add")
def add_context(me: Invocation, name: Name, place: Place) -> None:
    """Add a context. The first one is used at once; --tenant, --region and --cell are kept with it.

    Examples:
      schedkit context add staging --url https://sched.staging.internal
      schedkit context add prod --url https://sched.example.internal --token-file ~/.sched-token --protected
    """
    if name in me.settings.contexts:
        raise Refusal(
            Code.CONFIG_INVALID,
            ExitCode.CONFLICT,
            f"there is a context {name} already, in {me.settings.contexts[name].origin}",
            fix=[f"schedkit context update {name} --url {place.url or 'URL'}"],
        )
    if place.url is None:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "a context needs --url", field="--url")
    first = not me.settings.contexts and me.settings.values["context"].origin == "built in"
    _save(me, name, place, "added", use=first)


@verb(app, "update")
def update_context(me: Invocation, name: Name, place: Place) -> None:
    """Change a context; only what is given changes.

    Examples:
      schedkit context update prod --protected
      schedkit context update staging --url https://sched2.staging.internal
    """
    if name not in me.settings.contexts:
        raise no_context(name, me.settings.contexts)
    _save(me, name, place, "updated", use=False)


def _save(me: Invocation, name: str, place: Place, said: str, *, use: bool) -> None:
    wanted = {spec.name: getattr(place, spec.name) for spec in fields(Place)}
    wanted |= {key: me.given[key] for key in ("tenant", "region", "cell") if key in me.given}
    if place.token_file is not None:
        wanted["token_file"] = _wherever(place.token_file)
    if place.color is not None:
        values.choice(place.color, COLORS, "--color")
    for way in ("token_file", "token_command"):
        if wanted[way] is not None and wanted["auth"] is None:
            wanted["auth"] = way.replace("_", "-")
    if place.url is not None and not place.url.startswith(("http://", "https://")):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{place.url} is no http or https URL", field="--url")
    if place.url is not None and "@" in place.url.partition("://")[2].partition("/")[0]:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "a URL holds no password; see --token-file", field="--url")
    path = _file_of(me, name)

    def edit(document: Any) -> None:
        table = settings_edit.table(document, "context", name)
        for key in CONTEXT_KEYS:
            if wanted.get(key) is not None:
                table[key] = wanted[key]
        if use:
            document["current"] = name

    settings_edit.change(path, edit)
    shown = {key: value for key, value in wanted.items() if value is not None and key != "token_command"}
    lines = [f"{said} context {name}" + (" and using it" if use else "") + f"   ({path})"]
    me.show(One(SCHEMA, {"name": name, "current": use, **shown, "file": str(path)}, lines, "name", exact=True))


def _wherever(path: str) -> str:
    """A file's path as it is found from every folder: a context is used from anywhere."""
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError as problem:  # ~nobody
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{path}: {problem}", field="--token-file") from problem


def _file_of(me: Invocation, name: str) -> Path:
    """Where a context stands; a new one goes to the user's file."""
    known = me.settings.contexts.get(name)
    return Path(known.origin.rpartition(":")[0]) if known is not None else settings_edit.place(project=False)


@verb(app, "remove")
def remove_context(me: Invocation, name: Name) -> None:
    """Remove a context.

    Examples:
      schedkit context remove staging
      schedkit context remove old-prod -o json
    """
    if name not in me.settings.contexts:
        raise no_context(name, me.settings.contexts)
    path = _file_of(me, name)

    def edit(document: Any) -> None:
        del document["context"][name]
        if document.get("current") == name:
            del document["current"]

    settings_edit.change(path, edit)
    me.show(One(SCHEMA, {"name": name, "file": str(path)}, [f"removed context {name}"], "name", exact=True))


@verb(app, "test")
def check_context(me: Invocation, name: SomeName = None) -> None:
    """Check url, health and clock; exit 7 without an answer, 10 when something is wrong.

    Examples:
      schedkit context test
      schedkit context test prod-use1
    """
    context = _named(me, name)
    client = me.client_of(context)
    started = values.now_ms()
    try:
        with me.asking():
            answer = client.call("GET", "/v1/version")
    finally:
        client.close()
    took_ms = values.now_ms() - started
    offset_ms = clock_offset_ms(answer.headers.get("date"), started + took_ms // 2)
    skewed = offset_ms is not None and abs(offset_ms) > CLOCK_OFFSET_MS
    ready = _is_ready(me, context)
    who = _whoami(me, context)
    doc = {
        "name": context.name,
        "url": context.url,
        "version": answer.data.get("version"),
        "answered_ms": took_ms,
        "ready": ready,
        "clock_offset_ms": offset_ms,
        "whoami": who,
    }
    clock = (
        "not said" if offset_ms is None else f"{show.span(offset_ms)} apart" if skewed else "ok, within a second or two"
    )
    lines = [
        ("url", context.url),
        ("answers", f"schedkit {doc['version']} in {show.span(took_ms)}"),
        *([("you are", f"{who['role']} of team {who['team_id']}, tenant {who['tenant_id']}")] if who else []),
        ("ready", "yes" if ready else "no: jobs cannot be created or run now"),
        ("clock", clock),
    ]
    me.show(One("schedkit.context-test/v1", doc, lines, "name"))
    if skewed or not ready:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _whoami(me: Invocation, context: Context) -> dict[str, Any] | None:
    """Who this context is to its server; None where the server is too old to say."""
    client = me.client_of(context)
    try:
        return client.whoami()
    except NotFound:
        return None
    finally:
        client.close()


def _is_ready(me: Invocation, context: Context) -> bool:
    client = me.client_of(context)
    try:
        return client.ready()
    finally:
        client.close()


def clock_offset_ms(date: str | None, here: int) -> int | None:
    """How far the server's clock is ahead of ours, as good as a Date header of whole seconds can say."""
    if not date:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return from_datetime(parsedate_to_datetime(date)) + SECOND_MS // 2 - here
    except (ValueError, TypeError, SchedkitError):
        return None
