"""`schedkit completion`: the script that makes TAB know commands, flags, jobs and contexts."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script, install

from schedkit.cli import values
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One

SHELLS: Final = ("bash", "zsh", "fish", "powershell")
VARIABLE: Final = "_SCHEDKIT_COMPLETE"


def completion(
    me: Invocation,
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"{', '.join(SHELLS)}.")],
    installs: Annotated[bool, typer.Option("--install", help="Put it where the shell finds it.")] = False,
    shown: Annotated[bool, typer.Option("--show", help="Print it; so it does without a flag.")] = False,
) -> None:
    """Shell completion.

    Examples:
      schedkit completion bash --install
      schedkit completion zsh > ~/.zfunc/_schedkit
    """
    name = values.choice(shell, SHELLS, "SHELL")
    completion_init()
    if installs and not shown:
        _, place = install(shell=name, prog_name="schedkit", complete_var=VARIABLE)
        doc = {"shell": name, "path": str(place)}
        lines = [f"{name} completion is in {place}; it works in the next shell"]
        me.show(One("schedkit.completion/v1", doc, lines, "path", exact=True))
        return
    script = get_completion_script(prog_name="schedkit", complete_var=VARIABLE, shell=name)
    me.show(One("schedkit.completion/v1", {"shell": name, "script": script}, script.splitlines(), "script", exact=True))
