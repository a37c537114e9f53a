"""Choose the ClusterTrainingRuntime of a training on several nodes: by its launcher, or its strategy's
framework."""

from __future__ import annotations

from typing import Literal, get_args

from drivetrain.catalog.strategies import read_strategy, strategy_names
from drivetrain.spec.steps import TrainingStep, is_our_training

# The names of the fields of the settings' `trainer`.
Framework = Literal["mpi", "tensorflow", "torch"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
# The launchers of trainings that torchrun does not start (docs/launcher.md).
_LAUNCHERS: dict[object, Framework] = {"mpirun": "mpi", "tf_config": "tensorflow"}


def framework_of(step: TrainingStep) -> Framework:
    """By the parameter `launcher`, or the variable DRIVETRAIN_LAUNCHER; where neither is given, by the strategy."""
    launcher = step.parameters.get("launcher") or step.environment.get("DRIVETRAIN_LAUNCHER")
    strategy = step.parameters.get("strategy")
    if launcher is None and is_our_training(step) and strategy in strategy_names():
        return "tensorflow" if read_strategy(str(strategy)).framework == "tensorflow" else "torch"
    return _LAUNCHERS.get(launcher, "torch")
