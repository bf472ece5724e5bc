"""The root of the tree of commands, and the one place where an outcome becomes an exit code.

A command's module is imported when its name is on the line (or being completed), never before.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.main import get_command, get_group

from schedkit import __version__
from schedkit.cli import front
from schedkit.cli.failures import Code, ExitCode, Refusal, nothing_here, report, report_bug
from schedkit.cli.frame import Group, global_options, leaf
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import ReaderGone
from schedkit.errors import SchedkitError

LOST_OUTPUT: Final = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EBADF)


class Root(Group):
    """`schedkit` itself: a table of names, each loaded when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [entry.name for entry in front.COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in front.BY_NAME:
            self.commands[cmd_name] = _load(cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return self._click_resolve_command(ctx, args)
        except typer.TyperException as error:
            if close := get_close_matches(args[0], list(front.BY_NAME)):
                error.message = f"{error.message.rstrip('.')}. Did you mean {', '.join(map(repr, close))}?"
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        lines = [front.page(), "", *global_options(ctx, formatter.width, self.params)]
        formatter.write("\n".join(lines) + "\n")

    def main(self, args: Sequence[str] | None = None, *_: Any, **rest: Any) -> Any:
        """Run a command line and leave with its exit code; what goes wrong is said on stderr."""
        given = list(sys.argv[1:] if args is None else args)
        me = Invocation(line=given)
        rest = {**rest, "prog_name": "schedkit", "standalone_mode": False}
        sys.exit(_outcome(me, given, lambda: super(Root, self).main(given, obj=me, **rest)))


def _load(name: str) -> Any:
    """The command of this name, from its module: a group `app`, or a function of that name."""
    module = importlib.import_module(front.BY_NAME[name].module)
    if hasattr(module, "app"):
        command = get_group(module.app)  # also where it has one command only
        command.name = name
        return command
    return leaf(getattr(module, name), name)


def _outcome(me: Invocation, args: list[str], act: Any) -> int:
    try:
        code = act()
        me.tell_what_is_broken()
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        refusal = Refusal(Code.USAGE, ExitCode.USAGE, error.format_message(), fix=_usage(error))
        return _refuse(me, args, refusal)
    except (SchedkitError, Refusal) as error:
        return _refuse(me, args, _newcomer(me, error))
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, ReaderGone):
        _drop_output()  # the reader has gone
        return ExitCode.DONE
    except Exception as error:
        if isinstance(error, OSError) and error.errno in LOST_OUTPUT and error.filename is None:
            _drop_output()
            told = f"the output cannot be written: {error.strerror}"
            return _refuse(me, args, Refusal(Code.OUTPUT_LOST, ExitCode.BUG, told))
        if me.given.get("debug") or "--debug" in args or os.environ.get("SCHEDKIT_DEBUG"):
            raise
        report_bug(error, as_json=_wants_json(me, args))
        return ExitCode.BUG
    finally:
        me.close()


def _drop_output() -> None:
    """What is still buffered has nowhere to go, and must not fail once more on the way out."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(me: Invocation, args: list[str], error: SchedkitError | Refusal) -> int:
    from schedkit.cli.failures import exit_code

    color = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    color = color and not me.given.get("no_color") and "--no-color" not in args
    report(error, as_json=_wants_json(me, args), color=color)
    return error.exit_code if isinstance(error, Refusal) else exit_code(error)


def _newcomer(me: Invocation, error: SchedkitError | Refusal) -> SchedkitError | Refusal:
    """Nobody configured anything and nobody listens: say how to begin, instead of how it failed."""
    if isinstance(error, SchedkitError) and getattr(error, "refused", False) and me.context.built_in:
        return nothing_here()
    return error


def _usage(error: Any) -> list[str]:
    ctx = getattr(error, "ctx", None)
    return [f"{ctx.command_path} -h"] if ctx is not None else ["schedkit -h"]


def _wants_json(me: Invocation, args: Sequence[str]) -> bool:
    """Whether errors are JSON too. Read from the line itself, since the line may be what is wrong."""
    said = me.given.get("output")
    args = args[: args.index("--")] if "--" in args else args  # what follows is another program's
    for index, arg in enumerate(args):
        if arg in ("-o", "--output") and index + 1 < len(args):
            said = args[index + 1]
        elif arg.startswith("--output="):
            said = arg.partition("=")[2]
        elif arg.startswith("-o") and len(arg) > len("-o"):
            said = arg[2:].removeprefix("=")
    if said is None:
        said = me.settings.get("output")
    return said in ("json", "jsonl")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"schedkit {__version__}")
        raise typer.Exit(0)


app = typer.Typer(cls=Root, add_completion=False, rich_markup_mode=None)


@app.callback(context_settings={"help_option_names": ["-h", "--help"]})
def root(
    version: bool = typer.Option(False, "--version", "-V", callback=_version, is_eager=True, help="The version."),
) -> None:
    """Run every job at the right time, and make it safe when machines fail."""


def run(argv: list[str]) -> None:
    """Run one command line; leaves by SystemExit."""
    if "_SCHEDKIT_COMPLETE" in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    get_command(app).main(argv)
