"""How each strategy runs in the contract suite (test_strategies_*.py).

A file of strategies/ needs no word here: it runs on 2 processes for each of its dimensions, each of degree 2, and once
more on 3 where it only deals samples. What is different about one stands in `RUNS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from drivetrain.training_scripts import plugins
from drivetrain.training_scripts.layout import DATA_DIMENSIONS

# What a test may ask for. Every strategy honours each, or refuses it with a reason and says so in its Run.
FEATURES = ("fp16", "bf16", "activation_checkpointing", "compile", "fused", "dropout", "batchnorm")


@dataclass(frozen=True)
class Run:
    """One way in which a strategy runs in the suite."""

    strategy: str
    world_size: int
    options: dict[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ("conv", "transformer")
    refuses: frozenset[str] = frozenset()
    """Which of `FEATURES` it refuses with an InputError."""
    slow: bool = False
    """Left to the slow tests: many ranks, or little that another run does not show."""

    @property
    def id(self) -> str:
        options = "-".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.strategy}-{self.world_size}" + (f"-{options}" if options else "")


RUNS: dict[str, list[Run]] = {
    "dp": [],  # several GPUs in one process: test_strategies_refuse.py
    "single": [],  # what the others are compared with
}


def runs_of(name: str) -> list[Run]:
    """The runs of a strategy, the most telling one first."""
    if name in RUNS:
        return RUNS[name]
    module = plugins.load("strategies", name, kind="strategy")
    dimensions: tuple[str, ...] = module.DIMENSIONS
    options = {f.name: 2 for f in fields(module.Options) if f.name in dimensions}
    runs = [Run(name, 2 ** len(dimensions), options)]
    if len(dimensions) == 1 and dimensions[0] in DATA_DIMENSIONS:
        runs = [Run(name, 2), Run(name, 4, slow=True), Run(name, 1)]
    return runs


ALL: list[Run] = [run for name in plugins.names("strategies") for run in runs_of(name)]
FIRST: list[Run] = [runs_of(name)[0] for name in plugins.names("strategies") if runs_of(name)]
