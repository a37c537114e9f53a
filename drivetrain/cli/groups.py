"""Groups of commands that import a command's file when it is asked for, and help that is quick to print."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Collection, Mapping
from typing import ClassVar

import click

from drivetrain.cli.declared import CommandGroup

COMPLETE = "_DRIVETRAIN_COMPLETE"
"""The variable by which a shell asks for the words that may come next (completion.py)."""


class LazyGroup(CommandGroup):
    """A group whose commands live in files of their own: each has an `app` (or `command`)."""

    modules: ClassVar[Mapping[str, str]] = {}
    headings: ClassVar[Mapping[str, Collection[str]]] = {}
    """Heading of the help -> the commands below it; without headings they are listed as they are."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.headings:
            super().format_commands(ctx, formatter)
            return
        width = max(map(len, self.modules))
        for heading, names in self.headings.items():
            helps = {name: self._built(name).get_short_help_str(formatter.width - 6 - width) for name in names}
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in helps.items()])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            # The names suffice for "did you mean"; the files stay unread.
            self.commands = dict.fromkeys(self.modules)  # type: ignore[assignment]
            return None
        return self._built(cmd_name)

    def _built(self, name: str) -> click.Command:
        return _command(self.modules[name], name)


@functools.cache
def _command(module: str, name: str) -> click.Command:
    """A process that runs several command lines reads the signatures of a command once."""
    command: click.Command = importlib.import_module(f"drivetrain.cli.{module}").app.built(name)
    return command
