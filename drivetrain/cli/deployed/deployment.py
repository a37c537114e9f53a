"""The common part of commands on a deployment: their arguments and options, and what they ask."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import Argument, Option

Target = Annotated[
    str | None,
    Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].", show_default=False),
]
DefinitionFile = Annotated[
    Path | None, Option("--definition", "-d", metavar="FILE.json", help="A definition instead of a pipeline.")
]
Name = Annotated[
    str | None,
    Option("--name", metavar="NAME", help="The name of a definition's pipeline  [default: its file's]"),
]
Discard = Annotated[
    list[str] | None,
    Option("--discard", metavar="PLACE", help="Give up what others edited there, or `all`. Repeatable."),
]
Adopt = Annotated[
    bool, Option("--adopt", help="Take it over from another project (git repository, or deployment.project).")
]
Deployed = Annotated[
    str,
    Argument(metavar="PIPELINE", help="The name of a deployed pipeline, or FILE.py[:FUNCTION].", show_default=False),
]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool, instead: str) -> bool:
    """Ask on the terminal; `instead` says what to give without a terminal.

    Raises:
        UserError: there is nobody to ask.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(f"There is no terminal to ask on. {instead}")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
