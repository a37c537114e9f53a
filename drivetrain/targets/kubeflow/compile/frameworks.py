"""Which ClusterTrainingRuntime a training on several nodes wants: by what its launcher starts."""

from __future__ import annotations

from typing import Literal, get_args

from drivetrain.spec.steps import TrainingStep

# The names of the fields of the settings' `trainer`.
Framework = Literal["mpi", "tensorflow", "torch"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
# The launchers of trainings that torchrun does not start (docs/launcher.md).
_LAUNCHERS: dict[object, Framework] = {"mpirun": "mpi", "tf_config": "tensorflow"}


def framework_of(step: TrainingStep) -> Framework:
    """By the parameter `launcher`, or the variable DRIVETRAIN_LAUNCHER."""
    launcher = step.parameters.get("launcher") or step.environment.get("DRIVETRAIN_LAUNCHER")
    return _LAUNCHERS.get(launcher, "torch")
