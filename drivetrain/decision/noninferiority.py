"""The loss that paired outcomes rule out: how much worse than the champion a candidate may be at most.

A share of samples (accuracy, recall of a class) is judged from the samples that only one of the models has right, by
the score statistic with the variance at the loss in question (T. Tango: Equivalence Test and Confidence Interval for
the Difference in Proportions for the Paired-Sample Design, Statistics in Medicine, 1998). The variance of what was
observed is too small where few losses were seen: the limit of D. Bonett and R. Price (2012) misses a loss up to 1.8
times as often as its level at 5 %, and 19 times at 5 % / 365.
"""

from __future__ import annotations

import math
from statistics import NormalDist

STRICTER = 1.055
"""On the normal quantile. By exact enumeration the statistic alone misses a loss in up to 5.8 % at a level of 5 %."""
CHANGED = 0.04
"""The assumed share of samples that two equally good models answer differently, half of them to either side."""
_POWER = NormalDist().inv_cdf(0.8)


def rules_out(won: int, lost: int, of: int, loss: float, level: float) -> bool:
    """True where a loss of `loss` or more is ruled out, which is wrong with a probability of at most `level`.

    Args:
        won, lost: samples that the candidate alone has right, and the champion alone.
        of: samples that the metric counts, as the whole of its share.
        loss: how much worse the candidate may be, from -1 to 1.
    """
    if of < 1:
        return False
    if loss >= 1:
        return True
    return _score(won, lost, of, loss) >= _asked(level)


def chance(won: int, lost: int, of: int, loss: float) -> float:
    """The level at which a loss of `loss` is just ruled out."""
    return NormalDist().cdf(-_score(won, lost, of, loss) / STRICTER) if loss < 1 else 0.0


def _score(won: int, lost: int, of: int, loss: float) -> float:
    """How many deviations the observed loss lies below `loss`, were that the true one."""
    # The likeliest share of samples won where lost - won is `loss`: the root of a quadratic equation.
    b = (2 * of - lost + won) * loss - lost - won
    c = -won * loss * (1 - loss)
    wins = (math.sqrt(max(b * b - 8 * of * c, 0.0)) - b) / (4 * of)
    variance = of * (2 * wins + loss * (1 - loss))
    distance = of * loss - (lost - won)
    return distance / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, distance) if distance else 0.0


def most_lost(won: int, lost: int, of: int, level: float) -> float:
    """The loss that is not ruled out: the least one that `rules_out` holds for; below 0 where a gain is certain."""
    low, high = -1.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if rules_out(won, lost, of, middle, level) else (middle, high)
    return high


def could_rule_out(of: int, level: float, changed: float = CHANGED) -> float:
    """The loss that `of` samples rule out in 80 % of cases where both models are equally good."""
    deviation = math.sqrt((changed + 2 / (of + 2)) / (of + 2))
    return min(1.0, (_asked(level) + _POWER) * deviation)


def likely_ruled_out(width: float, level: float) -> float:
    """The same of any metric, from how far the loss that is ruled out lies above the observed one."""
    asked = _asked(level)
    return width * (asked + _POWER) / asked if asked > 0 else width


def passes(loss: float, could: float, level: float) -> float:
    """How often two models that are equally good rule out a loss, where they rule out `could` in 80 % of cases."""
    asked = _asked(level)
    return NormalDist().cdf((asked + _POWER) * loss / could - asked) if could > 0 else 1.0


def _asked(level: float) -> float:
    return STRICTER * NormalDist().inv_cdf(1 - level)
