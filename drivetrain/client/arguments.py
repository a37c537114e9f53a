"""Check the arguments of the client's calls: a value of another kind is refused before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from drivetrain.base.errors import UserError, shown

PLACE = str | Path | None
MOST = 2**63 - 1
"""The greatest number that a ledger can hold."""
_WORDS: dict[Any, str] = {
    str: "a text",
    Path: "a pathlib.Path",
    bool: "True or False",
    int: "a whole number",
    Mapping: 'a dict, such as {"name": "value"}',
}


def checked(call: str, kind: Any, **given: object) -> None:
    """
    Args:
        call: the name of what is called.
        kind: a type or a union of types, of _WORDS.
        given: its arguments of that kind.

    Raises:
        UserError: one of them is of another kind.
    """
    kinds = get_args(kind) or (kind,)
    for name, value in given.items():
        if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kinds):
            words = " or ".join(_WORDS[one] for one in kinds if one is not NoneType)
            raise UserError(f"{call}({name}={shown(value)}): give {words}.")


def checked_home(call: str, home: object) -> None:
    """
    Raises:
        UserError: it is no folder of runs.
    """
    checked(call, PLACE, home=home)
    if isinstance(home, str | Path) and Path(home).is_file():
        raise UserError(f"{call}(home={str(home)!r}): it is a file. Give the folder of runs, such as '.drivetrain'.")


def checked_limit(call: str, limit: object, example: int) -> None:
    """
    Raises:
        UserError: it is no number of runs.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST:
        raise UserError(f"{call}(limit={shown(limit)}): give a whole number from 1, such as limit={example}.")


def checked_lines(lines: object) -> int | None:
    """
    Raises:
        UserError: it is no number of lines.
    """
    if lines is None or (isinstance(lines, int) and not isinstance(lines, bool) and lines >= 0):
        return lines
    raise UserError(f"log(lines={shown(lines)}): give how many of the last lines, from 0, or none for all.")
