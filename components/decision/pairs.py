"""The paired bootstrap: what replicates of two models on one test set say of their difference.

Each replicate weighs the samples alike for both models, so that what makes a test set easy or hard falls out of the
difference. The interval is the percentile interval (B. Efron, R. Tibshirani: An Introduction to the Bootstrap, 1993,
chapter 13), quantiles interpolated linearly (type 7 of R. Hyndman, Y. Fan: Sample Quantiles, 1996).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where the difference candidate - champion lies.

    `share_greater` is the share of the replicates in which the candidate's value is the greater one, `share_less` that
    in which it is less: surely so, by more than `bound` (those that leave it open make up the rest). `left_out`
    replicates do not define the metric for one of the models. `bound` is how far at most a replicate's difference may
    lie from the true one; both ends have been moved outwards by it.
    """

    low: float
    high: float
    confidence: float
    replicates: int
    left_out: int
    share_greater: float
    share_less: float
    bound: float = 0.0


def fewest(confidence: float) -> int:
    """Replicates without which an interval's ends would be its extremes: two beyond each end."""
    return math.ceil(4 / (1 - confidence) - 1e-9)


def paired(
    candidate: Sequence[float | None], champion: Sequence[float | None], confidence: float, bound: float = 0.0
) -> tuple[Interval | None, int]:
    """The interval of the difference, or None where too few replicates define it; and how many do.

    Args:
        candidate, champion: one value a replicate, in one order; None where it is undefined.
        bound: how far at most a replicate's difference may lie from the true one.
    """
    differences = sorted(
        ours - theirs
        for ours, theirs in zip(candidate, champion, strict=True)
        if ours is not None and theirs is not None
    )
    used = len(differences)
    if used < fewest(confidence):
        return None, used
    tail = (1 - confidence) / 2
    interval = Interval(
        low=quantile(differences, tail) - bound,
        high=quantile(differences, 1 - tail) + bound,
        confidence=confidence,
        replicates=used,
        left_out=len(candidate) - used,
        share_greater=sum(difference > bound for difference in differences) / used,
        share_less=sum(difference < -bound for difference in differences) / used,
        bound=bound,
    )
    return interval, used


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of ordered values, interpolated between neighbours; never outside of them."""
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    if len(ordered) == 1:
        return ordered[0]
    left, right = ordered[below], ordered[below + 1]
    return min(max(left + (place - below) * (right - left), left), right)
