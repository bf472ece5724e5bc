"""`schedkit audit`: who changed what, and whether the log is as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from schedkit.cli import lists, show, values
from schedkit.cli.failures import ExitCode
from schedkit.cli.frame import Listing, Watching, noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Doc, Items, One
from schedkit.engine.audit import Check
from schedkit.errors import InvalidInput, Reason
from schedkit.model.audit import RESTORE_ACTION, Record, Recorded
from schedkit.model.time import parse_rfc3339

app = noun("Who changed what, and whether the log is whole")

Option = typer.Option
SCHEMA: Final = "schedkit.audit/v1"
OUTCOMES: Final = [outcome.value for outcome in Recorded]
MOST_SAID: Final = 20  # of what is wrong; the count is of all


@verb(app, "list")
def list_audit(
    me: Invocation,
    listing: Listing,
    watching: Watching,
    action: Annotated[str | None, Option("--action", metavar="A", help="create_job, pause_job …")] = None,
    resource: Annotated[str | None, Option("--resource", metavar="ID", help="A job's, run's or key's id.")] = None,
    key: Annotated[str | None, Option("--key", metavar="K", help="Done with this key.")] = None,
    team: Annotated[str | None, Option("--team", metavar="T", help="Done by this team.")] = None,
    outcome: Annotated[str | None, Option("--outcome", metavar="O", help="done, unchanged or refused.")] = None,
    since: Annotated[str | None, Option("--since", metavar="24h", help="After this time.")] = None,
) -> None:
    """Who changed what in your tenant, newest first.

    Examples:
      schedkit audit list --since 24h
      schedkit audit list --action revoke_key -o json
    """
    chosen = values.choices(outcome, OUTCOMES, "--outcome")[0] if outcome else None

    def look() -> Items:
        filters = {"action": action, "resource": resource, "key_id": key, "team_id": team, "outcome": chosen}
        items, cursor = lists.fetch(
            me, listing, me.client.list_audit, filters | {"since": values.since(since, me.zone)}
        )
        narrowed = lists.narrowing(
            listing, action=action, resource=resource, key=key, team=team, outcome=outcome, since=since
        )
        return _items(me, items, cursor, f"nothing was changed ({narrowed})" if narrowed else "nothing was changed yet")

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "verify")
def verify_audit(
    me: Invocation,
    expect: Annotated[
        list[str] | None,
        Option("--expect", metavar="CHAIN:SEQ:HASH", help="An end that an earlier verify printed is still there."),
    ] = None,
) -> None:
    """Recompute every hash on this machine; exit 10 when a record was changed, replaced or taken out.

    The log cannot show by itself that its newest records were cut off: note the ends, and say them next time. A restore
    from a backup cuts them off as well, and is a record of its own, which this names.

    Examples:
      schedkit audit verify
      schedkit audit verify --expect 0:1214:9f2c51d3a0 -o json
    """
    wanted = [_expected(text) for text in expect or ()]
    check = Check()
    wrong: list[str] = []
    restores: list[dict[str, str]] = []
    with me.asking():
        for doc in me.client.pages(me.client.list_audit):
            problem, record = _seen(check, doc)
            if problem is not None:
                wrong.append(problem)
            if record is not None:
                if record.entry.action == RESTORE_ACTION:
                    restores.append({"at": str(doc["at"]), "taken_at": str(record.entry.before)})
                wanted = [one for one in wanted if not _met(one, record)]
    lost = "; it may have been lost in a restore" if restores else ""
    wrong += [f"chain {chain}: record {seq} with the hash {start} is not there{lost}" for chain, seq, start in wanted]
    ends = [f"{chain}:{tip.seq}:{tip.hash}" for chain, tip in sorted(check.tips.items())]
    starts = {str(chain): record.seq for chain, record in sorted(check.oldest.items())}
    doc = {
        "ok": not wrong,
        "records": check.count,
        "ends": ends,
        "begins": starts,
        "wrong": wrong,
        "restores": restores,
    }
    lines: list[str | tuple[str, str]] = [
        ("records", f"{check.count:,} in {show.count(len(ends), 'chain')}"),
        ("log", "as it was written" if not wrong else f"ALTERED: {show.count(len(wrong), 'place')}"),
        *(("wrong", text) for text in wrong[:MOST_SAID]),
        *(("restored", _restore(one, me.zone)) for one in restores),
        *(("end", end) for end in ends),
    ]
    me.show(One("schedkit.audit-verify/v1", doc, lines))
    if wrong:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _restore(said: Mapping[str, str], zone: str | None) -> str:
    when, then = show.stamp(said["at"], zone), show.stamp(said["taken_at"], zone)
    return f"{when} from a backup of {then}: records from between are lost"


def _seen(check: Check, doc: Mapping[str, Any]) -> tuple[str | None, Record | None]:
    try:
        record = Record.of({**doc, "at": parse_rfc3339(str(doc["at"]))})
    except (KeyError, ValueError, TypeError):
        return f"a record cannot be read: {str(dict(doc))[:120]}", None
    return check.see(record, str(doc.get("hash"))), record


def _expected(text: str) -> tuple[int, int, str]:
    chain, _, rest = text.partition(":")
    seq, _, start = rest.partition(":")
    if not (chain.isdigit() and seq.isdigit() and len(start) >= 8):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"--expect takes CHAIN:SEQ:HASH as verify prints it (8 characters of the hash or more), not {text!r}",
            field="--expect",
        )
    return int(chain), int(seq), start


def _met(wanted: tuple[int, int, str], record: Record) -> bool:
    chain, seq, start = wanted
    return (record.chain, record.seq) == (chain, seq) and record.hash.startswith(start)


def _items(me: Invocation, items: list[Doc], cursor: str | None, empty: str) -> Items:
    columns = (
        Column("AT", "at", lambda it: show.stamp(it["at"], me.zone)),
        Column("ACTION", "action"),
        Column("RESOURCE", "resource", _what, cut=True),
        Column("OUTCOME", "outcome"),
        Column("TEAM", "team_id"),
        Column("KEY", "key_id", lambda it: str(it.get("key_id") or show.DASH)),
        Column("BEFORE", "before", lambda it: str(it.get("before") or show.DASH)),
        Column("AFTER", "after", lambda it: str(it.get("after") or show.DASH)),
        Column("FROM", "address"),
        Column("GIVEN", "given", lambda it: str(it.get("given") or show.DASH), cut=True),
        Column("ROLE", "role", wide=True),
        Column("REQUEST", "request_id", wide=True),
        Column("PLACE", "seq", lambda it: f"{it['chain']}:{it['seq']}", wide=True),
        Column("HASH", "hash", wide=True),
    )
    return Items(SCHEMA, items, columns, "request_id", empty, cursor, lists.more(cursor))


def _what(record: Doc) -> str:
    made = record.get("resources") or ()
    return f"{show.count(len(made), 'job')}" if made else str(record["resource"])
