"""The order of trainings by their objective, when a tuning has had enough of them, and when one of them is stopped.

The rules for stopping a training early go by the objective that it logs: each value of it ends an epoch. The verdict of
a rule says why a training shall end after its latest epoch; None while it may go on. `values` are its objective epoch
by epoch, `ended` those of the trainings that have ended, `running` those of the others at work.

https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-progress.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from drivetrain.targets.sagemaker.run.tuning.config import Objective, TuningConfig
from drivetrain.targets.sagemaker.run.tuning.trials import Trial

# The service gives up after as many, if none of them was of use.
MOST_FAILURES = 5
# What a training must gain at least on the best before it, as a part of it (API reference, BestObjectiveNotImproving).
_LEAST_GAIN = 0.01
_REDUCTION = 3


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


def enough(config: TuningConfig, ended: Sequence[Trial], seconds: float) -> str | None:
    """Why no further training is needed; None while one is. `ended` are in the order of their ends, `seconds` is the
    tuning's time at work."""
    objective = config.objective
    values = [trial.objective for trial in ended if trial.objective is not None]
    if config.max_seconds is not None and seconds >= config.max_seconds:
        return f"MaxRuntimeInSeconds {config.max_seconds} is over"
    if config.target is not None:
        reached = [value for value in values if not objective.better(config.target, value)]
        if reached:
            return f"the target {config.target:g} was reached"
    if config.patience is not None and (count := not_improving(objective, ended)) >= config.patience:
        return f"{count} trainings in a row were not better than the best by 1 %"
    return None


def not_improving(objective: Objective, ended: Sequence[Trial]) -> int:
    """How many trainings have ended since the last that was better by 1 % than all before it."""
    best: float | None = None
    count = 0
    for trial in ended:
        value = trial.objective
        if value is not None and (best is None or _improves(objective, value, best)):
            count = 0
        elif best is not None:
            count += 1
        if value is not None and (best is None or objective.better(value, best)):
            best = value
    return count


def _improves(objective: Objective, value: float, best: float) -> bool:
    gain, least = abs(value - best), _LEAST_GAIN * abs(best)
    # Just 1 %, as from 10 to 10.1, is a little less in binary.
    return objective.better(value, best) and (gain >= least or math.isclose(gain, least))


def hopeless(ended: Sequence[Trial]) -> str | None:
    """Why it makes no sense to go on, in the service's words, with the first training's own reason."""
    if len(ended) < MOST_FAILURES or any(trial.objective is not None for trial in ended):
        return None
    return failure(ended)


def failure(ended: Sequence[Trial]) -> str:
    """The failure message of a tuning in which no training gave an objective."""
    failed = [trial for trial in ended if trial.status == "Failed"]
    if failed:
        return (
            f"No training job succeeded after {len(ended)} attempts. The first to fail was {failed[0].label}: "
            f"{failed[0].reason}"
        )
    return (
        f"No objective metrics found after running {len(ended)} training jobs. Please ensure that the algorithm emits "
        "the objective metric as its MetricDefinitions find it in the log."
    )


@dataclass(frozen=True)
class MedianRule:
    """The service's documented rule: a training ends when its objective is worse than the median of the running
    averages, up to the same epoch, of the trainings before it.

    https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-early-stopping.html
    """

    maximize: bool

    def verdict(
        self, values: Sequence[float], ended: Sequence[Sequence[float]], running: Sequence[Sequence[float]]
    ) -> str | None:
        epoch = len(values)
        averages = [fmean(other[:epoch]) for other in ended if len(other) >= epoch]
        if not averages:
            return None
        bar = median(averages)
        if not _worse(values[-1], bar, self.maximize):
            return None
        return f"at epoch {epoch} {values[-1]:.6g} was worse than {bar:.6g}, the median of the trainings before it"


@dataclass(frozen=True)
class SuccessiveHalving:
    """Hyperband's rule: at epochs `least`, 3 `least`, 9 `least`, ... a training ends unless it is among the best third
    of those that came so far; at `most` it ends anyway."""

    maximize: bool
    least: int
    most: int

    def verdict(
        self, values: Sequence[float], ended: Sequence[Sequence[float]], running: Sequence[Sequence[float]]
    ) -> str | None:
        epoch = len(values)
        if epoch >= self.most:
            return f"it has had its {self.most} epochs (MaxResource)"
        if not self._is_rung(epoch):
            return None
        others = [other[epoch - 1] for other in (*ended, *running) if len(other) >= epoch]
        if len(others) + 1 < _REDUCTION:
            return None
        better = sum(not _worse(other, values[-1], self.maximize) and other != values[-1] for other in others)
        places = (len(others) + 1) // _REDUCTION
        if better < places:
            return None
        return f"at epoch {epoch} {better} of {len(others)} trainings were better than {values[-1]:.6g}"

    def _is_rung(self, epoch: int) -> bool:
        rung = self.least
        while rung < epoch:
            rung *= _REDUCTION
        return rung == epoch


def rule(config: TuningConfig) -> MedianRule | SuccessiveHalving | None:
    """The rule of a tuning; None where each training runs to its end."""
    maximize = config.objective.maximize
    if config.resources is not None:
        return SuccessiveHalving(maximize, *config.resources)
    return MedianRule(maximize) if config.early_stopping else None


def _worse(one: float, other: float, maximize: bool) -> bool:
    return one < other if maximize else one > other
