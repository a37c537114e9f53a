"""ROC curve: the share of positives found against the share of negatives taken for positives, over all thresholds.

Each point is exact: counts at the edge of a bin, and in exact mode at a score of a sample, so that samples that share
a bin are told apart. What lies between points is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drivetrain.training.metrics._one_versus_rest import both_sides
from drivetrain.training.metrics._score_curve import CurveOfScores, Thresholds, points


@dataclass(frozen=True)
class Metric(CurveOfScores):
    """ROC curve (scikit-learn's roc_curve)."""

    def check(self, name: str, positives: int, negatives: int) -> None:
        both_sides(name, positives, negatives)

    def curve(self, thresholds: Thresholds, most: int) -> Mapping[str, Any]:
        scores, positives, negatives = thresholds
        x, y = (np.concatenate([[0.0], counts / counts[-1]]) for counts in (negatives, positives))
        labels = {"x_label": "false positive rate", "y_label": "true positive rate"}
        return {"kind": "roc", **points(x, y, scores, most), **labels}
