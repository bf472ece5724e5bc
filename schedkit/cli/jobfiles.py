"""`schedkit job validate`, `diff`, `apply` and `export`: jobs as files. The rules are in `schedkit.files`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schedkit.cli import complete, values
from schedkit.cli.failures import Code, ExitCode, Refusal, exit_code, report
from schedkit.cli.frame import Change, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.show import count
from schedkit.errors import Conflict, InvalidInput, NotFound, Reason, SchedkitError

if TYPE_CHECKING:
    from schedkit.files.jobfile import JobFile
    from schedkit.files.plan import Call, Step

Option = typer.Option
Files = Annotated[
    list[str] | None,
    Option("--file", "-f", metavar="FILE", help="A job file, a folder of them, or -; jobs.yaml unless said."),
]
Selected = Annotated[list[str] | None, Option("--label", "-l", metavar="K=V", help="Only jobs with this label.")]
Prune = Annotated[bool, Option("--prune", help="Cancel what these files made and no longer say.")]
TakeOver = Annotated[bool, Option("--take-over", help="Keep jobs of the same name that were made otherwise.")]
DONE: Final = {"add": "added", "change": "changed", "remove": "removed"}
MOST_REPLAYS: Final = 10  # jobs of one name that were made, renamed and asked for again within a day


def add_to(app: typer.Typer) -> None:
    """Register these commands with the noun `job`."""
    verb(app, "validate")(validate)
    verb(app, "diff")(diff)
    verb(app, "apply")(apply)
    verb(app, "export")(export)


def validate(
    me: Invocation,
    file: Files = None,
    schema: Annotated[bool, Option("--schema", help="Print the JSON schema of a job file instead.")] = False,
) -> None:
    """Check job files, no server needed; exit 9 when something is wrong.

    Examples:
      schedkit job validate -f jobs.yaml
      schedkit job validate --schema > jobs.schema.json
    """
    from schedkit.cli import filesets, planpages
    from schedkit.cli.output import One
    from schedkit.files.schema import schema as schema_of

    if schema:
        doc = schema_of()
        me.show(One("schedkit.jobs-schema/v1", doc, [me.style.json(doc, indent=2)], "$id", exact=True))
        return
    files = filesets.read(file)
    me.show(planpages.problems_page(me, files))
    if any(one.problems for one in files):
        raise typer.Exit(ExitCode.INVALID)


def diff(me: Invocation, file: Files = None, label: Selected = None, prune: Prune = False) -> None:
    """What apply would change; exit 10 when something would.

    Examples:
      schedkit job diff -f jobs.yaml
      schedkit job diff -f jobs -l team=growth --prune
    """
    from schedkit.cli import planpages

    steps = _plan(me, file, label, prune=prune, take_over=False)
    me.show(planpages.plan_page(me, steps))
    if any(step.acts or step.to_look_at for step in steps):
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def apply(
    me: Invocation,
    change: Change,
    file: Files = None,
    label: Selected = None,
    prune: Prune = False,
    prune_limit: Annotated[int, Option("--prune-limit", min=0, metavar="N", help="More needs --confirm.")] = 10,
    confirm: Annotated[
        int | None, Option("--confirm", metavar="N", help="How many jobs --prune is to cancel, above its limit.")
    ] = None,
    take_over: TakeOver = False,
) -> None:
    """Make the server match the files.

    Examples:
      schedkit job apply -f jobs.yaml
      schedkit job apply -f jobs -l team=growth --prune --yes
    """
    from schedkit.cli import planpages

    if change.idempotency_key is not None:
        told = "apply makes a key for each create from what the file says, so that a repeat makes nothing twice"
        raise InvalidInput(Reason.INVALID_ARGUMENT, told, field="--idempotency-key")
    steps = _plan(me, file, label, prune=prune, take_over=take_over)
    acting = [step for step in steps if step.acts]
    if change.dry_run or not acting:
        _refuse_taken(steps, file, dry=change.dry_run)
        me.show(planpages.plan_page(me, steps))
        return
    _refuse_taken(steps, file, dry=False)
    _bound(steps, prune_limit, confirm)
    if me.for_people:
        me.show(planpages.plan_page(me, steps))
    me.changing(change, f"apply {count(len(acting), 'change')}")
    if not change.yes and not me.context.protected:
        me.confirm(f"apply {count(len(acting), 'change')} to {me.context.name}?")
    results, refusal = _perform(me, acting)
    done = {step.name: DONE[step.action] for step in acting if results.get(step.name) == DONE[step.action]}
    if me.for_people:
        words = [f"{number} {word}" for word in DONE.values() if (number := list(done.values()).count(word))]
        me.say(f"applied {len(done)} of {len(acting)}: {', '.join(words) or 'nothing'}")
    else:
        me.show(planpages.plan_page(me, steps, results))
    if refusal is not None:
        raise typer.Exit(exit_code(refusal))


def export(
    me: Invocation,
    job: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB...]", help="Names or ids; all.", autocompletion=complete.jobs)
    ] = None,
    label: Selected = None,
    split: Annotated[
        str | None, Option("--split", metavar="DIR", help="One file for each job, in this folder.")
    ] = None,
) -> None:
    """Write jobs as files that apply takes back.

    Examples:
      schedkit job export > jobs.yaml
      schedkit job export digest -l team=growth --split jobs
    """
    from schedkit.cli.output import One
    from schedkit.files import writing
    from schedkit.files.documents import entry_of, secrets_in, spec_of
    from schedkit.files.jobfile import VERSION

    wanted = values.pairs(label, "--label")
    entries: dict[str, dict[str, Any]] = {}
    for found in _exported(me, job, wanted):
        name = found["name"]
        spec = spec_of(found)
        if name is None or (secret := secrets_in(spec)):
            why = "it has no name" if name is None else f"its header {secret[0]} may be a secret"
            me.say(f"left out {name or found['job_id']}: {why}")
            continue
        entries[name] = entry_of(spec)
    written = [writing.Written(name, entries[name]) for name in sorted(entries)]
    doc = {"schedkit": VERSION, "jobs": {one.name: one.entry for one in written}}
    lines = writing.text_of(written).splitlines()
    if split is not None:
        folder = Path(split)
        folder.mkdir(parents=True, exist_ok=True)
        for one in written:
            (folder / f"{one.name}.yaml").write_text(writing.text_of([one]), encoding="utf-8")
        lines = [f"wrote {count(len(written), 'file')} to {split}"]
    me.show(One("schedkit.jobs/v1", doc, lines, "schedkit", exact=True))


# Looking


def _exported(me: Invocation, names: Sequence[str] | None, labels: Mapping[str, str]) -> list[Mapping[str, Any]]:
    with me.asking():
        if names:
            found = [me.client.get_job(name) for name in names]
            return [job for job in found if all(job["labels"].get(key) == value for key, value in labels.items())]
        living = ["SCHEDULED", "PAUSED"]
        return list(me.client.pages(me.client.list_jobs, status=living, labels=labels))


def _plan(
    me: Invocation, names: Sequence[str] | None, label: Sequence[str] | None, *, prune: bool, take_over: bool
) -> list[Step]:
    from schedkit.cli import filesets
    from schedkit.files.plan import plan

    files = filesets.read_sound(names)
    wanted = values.pairs(label, "--label")
    if prune and any(file.file == filesets.STDIN for file in files):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "--prune needs a file with a name, and - has none",
            why="what stdin made last time and does not say now may be another file's",
            field="--prune",
        )
    with me.asking():
        kept = _kept(me, files)
        found = _found(me, files, kept)

    def selects(labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in wanted.items())

    return plan(files, found, kept, values.now_ms(), selects=selects, take_over=take_over, prune=prune)


def _kept(me: Invocation, files: Sequence[JobFile]) -> list[Mapping[str, Any]]:
    """Every job that is managed by one of these files."""
    owners = dict.fromkeys(str(file.managed_by) for file in files)
    return [job for owner in owners for job in me.client.pages(me.client.list_jobs, managed_by=owner)]


def _found(me: Invocation, files: Sequence[JobFile], kept: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The server's job of each name that the files say; an ended one where no living one has the name."""
    found = {job["name"]: job for job in kept if job["status"] in ("SCHEDULED", "PAUSED")}
    for name in (job.name for file in files for job in file.jobs):
        if name not in found:
            try:
                found[name] = me.client.get_job(name)
            except NotFound:
                continue
    return found


# Acting


def _refuse_taken(steps: Sequence[Step], files: Sequence[str] | None, *, dry: bool) -> None:
    """Raises Conflict where a job of somebody else has the name of one of ours; nothing was changed yet."""
    from schedkit.cli.filesets import DEFAULT_FILE

    taken = [step for step in steps if step.action == "taken"]
    if not taken or dry:
        return
    first = taken[0]
    named = " -f ".join(shlex.quote(file) for file in files or [DEFAULT_FILE])
    raise Conflict(
        Reason.NAME_IN_USE,
        f"{', '.join(step.name for step in taken)}: {first.note}",
        why="a file never touches jobs that were made otherwise, so nothing was changed",
        fix=(
            f"schedkit job apply -f {named} --take-over",
            f"schedkit job diff -f {named}",
            f"schedkit job show {first.name}",
        ),
        field="name",
    )


def _bound(steps: Sequence[Step], limit: int, confirmed: int | None) -> None:
    """Raises Refusal where more jobs would be cancelled than a slip of the finger may."""
    removed = [step for step in steps if step.action == "remove"]
    if len(removed) <= limit or confirmed == len(removed):
        return
    raise Refusal(
        Code.NOT_CONFIRMED,
        ExitCode.NOT_CONFIRMED,
        f"--prune would cancel {count(len(removed), 'job')}, and {limit} is the limit",
        why="a small edit of a file must not end many jobs without a word",
        fix=[f"schedkit job apply --prune --confirm {len(removed)}", "schedkit job diff --prune"],
    )


def _perform(me: Invocation, steps: Sequence[Step]) -> tuple[dict[str, str], SchedkitError | None]:
    """(what became of each, the first refusal). A refusal is told and the rest goes on, unless the server is away."""
    from schedkit.cli.planpages import conflict

    results: dict[str, str] = {}
    first: SchedkitError | None = None
    for step in steps:
        try:
            with me.asking():
                for call in step.calls():
                    _call(me, step, call)
            results[step.name] = DONE[step.action]
        except SchedkitError as error:
            if exit_code(error) is ExitCode.UNREACHABLE:
                me.say(
                    f"stopped at {step.name} after {len(results)} of {len(steps)}; the same command goes on from here"
                )
                raise
            results[step.name] = str(error.reason)
            first = first or error
            report(conflict(step.name, error), as_json=me.style.format in ("json", "jsonl"), color=False)
    return results, first


def _call(me: Invocation, step: Step, call: Call) -> None:
    ident = str(step.job["job_id"]) if step.job is not None else ""
    match call.verb:
        case "create":
            _create(me, step, call)
        case "update":
            me.client.update_job(ident, call.body, version=call.version)
        case "pause":
            me.client.pause_job(ident, reason=f"{step.managed_by} says so", version=call.version)
        case "resume":
            me.client.resume_job(ident, version=call.version)
        case "cancel":
            me.client.cancel_job(ident, version=call.version)


def _create(me: Invocation, step: Step, call: Call) -> None:
    """Make the job. Where its key made one that has left the name since, the next key makes another."""
    from schedkit.files.plan import create

    for _ in range(MOST_REPLAYS):
        made = me.client.create_job(call.body, idempotency_key=call.key)
        left = made.job["name"] != step.name or made.job["status"] not in ("SCHEDULED", "PAUSED", "COMPLETED")
        if not (made.replayed and left):
            return
        call = create(step, after=made.job["job_id"])
