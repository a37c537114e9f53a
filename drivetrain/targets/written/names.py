"""Names of variables in written code, from names in a definition."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from drivetrain.base.records import dataclass


@dataclass(frozen=True)
class Hints:
    """Names and texts of the source of a definition, beyond it."""

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step or parameter -> its variable there."""
    comments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step or parameter -> lines of text that stand above it."""
    docstring: str = ""
    """That of the file."""


class Names:
    """Gives each thing a name of its own, that hides none of Python's and none that the code imports."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *keyword.kwlist, *keyword.softkwlist, *dir(builtins)}

    def give(self, called: str, *, otherwise: str, constant: bool = False) -> str:
        """`AbaloneTrain` becomes abalone_train; with `constant` ABALONE_TRAIN; where that is taken abalone_train_step,
        with "step" as `otherwise`."""
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", called)
        plain = re.sub(r"[^a-zA-Z0-9]+", "_", words).strip("_").lower() or otherwise
        plain = f"{otherwise}_{plain}" if plain[0].isdigit() else plain
        plain, more = (plain.upper(), otherwise.upper()) if constant else (plain, otherwise)
        name, number = plain, 1
        while name in self._taken:
            name, number = f"{plain}_{more}" if number == 1 else f"{plain}_{number}", number + 1
        self._taken.add(name)
        return name
