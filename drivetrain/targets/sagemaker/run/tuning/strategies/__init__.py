"""How the next hyperparameters are chosen: one file a strategy, found by the strategy's name (`Grid` -> grid.py).

A file has

    def suggest(search: Search) -> dict[str, str]
        The hyperparameters of the next training, as text. A pure function: earlier trainings are in `search`, so that a
        killed tuning goes on as if it had not been killed.

and, where it needs a package that is not installed everywhere, `def missing() -> str | None` with what to do.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from drivetrain.targets.sagemaker.run.tuning.config import JobDefinition


@dataclass(frozen=True)
class Tried:
    """An earlier training: `objective` is None while it runs, and of one that gave none, which `failed` says."""

    parameters: Mapping[str, str]
    objective: float | None
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """The state of a search. `number` counts the definition's trainings from 0, `total` is how many there may be,
    `earlier` are those before, in their order."""

    definition: JobDefinition
    number: int
    total: int
    seed: int
    earlier: Sequence[Tried] = ()

    @property
    def own_seed(self) -> int:
        """A seed (32 bits) for this training alone."""
        text = f"{self.seed}/{self.definition.name or ''}/{self.number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


class Strategy(Protocol):
    """The module of a strategy."""

    def suggest(self, search: Search) -> dict[str, str]: ...


def find(name: str) -> Strategy:
    """The module of a strategy that is known."""
    return cast("Strategy", importlib.import_module(f"{__name__}.{name.lower()}"))


def missing(name: str) -> str | None:
    """Say what has to be installed before a strategy can be used, with the command; None if nothing is missing."""
    ask = getattr(find(name), "missing", None)
    return None if ask is None else ask()
