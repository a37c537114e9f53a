"""How often the comparisons of a pipeline find a model that is truly better, said before anything is trained."""

from __future__ import annotations

import math
from statistics import NormalDist

from drivetrain.decision.policy import Policy

WON, LOST = 0.05, 0.03
"""The shares of rows that the better model of the example has right alone, and wrong alone: two points of accuracy."""
NIGHTS = 14
_SURE = 0.9


def level_within(policy: Policy) -> float:
    """The error rate that a candidate's line, or a single comparison, has spent after `NIGHTS` nights."""
    if not policy.pools:
        return policy.level
    from drivetrain.decision.nights import SPENT

    return (1 - policy.confidence) / policy.lines * SPENT[NIGHTS]


def share_found(rows: int, level: float) -> float:
    """How often the better model is found where each night has the same rows, and the same errors on them: the worst
    case. New rows, and trainings that vary, find more."""
    return NormalDist().cdf((WON - LOST) / _deviation(rows) - NormalDist().inv_cdf(1 - level))


def rows_that_find(level: float, share: float = _SURE) -> int:
    """The rows that find it in `share` of cases."""
    reach = NormalDist().inv_cdf(share) + NormalDist().inv_cdf(1 - level)
    return math.ceil((reach * _deviation(1) / (WON - LOST)) ** 2)


def _deviation(rows: int) -> float:
    return math.sqrt((WON + LOST - (WON - LOST) ** 2) / rows)
