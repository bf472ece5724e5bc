"""`schedkit config`: settings, their values and where each came from."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schedkit.cli import settings_edit
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.frame import noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, dash, raw
from schedkit.cli.settings import DEFAULTS, FORMATS, SYSTEM_FILE, check, parsed, project_file, user_file
from schedkit.errors import InvalidInput, NotFound, Reason

app = noun("Settings and where they came from")

Option = typer.Option
Key = Annotated[
    str, typer.Argument(metavar="KEY", help="As config list names it.", autocompletion=lambda: list(DEFAULTS))
]
SCHEMA: Final = "schedkit.setting/v1"
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@verb(app, "list")
def list_settings(
    me: Invocation, origin: Annotated[bool, Option("--origin", help="And where each came from.")] = False
) -> None:
    """Every setting, its value and where it came from.

    Examples:
      schedkit config list
      schedkit config list --origin
    """
    found = me.settings.whole.values
    known = sorted({*DEFAULTS, "context", *found})
    items = [
        {"key": key, "value": found[key].value, "origin": found[key].origin}
        if key in found
        else {"key": key, "value": None, "origin": "not set"}
        for key in known
    ]
    columns = (
        Column("KEY", "key"),
        Column("VALUE", "value", lambda doc: dash(doc["value"])),
        Column("FROM", "origin", wide=not origin),
    )
    me.show(Items(SCHEMA, items, columns, "key", "nothing is set"))


@verb(app, "get")
def get_setting(me: Invocation, key: Key) -> None:
    """One setting.

    Examples:
      schedkit config get output
      schedkit config get tz -o json
    """
    found = me.settings.whole.values.get(_key(key))
    value = None if found is None else found.value
    doc = {"key": key, "value": value, "origin": None if found is None else found.origin}
    me.show(One(SCHEMA, doc, [raw(value)], "value", exact=True))


@verb(app, "set")
def set_setting(
    me: Invocation,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Empty removes it.")],
    project: Annotated[bool, Option("--project", help="In this project's schedkit.toml.")] = False,
    everywhere: Annotated[bool, Option("--global", help="In the user's file; so it is without a flag.")] = False,
) -> None:
    """Set a default.

    Examples:
      schedkit config set tz Europe/Berlin
      schedkit config set output wide --project
    """
    if project and everywhere:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "give one of --project and --global", field="--project")
    name = _key(key)
    path = settings_edit.place(project=project)
    wanted = _typed(name, value)

    def edit(document: Any) -> None:
        table = document if name == "context" else settings_edit.table(document, "defaults")
        place = "current" if name == "context" else name
        if value:
            table[place] = wanted
        elif place in table:
            del table[place]

    settings_edit.change(path, edit)
    doc = {"key": name, "value": wanted if value else None, "origin": str(path)}
    said = f"{name} = {raw(wanted)}" if value else f"{name} is not set any more"
    me.show(One(SCHEMA, doc, [f"{said}   ({path})"], "key", exact=True))


def _key(key: str) -> str:
    name = key.removeprefix("defaults.").replace("-", "_")
    if name == "current":
        return "context"
    if name not in (*DEFAULTS, "context"):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{key} is no setting; known are context, {', '.join(DEFAULTS)}",
            fix=["schedkit config list"],
            field="KEY",
        )
    return name


def _typed(name: str, text: str) -> Any:
    if not text or DEFAULTS.get(name, str) is str:
        _sensible(name, text)
        return text
    if text.lower() in TRUE or text.lower() in FALSE:
        return text.lower() in TRUE
    raise InvalidInput(Reason.INVALID_ARGUMENT, f"{name} is true or false, not {text!r}", field="VALUE")


def _sensible(name: str, text: str) -> None:
    """Refuse now what every later command would stumble over."""
    from schedkit.cli import values

    if name == "output" and text:
        values.choice(text, FORMATS, "output")
    elif name == "timeout" and text:
        values.duration_ms(text, "timeout")
    elif name == "tz" and text:
        values.zone_of(text)


@verb(app, "path")
def path(me: Invocation) -> None:
    """Where the files are.

    Examples:
      schedkit config path
      schedkit config path -o json
    """
    places = (("project", project_file()), ("user", user_file()), ("system", SYSTEM_FILE))
    items = [
        {"kind": kind, "path": str(place) if place else None, "exists": bool(place and place.is_file())}
        for kind, place in places
    ]
    columns = (
        Column("KIND", "kind"),
        Column("PATH", "path", lambda doc: doc["path"] or "none from here up"),
        Column("THERE", "exists", lambda doc: "yes" if doc["exists"] else "no"),
    )
    me.show(Items("schedkit.settings-file/v1", items, columns, "path", ""))


@verb(app, "edit")
def edit(
    me: Invocation, project: Annotated[bool, Option("--project", help="This project's schedkit.toml.")] = False
) -> None:
    """Open the file in $EDITOR, then check it; a file no command would understand is not kept.

    Examples:
      schedkit config edit
      EDITOR="code --wait" schedkit config edit --project
    """
    path = settings_edit.place(project=project)
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    draft = path.with_name(f"{path.name}.draft")
    settings_edit.write(draft, before)
    try:
        _run_editor(draft)
        after = draft.read_text(encoding="utf-8", errors="replace")
        check(parsed(after, path, "not kept: "), path)
        if after != before:
            settings_edit.write(path, after)
    finally:
        draft.unlink(missing_ok=True)
    doc = {"path": str(path), "changed": after != before}
    me.show(
        One(
            "schedkit.settings-file/v1",
            doc,
            [f"{'saved' if doc['changed'] else 'unchanged'} {path}"],
            "path",
            exact=True,
        )
    )


def _run_editor(draft: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(editor), str(draft)], check=False).returncode  # noqa: S603
    except OSError as problem:
        raise NotFound(
            Reason.INVALID_ARGUMENT, f"cannot run the editor {editor!r}: {problem.strerror}", fix=["set EDITOR"]
        ) from problem
    if code != 0:
        raise Refusal(Code.NOT_CONFIRMED, ExitCode.NOT_CONFIRMED, f"the editor left with {code}; nothing was changed")
