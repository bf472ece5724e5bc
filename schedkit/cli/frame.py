"""The frame of every command: shared flags wherever they stand, families of flags, help that starts with examples.

A command is a plain function; its docstring is its help, with two or more lines under `Examples:`. A parameter whose
type is a dataclass stands for a family of flags, one option for each field. `me: Invocation` is the line itself.

    schedkit [global flags] NOUN [global flags] VERB [global flags]      the innermost wins

The two classes here are Typer's own extension points: Leaf and Group add the shared flags and print the help.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from schedkit.cli.invocation import Invocation

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_WAIT: Final = "5m"
HELP_INDENT: Final = 28
EXAMPLES: Final = "Examples:"


@dataclass(frozen=True, slots=True)
class Listing:
    """Flags of every list."""

    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="How many at most.")] = 50
    everything: Annotated[bool, typer.Option("--all", help="All of them, page by page.")] = False
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where a page ended.")] = None
    label: Annotated[list[str] | None, typer.Option("--label", "-l", metavar="K=V", help="With this label.")] = None
    filter: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Keep FIELD=VALUE (!= ~ > < >= <=), comma separated.")
    ] = None
    sort: Annotated[str | None, typer.Option("--sort", metavar="KEY", help="Order by a field, -KEY backwards.")] = None


@dataclass(frozen=True, slots=True)
class Watching:
    """Flags of everything that can be looked at again and again."""

    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again; in a pipe, changes only.")] = False
    interval: Annotated[str, typer.Option("--interval", metavar="2s", help="How often --watch looks.")] = "2s"


@dataclass(frozen=True, slots=True)
class Change:
    """Flags of everything that changes something."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, change nothing.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for those who look later.")] = (
        None
    )
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="K", help="Make repeating safe (creates have one anyway)."),
    ] = None


@dataclass(frozen=True, slots=True)
class Severe:
    """For changes that cannot be undone: --yes is not enough."""

    confirm: Annotated[
        str | None, typer.Option("--confirm", metavar="WORD", help="What would have to be typed, said beforehand.")
    ] = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """For changes after which something runs."""

    wait: Annotated[
        str | None, typer.Option("--wait", metavar="[=5m]", help="Wait for the run to end; exit 10 when it failed.")
    ] = None


@dataclass(frozen=True, slots=True)
class Global:
    """Flags of every command, at any place of the line."""

    context: Annotated[str | None, typer.Option("--context", "-c", metavar="NAME", help="Which scheduler.")] = None
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", metavar="T", help="Act for this tenant.")] = None
    region: Annotated[str | None, typer.Option("--region", metavar="R", help="In this region.")] = None
    cell: Annotated[str | None, typer.Option("--cell", metavar="C", help="In this cell.")] = None
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FORMAT", help="table, wide, json, jsonl, yaml, csv or name."),
    ] = None
    fields: Annotated[str | None, typer.Option("--fields", metavar="A,B", help="Only these fields.")] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Ids only, no messages.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say each call of the server.")] = False
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour (NO_COLOR does the same).")] = False
    no_input: Annotated[bool, typer.Option("--no-input", help="Never ask.")] = False
    timeout: Annotated[str | None, typer.Option("--timeout", metavar="10s", help="Bound of one call with retries.")] = (
        None
    )
    utc: Annotated[bool, typer.Option("--utc", help="Times in UTC.")] = False
    tz: Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="Times in this zone.")] = None
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of a bug.")] = False


@functools.cache
def _shared() -> tuple[Any, ...]:
    """The global flags as Typer's own option objects, made once and put into every command."""

    def flags(shared: Global) -> None: ...

    app = typer.Typer(add_completion=False)
    app.command()(_unfolded(flags))
    return tuple(param for param in get_command(app).params if param.name != "ctx")


def _with_shared(params: Sequence[Any]) -> list[Any]:
    names = {param.name for param in params}
    return [*params, *(param for param in _shared() if param.name not in names)]


def _collect(ctx: Any, own: Sequence[Any]) -> None:
    """Move the values of shared flags from a command's parameters into the invocation."""
    for param in _shared():
        if param not in own:
            continue
        value = ctx.params.pop(param.name, None)
        if value not in (None, False):
            ctx.obj.given[param.name] = value
            if param.name in ("tz", "utc"):  # the later of the two wins
                ctx.obj.given.pop("utc" if param.name == "tz" else "tz", None)


class Leaf(TyperCommand):
    """A command that does something."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **rest: Any) -> None:
        super().__init__(name, params=_with_shared(params or []), **rest)
        self.help, self.examples = _split(self.help or "")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        if any("--wait" in param.opts and str(param.metavar).startswith("[=") for param in self.params):
            args = [f"--wait={DEFAULT_WAIT}" if arg == "--wait" else arg for arg in args[:end]] + args[end:]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        _collect(ctx, self.params)
        return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        lines = ["examples:", *(f"  {example}" for example in self.examples), "", self.help or "", ""]
        pieces = [piece for param in self.params for piece in param.get_usage_pieces(ctx)]
        lines += [f"usage: {' '.join([ctx.command_path, *pieces, '[OPTIONS]'])}", ""]
        own = [param for param in self.params if param not in _shared()]
        arguments = [param for param in own if param.param_type_name == "argument" and getattr(param, "help", None)]
        options = [param for param in own if param.param_type_name == "option"]
        for title, params in (("arguments:", arguments), ("options:", options)):
            if params:
                lines += [title, *_entries(params, ctx, formatter.width), ""]
        formatter.write("\n".join([*lines, *global_options(ctx, formatter.width, self.params)]) + "\n")


class Group(TyperGroup):
    """A noun: a few verbs, and the shared flags between them."""

    def __init__(self, *, params: list[Any] | None = None, **rest: Any) -> None:
        super().__init__(params=_with_shared(params or []), **rest)
        self.invoke_without_command = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if not ctx._protected_args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(0)
        return rest

    def invoke(self, ctx: Any) -> Any:
        _collect(ctx, self.params)
        return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        lines = [self.help or "", "", f"usage: {ctx.command_path} COMMAND [OPTIONS]", "", "commands:"]
        names = self.list_commands(ctx)
        width = max([12, *(len(name) + 2 for name in names)])
        for name in names:
            command = self.get_command(ctx, name)
            summary = (command.help or "").partition("\n")[0] if command else ""
            lines.append(f"  {name:<{width}}{summary}")
        lines += ["", *global_options(ctx, formatter.width, self.params)]
        formatter.write("\n".join(lines) + "\n")


def global_options(ctx: Any, width: int, among: Sequence[Any]) -> list[str]:
    shared = [param for param in _shared() if param in among]
    return ["global options:", *_entries(shared, ctx, width), _entry("-h, --help", "This page.", width)]


def _entries(params: Sequence[Any], ctx: Any, width: int) -> list[str]:
    lines = []
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            lines.append(_entry(_signature(param, record[0]), record[1], width))
    return lines


def _signature(param: Any, record: str) -> str:
    if param.param_type_name == "argument":
        return record
    short = sorted(param.opts, key=len)
    metavar = "" if param.is_flag else f" {param.metavar or param.display_type_rich(None) or 'TEXT'}"
    if metavar.startswith(" [="):
        metavar = metavar.strip()
    return ", ".join(short) + ("" if not param.secondary_opts else f" / {param.secondary_opts[0]}") + metavar


def _entry(left: str, text: str, width: int) -> str:
    wrapped = textwrap.wrap(text, max(24, width - HELP_INDENT)) or [""]
    head = f"  {left}"
    if len(head) + 2 > HELP_INDENT:
        lines = [head, *(" " * HELP_INDENT + line for line in wrapped)]
    else:
        lines = [f"{head:<{HELP_INDENT}}{wrapped[0]}", *(" " * HELP_INDENT + line for line in wrapped[1:])]
    return "\n".join(line.rstrip() for line in lines)


def _split(doc: str) -> tuple[str, tuple[str, ...]]:
    """A docstring's help, and the lines under its `Examples:`."""
    text, _, listed = doc.partition(EXAMPLES)
    examples = tuple(line.strip() for line in listed.splitlines() if line.strip())
    return text.strip(), examples


# Functions to commands


def noun(help: str) -> typer.Typer:
    """A group of commands: `app = noun("Create, change and look at jobs")`."""
    return typer.Typer(cls=Group, help=help, add_completion=False, rich_markup_mode=None)


def verb(app: typer.Typer, name: str) -> Callable[[F], F]:
    """Register a function as a command of a noun."""

    def register(function: F) -> F:
        app.command(name, cls=Leaf)(_unfolded(function))
        return function

    return register


def leaf(function: Callable[..., Any], name: str) -> Any:
    """A function as a command of its own, such as `schedkit status`."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Leaf)(_unfolded(function))
    return get_command(app)


@functools.cache
def _family(kind: type) -> tuple[inspect.Parameter, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        inspect.Parameter(
            spec.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if spec.default is MISSING else spec.default,
            annotation=hints[spec.name],
        )
        for spec in fields(kind)
    )


def _unfolded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with each family as single options, and the invocation taken from Typer's context."""
    own = inspect.signature(function, eval_str=True).parameters
    flat = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    families: dict[str, type] = {}
    for parameter in own.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind) and kind is not Invocation:
            families[parameter.name] = kind
            flat += _family(kind)
        elif kind is not Invocation:
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def call(*, ctx: Any, **given: Any) -> Any:
        sent: dict[str, Any] = {}
        for parameter in own.values():
            if parameter.annotation is Invocation:
                sent[parameter.name] = ctx.obj
            elif parameter.name in families:
                kind = families[parameter.name]
                sent[parameter.name] = kind(**{spec.name: given[spec.name] for spec in fields(kind)})
            else:
                sent[parameter.name] = given[parameter.name]
        return function(**sent)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return call
