"""How often a better model is found, beside simulated rows."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from drivetrain.decision.policy import Policy
from drivetrain.decision.power import LOST, WON, level_within, rows_that_find, share_found


@pytest.mark.parametrize(("rows", "share"), [(357, 0.17), (2000, 0.81), (10_000, 1.0)])
def test_a_gain_of_two_points_is_found_within_14_nights_on_the_same_rows(rows: int, share: float) -> None:
    level = level_within(Policy())
    assert share_found(rows, level) == pytest.approx(share, abs=0.01)
    draws = np.random.default_rng(1).multinomial(rows, (WON, LOST, 1 - WON - LOST), 20_000)
    won, lost = draws[:, 0], draws[:, 1]
    found = (won - lost) / np.sqrt(won + lost) > NormalDist().inv_cdf(1 - level)
    assert found.mean() == pytest.approx(share, abs=0.03)


def test_the_planned_number_of_rows_finds_the_gain() -> None:
    for conditions in (Policy(), Policy(nights="bonferroni"), Policy(lines=12)):
        level = level_within(conditions)
        assert share_found(rows_that_find(level), level) == pytest.approx(0.9, abs=0.001)
