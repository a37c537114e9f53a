"""Choose the ordered values that enclose a quantile of their distribution, whatever it is.

(H. David, H. Nagaraja: Order Statistics, 3rd edition, 2003, section 7.1.)
"""

from __future__ import annotations

import math


def enclosing(count: int, share: float, confidence: float) -> tuple[int, int] | None:
    """The ranks, from 0, of the two of `count` ordered values between which the quantile lies at least as often as
    `confidence`, each end missing it in half of the rest at most; None where these are too few."""
    tail, spread = (1 - confidence) / 2, math.sqrt(count * share * (1 - share))
    first, last = (round(count * share + side * (10 * spread + 10)) for side in (-1, 1))
    logs = math.log(share), math.log1p(-share)
    below, low, high = 0.0, None, None
    for values in range(max(0, first), min(count, last) + 1):
        # How likely so many values lie below the quantile, or fewer.
        ways = math.lgamma(count + 1) - math.lgamma(values + 1) - math.lgamma(count - values + 1)
        below += math.exp(ways + values * logs[0] + (count - values) * logs[1])
        if below <= tail:
            low = values
        elif high is None and below >= 1 - tail:
            high = values
    return None if low is None or high is None or high >= count else (low, high)
