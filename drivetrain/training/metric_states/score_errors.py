"""How far probabilities lie from what came true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from drivetrain.training.metric import Counts, Floats, Ints, Kind, Samples
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.numbers import exact_sum, sums
from drivetrain.training.metric_states.numbers.exact_sum import SIZE
from drivetrain.training.metric_states.numbers.sums import side_by_side

ScoreError = Literal["brier", "log"]


@dataclass(frozen=True)
class ScoreErrors:
    """The exact sum of one error a sample, and (last cell) how many samples.

    brier  the sum over the classes of (probability - outcome)^2; in a binary task that of class 1 alone
    log    -log(probability of the target's class), the probability clipped to [e, 1 - e], where e is the distance from
           1 to the next number of its type

    An error of a sample is right to a few units in the last place, and none is negative, so that their mean is right to
    about 1e-15 (brier: times the number of classes, at most) relative to itself.
    """

    kind: Kind
    num_classes: int
    error: ScoreError

    @property
    def size(self) -> int:
        return SIZE + 1

    def count(self, samples: Samples) -> Counts:
        targets = checks.class_targets(samples, self.kind, self.num_classes)
        scores = checks.scores(samples, self.kind, self.num_classes)
        if self.error == "log":
            # Of the clipped score's type: 1 - e has to be less than 1.
            edge = np.finfo(scores.dtype).eps
            if self.kind == "binary":
                errors = _log_errors(np.clip(scores, edge, 1 - edge), targets == 1)
            else:
                own = np.take_along_axis(scores, targets[:, None], axis=1)[:, 0]
                errors = _log_errors(np.clip(own, edge, 1 - edge), np.ones(len(own), bool))
        elif self.kind == "binary":
            errors = (scores.astype(np.float64) - targets) ** 2
        else:
            # (A copy in rows: the sum of a row is then the same whatever other rows there are.)
            distances = np.array(scores, np.float64, order="C")
            distances[np.arange(len(distances)), targets] -= 1
            errors = (distances**2).sum(axis=1)
        return side_by_side([exact_sum.spread(errors)], len(errors))

    def settle(self, cells: Ints) -> None:
        sums.settle(cells)


def _log_errors(scores: np.ndarray, positive: np.ndarray) -> Floats:
    """-log(score), or -log(1 - score) where not `positive`: log1p, since 1 - score loses the digits of a small one."""
    wide = np.ascontiguousarray(scores, np.float64)
    return np.where(positive, -np.log(wide), -np.log1p(-wide))
