"""`schedkit job ledger`: what was expected of a job in a range, and what became of each occurrence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from schedkit.cli import complete, show, values
from schedkit.cli.failures import ExitCode
from schedkit.cli.frame import verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One

SCHEMA: Final = "schedkit.ledger/v1"
MOST_NAMED: Final = 5

Option = typer.Option
Doc = Mapping[str, Any]


def add_to(app: typer.Typer) -> None:
    """Register the command with the noun `job`."""
    verb(app, "ledger")(job_ledger)


def job_ledger(
    me: Invocation,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name or id.", autocompletion=complete.jobs)],
    since: Annotated[str, Option("--from", metavar="T", help="What was due then or later.")] = "24h",
    until: Annotated[str, Option("--to", metavar="T", help="… and before this.")] = "now",
) -> None:
    """Was everything that was due accounted for? Exit 10 where something was not.

    Examples:
      schedkit job ledger digest
      schedkit job ledger digest --from 7d -o json
    """
    begin, end = (values.since(text, me.zone, flag) for text, flag in ((since, "--from"), (until, "--to")))
    with me.asking():
        found = me.occurrences.ledger(job, since=begin, until=end)
    me.show(ledger_page(me, found))
    if not found["balanced"]:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def ledger_page(me: Invocation, found: Doc) -> One:
    """The sums, one a line; what nothing accounts for is named."""
    lines: list[str | tuple[str, str]] = [
        ("job", found["name"] or found["job_id"]),
        ("from", show.long_stamp(found["since"], me.zone)),
        ("to", show.long_stamp(found["until"], me.zone)),
        ("expected", f"{found['expected']:,}"),
        ("ran", f"{found['ran']:,}"),
        ("late", f"{found['late']:,}"),
        ("skipped", _by_reason(found["skipped"])),
        ("missed", _by_reason(found["missed"])),
        ("waiting", f"{found['waiting']:,}"),
    ]
    if not found["balanced"]:
        named = [show.stamp(at, me.zone) for at in found["unaccounted_times"][:MOST_NAMED]]
        more = ["…"] if found["unaccounted"] > len(named) else []
        lines.append(("unaccounted", f"{found['unaccounted']:,}: {', '.join([*named, *more])}"))
    if found["cancelled"]:
        lines.append(("cancelled", f"{found['cancelled']:,} of those that ran"))
    if found["beside"]:
        lines.append(("beside", f"{show.count(found['beside'], 'run')} that the schedule did not ask for"))
    lines += [("note", note) for note in found["notes"]]
    return One(SCHEMA, found, lines, "job_id")


def _by_reason(counts: Mapping[str, int]) -> str:
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return f"{sum(counts.values()):,}" + (f"   {told}" if told else "")
