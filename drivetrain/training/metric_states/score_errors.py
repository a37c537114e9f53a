"""How far probabilities lie from what came true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from drivetrain.training.metric import Counts, Floats, Ints, Samples
from drivetrain.training.metric_states import checks
from drivetrain.training.metric_states.numbers import exact_sum, sums
from drivetrain.training.metric_states.numbers.exact_sum import SIZE
from drivetrain.training.metric_states.numbers.sums import side_by_side
from drivetrain.training.task import Kind, Task

ScoreError = Literal["brier", "log", "log_softmax"]
SUMS = "sums"
_NEAR_ONE = 1e-3  # sums of probabilities in half precision are further off than rounding in float32


@dataclass(frozen=True)
class ScoreErrors:
    """The exact sum of one error a sample, and (last cell) how many samples.

    brier  the sum over the classes of (probability - outcome)^2; in a binary task that of class 1 alone
    log    -log(probability of the target's class), the probability clipped to [e, 1 - e], where e is the distance from
           1 to the next number of its type
    log_softmax  the same of logits: log(1 + exp(-margin of the target's class)), which needs no clipping

    An error of a sample is right to a few units in the last place, and none is negative, so that their mean is right to
    about 1e-15 (brier: times the number of classes, at most) relative to itself.
    """

    kind: Kind
    num_classes: int
    error: ScoreError

    @property
    def size(self) -> int:
        return SIZE + 1

    def errors(self, samples: Samples) -> Floats:
        """Shape [n]."""
        targets = checks.class_targets(samples, self.kind, self.num_classes)
        if self.error == "log_softmax":
            margins = checks.ranked(samples, self.kind, self.num_classes, "logits")
            if self.kind == "binary":
                own = np.where(targets == 1, margins, -margins)
            else:
                own = np.take_along_axis(margins, targets[:, None], axis=1)[:, 0]
            return np.maximum(-own, 0) + np.log1p(np.exp(-np.abs(own)))
        scores = checks.scores(samples, self.kind, self.num_classes)
        if self.error == "log":
            # Of the clipped score's type: 1 - e has to be less than 1.
            edge = np.finfo(scores.dtype).eps
            if self.kind == "binary":
                return _log_errors(np.clip(scores, edge, 1 - edge), targets == 1)
            own = np.take_along_axis(scores, targets[:, None], axis=1)[:, 0]
            return _log_errors(np.clip(own, edge, 1 - edge), np.ones(len(own), bool))
        if self.kind == "binary":
            return (scores.astype(np.float64) - targets) ** 2
        # (A copy in rows: the sum of a row is then the same whatever other rows there are.)
        distances = np.array(scores, np.float64, order="C")
        distances[np.arange(len(distances)), targets] -= 1
        return (distances**2).sum(axis=1)

    def count(self, samples: Samples) -> Counts:
        errors = self.errors(samples)
        return side_by_side([exact_sum.spread(errors)], len(errors))

    def settle(self, cells: Ints) -> None:
        sums.settle(cells)


@dataclass(frozen=True)
class SumsOfScores:
    """Samples whose scores sum to one, and (second cell) those whose scores do not."""

    num_classes: int

    @property
    def size(self) -> int:
        return 2

    def count(self, samples: Samples) -> Counts:
        scores = checks.scores(samples, "multiclass", self.num_classes)
        return Counts((np.abs(scores.sum(axis=1, dtype=np.float64) - 1) > _NEAR_ONE).astype(np.int64))


def sums_of(task: Task) -> dict[str, SumsOfScores]:
    """Tallies by which a metric of probabilities tells whether its scores are some, as those of softmax are."""
    checked = task.kind == "multiclass" and task.ranked_by != "logits"
    return {SUMS: SumsOfScores(task.num_classes)} if checked else {}


def advice_on(counted: Mapping[str, Ints]) -> str:
    """Advice about scores that do not sum to one; "" where they do."""
    right, wrong = counted[SUMS].tolist() if SUMS in counted else (0, 0)
    if not wrong:
        return ""
    return (
        f"the scores of {wrong:,} of {right + wrong:,} samples do not sum to 1 over the classes, so they are no "
        "probabilities: let the recipe's scores() divide each by their sum"
    )


def _log_errors(scores: np.ndarray, positive: np.ndarray) -> Floats:
    """-log(score), or -log(1 - score) where not `positive`: log1p, since 1 - score loses the digits of a small one."""
    wide = np.ascontiguousarray(scores, np.float64)
    return np.where(positive, -np.log(wide), -np.log1p(-wide))
