"""Values that enclose a quantile, whatever the distribution is."""

from __future__ import annotations

import pytest
from scipy import stats

from drivetrain.base.order_statistics import enclosing


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("count", [50, 357, 2000, 100_000])
def test_intervals_of_order_statistics_are_the_narrowest_with_their_coverage(count: int, share: float) -> None:
    found = enclosing(count, share, 0.95)
    assert found is not None
    low, high = found
    below = stats.binom(count, share).cdf  # so many values lie below the quantile
    # The value of rank r lies above it where at most r values lie below.
    assert below(low) <= 0.025 < below(low + 1) and 1 - below(high) <= 0.025 < 1 - below(high - 1)


def test_too_few_values_give_no_interval() -> None:
    assert enclosing(5, 0.5, 0.95) is None and enclosing(35, 0.9, 0.95) is None
    assert enclosing(6, 0.5, 0.95) == (0, 5)
