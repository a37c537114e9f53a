"""Area under the ROC curve: how often a positive sample scores higher than a negative one; a tie counts half.

Of several classes each is taken against the rest. In histogram mode pairs of one bin count half, and the bound is half
of their share: whatever their order, they win between none and all. Bins that can hold one value only hold ties, for
which half is right.
(J. Hanley and B. McNeil, "The meaning and use of the area under a receiver operating characteristic curve", 1982.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Ints, Ranked
from drivetrain.training.metric_states.numbers.enclosure import Enclosure, dot
from drivetrain.training.metric_states.row_columns import Score, target_and_prediction
from drivetrain.training.metric_states.rows import Average, Form
from drivetrain.training.metric_states.rows import Ranking as RankingOfRows
from drivetrain.training.metric_states.uncertainty.intervals import Limits, area
from drivetrain.training.metrics._one_versus_rest import AreaByClass, both_sides, suffixes
from drivetrain.training.task import Task


@dataclass(frozen=True)
class Metric(AreaByClass):
    """AUROC (scikit-learn's roc_auc_score, with multi_class="ovr")."""

    def rows(self, task: Task) -> Mapping[str, Form]:
        places = [1] if task.kind == "binary" else range(task.num_classes)
        positive = [target_and_prediction(task, place)[0] for place in places]
        each = [
            RankingOfRows(Score(task.kind, task.num_classes, task.ranked_by, place), one)
            for place, one in zip(places, positive, strict=True)
        ]
        if task.kind == "binary":
            return {"": each[0]}
        macro = Average(tuple(each), ((),) * len(each))
        weighted = Average(tuple(each), tuple((one,) for one in positive), by_size=True)
        classes = dict(zip(suffixes(task), each, strict=True)) if self.per_class else {}
        return {"macro": macro, "weighted": weighted, **classes}

    def enclosed(
        self, name: str, positives: Ints, negatives: Ints, ties: NDArray[np.bool_], size: tuple[int, int]
    ) -> Enclosure:
        twice = 2 * both_sides(name, *size)
        # Bins without positives have no pair. Where most of them are, it is cheaper to leave them out.
        bins = np.flatnonzero(positives) if 4 * size[0] < len(positives) else slice(None)
        below = np.cumsum(negatives)[bins]
        positives, negatives, ties = positives[bins], negatives[bins], ties[bins]
        tied = dot(positives[ties], negatives[ties])
        sure = 2 * dot(positives, below - negatives) + tied
        unsure = 2 * (dot(positives, negatives) - tied)
        return Enclosure.of(Fraction(sure, twice), Fraction(sure + unsure, twice))

    def exact(self, name: str, ranked: Ranked) -> Enclosure:
        share = Fraction(ranked.twice_wins, 2 * both_sides(name, ranked.num_positives, ranked.num_negatives))
        return Enclosure.of(share, share)

    def limits(self, value: float, positives: int, negatives: int) -> Callable[[float], Limits]:
        return area(value, positives, negatives)
