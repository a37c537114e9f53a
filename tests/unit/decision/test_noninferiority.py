"""Which losses paired outcomes rule out: held to exact enumeration of what can be observed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drivetrain.decision.noninferiority import could_rule_out, most_lost, passes, rules_out


def chance_to_rule_out(of: int, loss: float, level: float, won: float, lost: float) -> float:
    """Over all counts of samples won and lost, of models that win and lose these shares."""
    most = [int(of * share + 6 * math.sqrt(of * share) + 8) for share in (won, lost)]
    wins, losses = (each.ravel() for each in np.meshgrid(*(np.arange(min(of, each) + 1) for each in most)))
    wins, losses = wins[wins + losses <= of], losses[wins + losses <= of]
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, of + 1)))])
    rest = of - wins - losses
    logs = factorials[of] - factorials[wins] - factorials[losses] - factorials[rest]
    logs += losses * np.log(lost) + rest * np.log1p(-won - lost)
    logs += wins * np.log(won) if won else np.where(wins, -np.inf, 0.0)
    ruled = [rules_out(int(w), int(n), of, loss, level) for w, n in zip(wins, losses, strict=True)]
    return float(np.exp(logs)[ruled].sum())


@pytest.mark.parametrize("of", [20, 50, 100, 357])
def test_a_loss_as_large_as_the_budget_is_ruled_out_at_most_as_often_as_the_level(of: int) -> None:
    for loss in (0.01, 0.02, 0.05, 0.1, 0.2):
        for won in (0.0, 0.005, 0.02, 0.05):
            assert chance_to_rule_out(of, loss, 0.05, won, won + loss) <= 0.05, (loss, won)


@pytest.mark.parametrize("of", [357, 2000])
def test_noninferiority_holds_at_the_level_of_a_year_of_comparisons(of: int) -> None:
    level = 0.05 / 365
    for won in (0.0, 0.005):
        assert chance_to_rule_out(of, 0.02, level, won, won + 0.02) <= level, won


def test_equally_good_models_pass_with_the_planned_power() -> None:
    found = {of: chance_to_rule_out(of, 0.02, 0.05, 0.02, 0.02) for of in (50, 100, 300, 857)}
    assert {of: round(share, 2) for of, share in found.items()} == {50: 0.1, 100: 0.17, 300: 0.44, 857: 0.86}
    for of, share in found.items():
        could = could_rule_out(of, 0.05)
        assert passes(0.02, could, 0.05) == pytest.approx(share, abs=0.02)
        assert passes(could, could, 0.05) == pytest.approx(0.8)


def test_the_largest_loss_not_ruled_out_is_the_boundary_of_the_test() -> None:
    for won, lost, of in ((0, 0, 50), (3, 10, 50), (10, 3, 200), (40, 0, 100), (0, 100, 100)):
        found = most_lost(won, lost, of, 0.05)
        assert found > (lost - won) / of or found == 1.0
        assert rules_out(won, lost, of, found, 0.05) and not rules_out(won, lost, of, found - 1e-6, 0.05)
    assert most_lost(40, 0, 100, 0.05) < 0, "a gain is certain"
    assert most_lost(0, 0, 0, 0.05) == 1.0, "no sample rules nothing out"
