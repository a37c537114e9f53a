"""Rules for stopping a training early, by the objective that it logs: each value of it ends an epoch.

The verdict of a rule says why a training shall end after its latest epoch; None while it may go on. `values` are its
objective epoch by epoch, `ended` those of the trainings that have ended, `running` those of the others at work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from drivetrain.targets.sagemaker.run.tuning.config import TuningConfig

_REDUCTION = 3


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
