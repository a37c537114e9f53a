"""How much too good a threshold looks on the samples on which it was chosen.

In each replicate of a bootstrap the threshold is chosen anew. What it says of the replicate, less what it says of all
samples, is what choosing gains on the samples at hand and on no others (B. Efron, "Estimating the Error Rate of a
Prediction Rule", 1983). A replicate is drawn from the bins of the histogram: as many samples of a bin as Poisson gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Floats, Ints
from drivetrain.training.metric_states.uncertainty.intervals import Limits, clopper_pearson, worth

Costs = tuple[float, float]
REPLICATES = 200
_SEED = 0
# So many numbers at once: 8 MB.
_NUMBERS = 1 << 20


def _rates(
    positives: Ints, negatives: Ints, of_positives: Any, of_negatives: Any, costs: Costs
) -> Mapping[str, NDArray[Any]]:
    """Cost, precision and recall where so many samples of each class are taken for class 1, of so many."""
    taken = positives + negatives
    total = costs[0] * negatives + costs[1] * (of_positives - positives)
    return {
        "cost": total / (of_positives + of_negatives),
        "precision": np.divide(positives, taken, out=np.zeros(taken.shape), where=taken > 0),
        "recall": positives / of_positives,
    }


def optimism(scores: Floats, positives: Ints, negatives: Ints, costs: Costs, each: float = 1.0) -> Mapping[str, float]:
    """Name -> what to add to it for the choice; positive for the cost, mostly negative for precision and recall.

    Args:
        scores: falling thresholds, shape [m].
        positives: that score as high or higher, shape [m]; `negatives` likewise.
        costs: of a false positive and of a false negative.
        each: as how many independent samples each counts.
    """
    random = np.random.Generator(np.random.PCG64(_SEED))
    expected = [np.diff(column, prepend=0) * each for column in (positives, negatives)]
    far = np.abs(scores - costs[0] / (costs[0] + costs[1]))
    gains: dict[str, list[NDArray[Any]]] = {"cost": [], "precision": [], "recall": []}
    at_once = max(1, _NUMBERS // len(scores))
    for start in range(0, REPLICATES, at_once):
        shape = (min(at_once, REPLICATES - start), len(scores))
        ones, zeros = (np.cumsum(random.poisson(column, shape), axis=1) for column in expected)
        both = (ones[:, -1] > 0) & (zeros[:, -1] > 0)
        ones, zeros = ones[both], zeros[both]
        total = costs[0] * zeros + costs[1] * (ones[:, -1:] - ones)
        chosen = np.where(total == total.min(axis=1, keepdims=True), far, np.inf).argmin(axis=1)
        rows = np.arange(len(chosen))
        seen = _rates(ones[rows, chosen], zeros[rows, chosen], ones[:, -1], zeros[:, -1], costs)
        of_all = _rates(positives[chosen], negatives[chosen], positives[-1], negatives[-1], costs)
        for name, gain in gains.items():
            gain.append(of_all[name] - seen[name])
    return {name: float(np.concatenate(gain).mean()) if any(map(len, gain)) else 0.0 for name, gain in gains.items()}


def limits(
    name: str, chosen: Mapping[str, float], costs: tuple[float, float], gain: float, confidence: float
) -> Limits:
    """The interval of `cost`, `precision` or `recall` at a threshold: the exact one of a threshold that was given,
    reaching further by what the choice of this one gains.

    Args:
        chosen: the four counts at it, by name.
        gain: its optimism.
    """
    found, wrong, missed = (chosen[f"{each}s"] for each in ("true_positive", "false_positive", "false_negative"))
    if name == "cost":
        num_samples = found + wrong + missed + chosen["true_negatives"]
        parts = [
            (cost, count / num_samples, _share(count, num_samples, confidence))
            for cost, count in zip(costs, (wrong, missed), strict=True)
        ]
        value = sum(cost * part for cost, part, _ in parts)
        below, above = (math.hypot(*(cost * (part - ends[side]) for cost, part, ends in parts)) for side in (0, 1))
        low, high = value - below, value + above
    else:
        low, high = _share(found, found + (wrong if name == "precision" else missed), confidence)
    return low + min(gain, 0.0), high + max(gain, 0.0)


def _share(count: float, of: float, confidence: float) -> Limits:
    return clopper_pearson(count * worth(), of * worth(), confidence) if of else (0.0, 1.0)
