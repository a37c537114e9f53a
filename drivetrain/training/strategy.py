"""The contract of a strategy: how a model becomes a distributed one, and how it takes a step.

A file `strategies/<name>.py` has

    FRAMEWORK = "torch"                   the folder of drivetrain/training that it uses
    DIMENSIONS = ("stage", "replicate")   which dimensions of drivetrain.training.layout it uses
    MIN_TORCH = "2.6"                     the oldest torch that carries it; only where that is its framework
    SUMMARY = "..."                       a line for tables and help
    NEEDS = ("deepspeed",)                packages that it needs besides its framework; only where there are some
    LIBRARY = "smddp"                     a library that only its vendor's images hold; only where it needs one
    INSTEAD = "ddp"                       the strategy that does the same without that library
    BACKEND = "smddp"                     what moves its tensors, where it is not the framework's own choice
    class Options                         a frozen dataclass; degrees are called as the dimensions
    class Strategy                        what the loop asks is below; each framework has a base (torch/strategy.py)

Those in capitals are literals, which the compiler reads without importing a framework; so are, where there are such
options, CHOICES = {"schedule": ("gpipe", ...)} and BOUNDS = {"prefetch": (0, None)} (both included; None: no such
bound).

What every strategy promises: a step changes the parameters as one process would with the whole global batch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Protocol

from drivetrain.base.bounds import Bounds, refused
from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.config import Config
from drivetrain.training.framework import Framework
from drivetrain.training.layout import Layout
from drivetrain.training.options import build_options
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, Recipe

# Strategies whose ranks hold the whole model: nothing has to travel in a forward pass.
WHOLE = ("single", "dp", "ddp", "horovod")


class Step(NamedTuple):
    """The results of a step: scalars of the framework, all of it on the device; numbers may be floats."""

    loss: Any
    """The sum of this rank's losses, float64, shape []; 0 where another rank speaks for the replica. torch's strategies
    give a float where they compute on the CPU."""
    gradient_norm: Any
    """Over all parameters, before clipping; None where nobody asked for it."""
    weight: Any = None
    """The total weight of the global batch's samples, float64 [], the same on all ranks; None where each weighs 1
    (the recipe has no `loss_weights`). `loss` is then a sum of weighted losses."""


class Strategy(Protocol):
    """The protocol of a strategy, as the loop uses it.

    Attributes:
        layout: which ranks share a model.
        model: this rank's part.
        precision: of its parameters (`parameters`).
    """

    name: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]]
    framework: ClassVar[Framework]
    layout: Layout
    process: Process
    model: Any
    precision: Any

    def __init__(self, recipe: Recipe, model: Any, process: Process, config: Config, options: Any) -> None: ...

    @classmethod
    def set_up(cls, process: Process, options: Any) -> None:
        """Called before the framework has computed anything: what devices and connections there are."""
        ...

    def train_step(self, batch: Batch, *, num_samples: int, num_global_samples: int, measure: bool = False) -> Step:
        """One optimizer step.

        Args:
            batch: this rank's part of the global batch, on the device.
            num_samples: how many of its samples count; 0 where the rank has none and `batch` is a stand-in that only
                keeps it in step with the others.
            num_global_samples: samples of the global batch, over all ranks.
            measure: whether the gradient's norm is wanted, also where nothing needs it.
        """
        ...

    def forward(self, inputs: Any) -> Any:
        """Outputs for evaluation, or None where another rank of the replica has them."""
        ...

    def on_device(self, batch: Batch) -> Batch:
        """The batch where the model computes."""
        ...

    def set_training(self, on: bool) -> None:
        """Let layers such as dropout train, or be evaluated."""
        ...

    def set_learning_rate(self, *factors: float) -> float:
        """Give every group of parameters a factor times its highest learning rate: each optimizer of the recipe has its
        own, or all have the only one. Returns the first group's."""
        ...

    def settle(self) -> None:
        """Make replicas equal in what a step leaves different. Every rank must call it."""
        ...

    def in_evaluation(self) -> AbstractContextManager[None]:
        """A context in which the model is what is evaluated and saved, the same on all ranks. Every rank enters it."""
        ...


def load_strategy(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """The class of the strategy `name` and its options.

    Raises:
        InputError: no such strategy or option, with the closest match; a value that cannot be.
    """
    _refuse_auto(name)
    module = plugins.load("strategies", name, kind="strategy")
    found: Any = module.Strategy
    found.name, found.dimensions = name, module.DIMENSIONS
    found.framework = plugins.load_framework(module.FRAMEWORK)
    built = build_options(module.Options, options, f"strategy {name!r}")
    for option in fields(module.Options):
        value = getattr(built, option.name)
        choices, bounds = (_of_option(module, option.name, literal) for literal in ("CHOICES", "BOUNDS"))
        if allowed := refused(value, choices, Bounds(*bounds), int if option.type == "int" else float):
            raise InputError(f"strategy {name!r}: {option.name}={value!r}; allowed are {allowed}.")
    return found, built


def _of_option(module: Any, option: str, literal: str) -> Sequence[Any]:
    """The entry of an option in CHOICES or BOUNDS of a strategy's file, or of the file that it has the option from."""
    files = [module, *(sys.modules[kind.__module__] for kind in module.Options.__mro__)]
    entries = (getattr(file, literal, {}).get(option) for file in files)
    return next((entry for entry in entries if entry is not None), ())


def framework_of(strategy: str) -> str:
    """The framework that a strategy's file names; nothing is imported.

    Raises:
        InputError: no such strategy.
    """
    _refuse_auto(strategy)
    return plugins.literal("strategies", strategy, "FRAMEWORK", kind="strategy")


def joining_of(strategy: str) -> tuple[str, str]:
    """How the processes of a strategy join (`join_group`): its framework, and the backend that its file names, "" where
    it leaves that to the framework. Nothing is imported.

    Raises:
        InputError: no such strategy.
    """
    return framework_of(strategy), plugins.literal("strategies", strategy, "BACKEND", kind="strategy")


def refuse_other_framework(recipe: str, strategy: str) -> None:
    """Neither is imported, but for a recipe of one's own: where one framework is installed, the other is perhaps not.

    Raises:
        InputError: the recipe is of another framework than the strategy; or there is no such recipe or strategy.
    """
    wanted = framework_of(strategy)
    if recipe in plugins.names("recipes"):
        own = plugins.literal("recipes", recipe, "FRAMEWORK", kind="recipe", default="torch")
    else:
        own = getattr(plugins.load("recipes", recipe, kind="recipe", own_modules=True), "FRAMEWORK", "torch")
    if own != wanted:
        fitting = plugins.of_framework("strategies", own)
        raise InputError(
            f"recipe {recipe!r} is of {own}, and strategy {strategy!r} of {wanted}. Choose a strategy of {own}: "
            f"{', '.join(fitting) or 'there are no strategies'}; or a recipe of {wanted}."
        )


def _refuse_auto(name: str) -> None:
    if name == "auto":
        raise InputError(
            "strategy 'auto' is settled when a pipeline is compiled (drivetrain run, compile or submit), which knows "
            "the machines; a training is started with a name. `drivetrain recommend --recipe NAME` says which fits."
        )
