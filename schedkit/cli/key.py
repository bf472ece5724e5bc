"""`schedkit key`: make API keys, replace and revoke them. A key's text is printed once, or written to --out."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from schedkit.cli import lists, output, show, values
from schedkit.cli.failures import Code, ExitCode, Refusal, exit_code
from schedkit.cli.frame import Change, Listing, noun, verb
from schedkit.cli.invocation import Invocation, each
from schedkit.cli.output import Column, Doc, Items, One
from schedkit.model.access import Role
from schedkit.model.time import SECOND_MS

app = noun("API keys: make, replace, revoke")

Option = typer.Option
SCHEMA: Final = "schedkit.key/v1"
ROLES: Final = [role.value for role in Role]
DEFAULT_DATA: Final = Path(".schedkit")
OWNER_ONLY: Final = 0o600
Key = Annotated[str, typer.Argument(metavar="KEY", help="The id of a key.")]
Out = Annotated[
    Path | None, Option("--out", metavar="FILE", help="Write the key to a new file that only you can read.")
]
Expires = Annotated[str | None, Option("--expires", metavar="90d", help="How long it is good; for ever.")]


@verb(app, "list")
def list_keys(
    me: Invocation,
    listing: Listing,
    name: Annotated[str | None, Option("--name", metavar="N", help="Of this name.")] = None,
    live: Annotated[bool, Option("--live", help="Only those that open something.")] = False,
) -> None:
    """List the keys of your tenant, newest first.

    Examples:
      schedkit key list --live
      schedkit key list --name deploy -o json
    """
    items, cursor = lists.fetch(me, listing, me.client.list_keys, {"name": name, "live": True if live else None})
    empty = "no keys match" if name or live else "no keys yet  try: schedkit key create NAME --role operator"
    me.show(_items(me, items, cursor, empty))


@verb(app, "show")
def show_key(me: Invocation, key: Key) -> None:
    """One key; its text is never shown again.

    Examples:
      schedkit key show 0Ab3dEf6hIj9kL
      schedkit key show 0Ab3dEf6hIj9kL -o json
    """
    with me.asking():
        found = me.client.get_key(key)
    wanted = (
        ("key", found["key_id"]),
        ("name", found["name"]),
        ("state", found["state"]),
        ("role", found["role"]),
        ("team", f"{found['team_id']} of tenant {found['tenant_id']}"),
        ("made", _when(me, found, "created_at")),
        ("made by", found.get("created_by")),
        ("expires", _when(me, found, "expires_at")),
        ("revoked", _when(me, found, "revoked_at")),
        ("last used", _when(me, found, "last_used_at")),
    )
    me.show(One(SCHEMA, found, [(label, str(text)) for label, text in wanted if text], "key_id"))


@verb(app, "create")
def create_key(
    me: Invocation,
    change: Change,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will use it: a person, a program.")],
    role: Annotated[str, Option("--role", metavar="R", help=f"{', '.join(ROLES)}.")] = Role.VIEWER.value,
    team: Annotated[str | None, Option("--team", metavar="T", help="Of your tenant; your own team.")] = None,
    expires: Expires = None,
    out: Out = None,
) -> None:
    """Make a key. It is shown once: keep it, or let --out write it to a file.

    Examples:
      schedkit key create deploy --role operator --team payments --expires 90d --out deploy.key
      schedkit key create dashboard --role viewer
    """
    chosen = values.choice(role, ROLES, "--role")
    seconds = _seconds(expires, "--expires")
    if change.dry_run:
        doc = {"name": name, "role": chosen, "team_id": team, "expires_in_seconds": seconds}
        return me.show(One(SCHEMA, doc, [f"would make a key {name} with the role {chosen}"], "name", exact=True))
    me.changing(change, f"make a key {name} with the role {chosen}")
    with _place(out) as file:
        with me.asking():
            made = me.client.create_key(name, chosen, team_id=team, expires_in_seconds=seconds)
        _hand_over(me, made, out, file, _new_context(me.context.url))


@verb(app, "rotate")
def rotate_key(
    me: Invocation,
    change: Change,
    key: Key,
    grace: Annotated[str | None, Option("--grace", metavar="24h", help="The old one stays good so long.")] = None,
    expires: Expires = None,
    out: Out = None,
) -> None:
    """Make a key's successor: same name, team and role. The old one ends after the grace.

    Examples:
      schedkit key rotate 0Ab3dEf6hIj9kL --out deploy.key
      schedkit key rotate 0Ab3dEf6hIj9kL --grace 1h --expires 90d
    """
    grace_s, expires_s = _seconds(grace, "--grace"), _seconds(expires, "--expires")
    if change.dry_run:
        with me.asking():
            found = me.client.get_key(key)
        return me.show(One(SCHEMA, found, [f"would make a successor of {found['name']} ({key})"], "key_id", exact=True))
    me.changing(change, f"replace the key {key}")
    with _place(out) as file:
        with me.asking():
            made = me.client.rotate_key(key, grace_seconds=grace_s, expires_in_seconds=expires_s)
        _hand_over(me, made, out, file, "schedkit context update NAME")
    me.say(f"the old key {key} ends at {show.stamp(made['old_key_ends_at'], me.zone)}")


@verb(app, "revoke")
def revoke_key(
    me: Invocation,
    change: Change,
    key: Annotated[list[str], typer.Argument(metavar="KEY...", help="Ids of keys.")],
) -> None:
    """A key opens nothing from now on.

    Examples:
      schedkit key revoke 0Ab3dEf6hIj9kL
      schedkit key revoke 0Ab3dEf6hIj9kL --reason "the laptop is gone"
    """
    if not change.dry_run:
        me.changing(change, f"revoke {show.count(len(key), 'key')}")
    with me.asking():
        done, refusal = each(me, key, me.client.get_key if change.dry_run else me.client.revoke_key)
    said = "would revoke" if change.dry_run else "revoked"
    if len(key) == 1 or me.for_people:
        for found in done:
            me.show(One(SCHEMA, found, [f"{said} {found['name']} ({found['key_id']})"], "key_id", exact=True))
    else:
        me.show(_items(me, [dict(found) for found in done], None, ""))
    if refusal is not None:
        raise typer.Exit(exit_code(refusal))


@verb(app, "bootstrap")
def bootstrap_key(
    me: Invocation,
    data: Annotated[Path, Option("--data", metavar="DIR", help="The data folder of the scheduler.")] = DEFAULT_DATA,
    team: Annotated[str, Option("--team", metavar="T", help="Whose it is.")] = "default",
    name: Annotated[str, Option("--name", metavar="N", help="What it is called.")] = "first-admin",
    out: Out = None,
) -> None:
    """Make an admin's key without asking the server: for whoever may write to its data folder. -t names the tenant.

    Examples:
      schedkit key bootstrap --out admin.key
      schedkit key bootstrap --data /var/lib/schedkit -t acme --team platform --out acme.key
    """
    import asyncio

    from schedkit.bootstrap import first_key
    from schedkit.embedded import settings_of

    tenant = str(me.given.get("tenant") or "default")
    url = "URL"
    with contextlib.suppress(Refusal):  # a context that is not there is no reason to go without a key
        url = me.context.url
    with _place(out) as file:
        made = asyncio.run(first_key(settings_of(data, os.environ), tenant, team, name))
        _hand_over(me, made, out, file, _new_context(url))


@contextlib.contextmanager
def _place(out: Path | None) -> Iterator[TextIO | None]:
    """The new file for a key, made before the key is: a key that cannot be kept is not made. Gone if none was."""
    if out is None:
        yield None
        return
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except OSError as error:
        raise Refusal(
            Code.USAGE, ExitCode.USAGE, f"--out {out}: {error.strerror}; a key goes to a new file, so that none is lost"
        ) from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        try:
            yield file
        except BaseException:
            out.unlink(missing_ok=True)
            raise


def _new_context(url: str) -> str:
    """How its holder uses a new key: in a context of its own, so that nobody's token is replaced by it."""
    return f"schedkit context add NAME --url {url}"


def _hand_over(me: Invocation, made: dict[str, Any], out: Path | None, file: TextIO | None, how: str) -> None:
    """Give the key's text away, once: to the file, or to stdout. `how` its holder sets a context up."""
    text = made.pop("secret")
    said = f"made the {made['role']} key {made['name']} ({made['key_id']}) for team {made['team_id']}"
    if file is not None and out is not None:
        file.write(text + "\n")
        file.flush()
        use = f"{how} --token-file {shlex.quote(str(out))}"
        return me.show(One(SCHEMA, {**made, "file": str(out)}, [said, f"use   {use}"], "key_id", exact=True))
    if me.style.format in ("table", "wide", "name"):
        me.say(f"{said}; it is not shown again:")
        output.write(text)
    else:
        me.show(One(SCHEMA, {**made, "secret": text}, [], "key_id"))


def _items(me: Invocation, items: list[Doc], cursor: str | None, empty: str) -> Items:
    columns = (
        Column("NAME", "name"),
        Column("KEY", "key_id"),
        Column("STATE", "state"),
        Column("ROLE", "role"),
        Column("TEAM", "team_id"),
        Column("LAST USED", "last_used_at", lambda key: _when(me, key, "last_used_at") or show.DASH),
        Column("EXPIRES", "expires_at", lambda key: _when(me, key, "expires_at") or show.DASH),
        Column("MADE", "created_at", lambda key: _when(me, key, "created_at") or show.DASH, wide=True),
        Column("MADE BY", "created_by", lambda key: str(key.get("created_by") or show.DASH), wide=True),
    )
    return Items(SCHEMA, items, columns, "key_id", empty, cursor, lists.more(cursor))


def _when(me: Invocation, key: Doc, field: str) -> str | None:
    return show.stamp(key[field], me.zone) if key.get(field) else None


def _seconds(text: str | None, flag: str) -> float | None:
    return values.duration_ms(text, flag) / SECOND_MS if text is not None else None
