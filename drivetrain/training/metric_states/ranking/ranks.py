"""Count the rank at which the right class stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drivetrain.training.metric import Counts, Samples
from drivetrain.training.metric_states import checks


@dataclass(frozen=True)
class Ranks:
    """How many samples have their target's class at rank 0, 1, ..., depth - 1 by score, and (last cell) further down.

    Of equal scores the higher class number goes first, as in scikit-learn's top_k_accuracy_score.
    """

    num_classes: int
    depth: int

    @property
    def size(self) -> int:
        return self.depth + 1

    def count(self, samples: Samples) -> Counts:
        targets = checks.class_targets(samples, "multiclass", self.num_classes)[:, None]
        if samples.margins is None:
            scores = checks.scores(samples, "multiclass", self.num_classes, probabilities=False)
        else:  # probabilities of large logits are all 0 or 1
            scores = checks.ranked(samples, "multiclass", self.num_classes, "logits")
        own = np.take_along_axis(scores, targets, axis=1)
        before = (scores > own) | ((scores == own) & (np.arange(self.num_classes) > targets))
        return Counts(np.minimum(before.sum(axis=1), self.depth))
