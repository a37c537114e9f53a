"""How each strategy runs in the contract suite (test_strategies_*.py).

A file of strategies/ needs no word here: it runs on 2 processes for each of its dimensions, each of degree 2, and on
4 where it only deals samples (among the slow tests). What is different about one stands in `RUNS`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from drivetrain.base.degrees import DATA_DIMENSIONS
from drivetrain.training import plugins

# Common options that every strategy honours, or refuses with an InputError that gives the reason.
FEATURES = ("fp16", "bf16", "activation_checkpointing", "compile", "fused", "ema", "clipping")


@dataclass(frozen=True)
class Run:
    """One way in which a strategy runs in the suite."""

    strategy: str
    world_size: int
    options: dict[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ("conv", "transformer")
    """Those of strategy_models.py that it can take, the most telling one last."""
    refuses: frozenset[str] = frozenset()
    """Which of `FEATURES` it refuses."""
    deals_alike: bool = True
    """A model that looks across samples (batch normalization) or draws numbers (dropout) sees each rank's part as one
    forward pass of one process; False where micro-batches or slices of a layer make it something else."""
    slow: bool = False
    """Left to the slow tests: many ranks, or little that another run does not show."""

    @property
    def id(self) -> str:
        options = "-".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.strategy}-{self.world_size}" + (f"-{options}" if options else "")


RUNS: dict[str, list[Run]] = {
    "cp": [
        Run("cp", 2, models=("transformer",), refuses=frozenset({"compile"})),
        Run("cp", 4, {"replicate": 2}, models=("transformer",)),
    ],
    # Keep their parameters in fp32: test_deepspeed.py
    "deepspeed": [],
    "deepspeed_pp": [],
    "horovod": [],  # needs a build of Horovod: test_horovod.py
    "dp": [],  # several GPUs in one process: test_strategies_refuse.py
    "single": [],  # what the others are compared with
    # Over stand-ins of AWS's libraries: test_sagemaker_libraries.py
    "smddp": [],
    "smddp_fsdp": [],
    "smp": [],
}


def runs_of(name: str) -> list[Run]:
    """The runs of a strategy, the most telling one first."""
    if name in RUNS:
        return RUNS[name]
    module = plugins.load("strategies", name, kind="strategy")
    dimensions: tuple[str, ...] = module.DIMENSIONS
    options = {f.name: 2 for f in fields(module.Options) if f.name in dimensions}
    if len(dimensions) == 1 and dimensions[0] in DATA_DIMENSIONS:
        return [Run(name, 2), Run(name, 4, slow=True)]
    # Stages see a part in micro-batches.
    deals_alike = "stage" not in dimensions
    return [Run(name, 2 ** len(dimensions), options, deals_alike=deals_alike, slow=len(dimensions) > 2)]


ALL: list[Run] = [run for name in plugins.of_framework("strategies", "torch") for run in runs_of(name)]
FIRST: list[Run] = [runs_of(name)[0] for name in plugins.of_framework("strategies", "torch") if runs_of(name)]


def parameters(runs: list[Run], *, quick_ranks: int = 4, quick: Collection[str] = ()) -> list[Any]:
    """For pytest.mark.parametrize; left to the slow tests are also runs of more than `quick_ranks` ranks, and where
    `quick` names strategies, those of all others."""
    return [pytest.param(run, id=run.id, marks=_marks(run, quick_ranks, quick)) for run in runs]


def with_models(runs: list[Run], *, quick_ranks: int = 4) -> list[Any]:
    """Each run with each of its models."""
    return [
        pytest.param(run, kind, id=f"{run.id}-{kind}", marks=_marks(run, quick_ranks))
        for run in runs
        for kind in run.models
    ]


def dealt(
    runs: list[Run],
    values: Collection[Any],
    *,
    quick_ranks: int = 4,
    quick: Collection[str] = (),
    rest: str = "nightly",
) -> list[Any]:
    """Each run with one of `values`, in turns; the other pairs are left to the nightly (or slow) tests."""
    found: list[Any] = []
    for number, run in enumerate(runs):
        for place, value in enumerate(values):
            is_its_turn = place == number % len(values)
            marks = _marks(run, quick_ranks, quick, rest) if is_its_turn else [getattr(pytest.mark, rest)]
            found.append(pytest.param(run, value, id=f"{run.id}-{value}", marks=marks))
    return found


def _marks(
    run: Run, quick_ranks: int, quick: Collection[str] = (), most_ranks: str = "nightly"
) -> list[pytest.MarkDecorator]:
    """`most_ranks`: the mark of runs on more than 4 ranks, which take half a minute each."""
    if run.world_size > 4:
        return [getattr(pytest.mark, most_ranks)]
    is_slow = run.slow or run.world_size > quick_ranks or (quick and run.strategy not in quick)
    return [pytest.mark.slow] if is_slow else []
