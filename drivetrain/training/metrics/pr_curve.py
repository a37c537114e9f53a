"""Precision-recall curve: the share of positives among what is taken for positive against the share of positives found.

Each point is exact: counts at the edge of a bin, and in exact mode at a score of a sample, so that samples that share
a bin are told apart. What lies between points is left out.
The first point is (0, 1), as in scikit-learn: nothing found, and nothing wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drivetrain.training.metrics._one_versus_rest import some_positive
from drivetrain.training.metrics._score_curve import CurveOfScores, Thresholds, points


@dataclass(frozen=True)
class Metric(CurveOfScores):
    """Precision-recall curve (scikit-learn's precision_recall_curve)."""

    def check(self, name: str, positives: int, negatives: int) -> None:
        some_positive(name, positives)

    def curve(self, thresholds: Thresholds, most: int) -> Mapping[str, Any]:
        scores, positives, negatives = thresholds
        recall = np.concatenate([[0.0], positives / positives[-1]])
        precision = np.concatenate([[1.0], positives / (positives + negatives)])
        labels = {"x_label": "recall", "y_label": "precision"}
        return {"kind": "pr", **points(recall, precision, scores, most), **labels}
