"""Rank trainings by their objective."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.targets.sagemaker.run.tuning.config import TuningConfig
from drivetrain.targets.sagemaker.run.tuning.trials import Trial


def ranked(config: TuningConfig, trials: Sequence[Trial]) -> list[Trial]:
    """Those that have an objective, the best first; of equal ones the first to start."""
    sign = -1.0 if config.objective.maximize else 1.0
    return sorted(
        (trial for trial in trials if trial.objective is not None),
        key=lambda trial: (sign * (trial.objective or 0.0), trial.number),
    )


def best(config: TuningConfig, trials: Sequence[Trial]) -> Trial | None:
    """The training with the best objective, one that ran to its end before any that was stopped; None without one."""
    found = ranked(config, trials)
    return next((trial for trial in found if trial.status == "Completed"), found[0] if found else None)
