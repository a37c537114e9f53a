"""Groups of commands that import a command's file when it is asked for, and help that is quick to print."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import typer
import typer.core
import typer.main

COMPLETE = "_DRIVETRAIN_COMPLETE"
"""The variable by which a shell asks for the words that may come next (completion.py)."""


class CommandGroup(typer.core.TyperGroup):
    """A group in the order in which its commands were written."""

    settings: ClassVar[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


class LazyGroup(CommandGroup):
    """A group whose commands live in files of their own: each has an `app` (or `command`)."""

    modules: ClassVar[Mapping[str, str]] = {}
    headings: ClassVar[Mapping[str, Collection[str]]] = {}
    """Heading of the help -> the commands below it; without headings they are listed as they are."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        if not self.headings:
            super().format_commands(ctx, formatter)
            return
        width = max(map(len, self.modules))
        for heading, names in self.headings.items():
            helps = {
                name: self.get_command(ctx, name).get_short_help_str(formatter.width - 6 - width) for name in names
            }
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in helps.items()])

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.modules:
            # The names suffice for "did you mean"; the files stay unread.
            self.commands = dict.fromkeys(self.modules)  # type: ignore[assignment]
            return None
        module = importlib.import_module(f"drivetrain.cli.{self.modules[cmd_name]}")
        return _command(module.app, cmd_name)


@functools.cache
def _command(app: typer.Typer, name: str) -> Any:
    """A process that runs several command lines reads the signatures of a command once."""
    command = typer.main.get_command(app)
    command.name = name
    _name_no_types(command)
    return command


def _name_no_types(command: Any) -> None:
    """Leave out of the help what Python takes an argument for: `PIPELINE`, not `PIPELINE <str>`."""
    for inner in getattr(command, "commands", {}).values():
        _name_no_types(inner)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _nothing


def _nothing(ctx: Any) -> str:
    return ""


def new_app(**options: Any) -> typer.Typer:
    """A typer app with the settings that all of ours share."""
    return typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings=CommandGroup.settings,
        **options,
    )
