"""The common part of the programs' command lines: a dataclass is the options, its docstring is the help."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn

from drivetrain.base.errors import InputError
from drivetrain.steps import argument_help
from drivetrain.steps.signature import parameters_of
from drivetrain.training.errors import unknown_name

READER_WENT_AWAY = 141


def reader_went_away() -> int:
    """The exit code of a program whose output nobody reads any more, as `head` leaves it. (Python flushes once more at
    its end, into nothing.)"""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_WENT_AWAY


class CommandParser(argparse.ArgumentParser):
    """A parser of a program with commands, which says what is wrong in one line.

    Raises:
        InputError: words that are no command, option or value.
    """

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}. With --help: what can be given.")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, where argparse would print the whole usage first.

    Raises:
        InputError: words that are no options or values.
    """

    def __init__(self, *, program: str, description: str | None, usage: str) -> None:
        super().__init__(
            prog=f"python -m {program}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            usage=f"%(prog)s {usage}",
        )

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message.removeprefix('argument ')}. With --help: all options.")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  (overloads)
        given, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = [option for action in self._actions for option in action.option_strings]
            raise unknown_name("option", unknown[0].partition("=")[0], known)
        return given

    def add_fields(self, kind: type, *, metavar: str | None = None) -> None:
        """An option for each field of a dataclass, whose docstring is the help.

        Args:
            metavar: given, the fields are places, and this stands for a value in the help.
        """
        described = argument_help(kind.__doc__ or "")
        declared = {} if metavar else parameters_of(kind)
        for field in fields(kind):
            required = field.default is MISSING
            said = described[field.name] + ("" if field.default in (MISSING, None, "") else f" [{field.default}]")
            words = metavar or declared[field.name].type.__name__.upper()
            self.add_argument(
                "--" + field.name.replace("_", "-"),
                type=_TYPES[declared[field.name].type] if declared else _place,
                metavar=words,
                required=required,
                default=None if required else field.default,
                help=said.replace("%", "%%"),
            )


def _place(text: str) -> Path | str:
    """A folder, or what is no path but a URI, whose two slashes a path would make one."""
    return text if "://" in text else Path(text)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _boolean(text: str) -> bool:
    """Parameters of a step arrive as text: `--compile True`."""
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return values[text.lower()]


_TYPES = {str: str, int: _whole, float: _number, bool: _boolean}
