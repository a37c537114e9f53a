"""The verdict of a line's nights: rows that are used again, and rows that are new each night."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from drivetrain.decision.nights import DRAWS, LOOKS, SPENT, by_nights, by_rows, next_look, student

LEVEL = 0.0125


def rows(won: int, lost: int, of: int, looks: int = 1) -> npt.NDArray[np.float64]:
    """The same rows won and lost on each night."""
    each = np.array([1.0] * won + [-1.0] * lost + [0.0] * (of - won - lost)) / of
    return np.tile(each, (looks, 1))


def test_the_planned_looks() -> None:
    assert list(SPENT.values()) == sorted(SPENT.values()) and SPENT[LOOKS[-1]] < 1
    assert [next_look(n) for n in (0, 1, 2, 3, 14, 365)] == [1, 3, 3, 7, 30, None]


@pytest.mark.parametrize(
    ("level", "degrees", "value"), [(0.025, 1, 12.7062), (0.0125, 2, 6.2053), (0.001, 13, 3.8520), (0.005, 364, 2.5895)]
)
def test_students_t(level: float, degrees: int, value: float) -> None:
    assert student(level, degrees) == pytest.approx(value, abs=1e-4)


def test_the_first_night_is_about_an_exact_test_of_few_rows() -> None:
    # 2^-16 < 0.0125 * 0.2 % < 2^-15
    assert by_rows(rows(16, 0, 357), [16 / 357], LEVEL).is_better
    assert not by_rows(rows(14, 0, 500), [14 / 500], LEVEL).is_better
    assert not by_rows(rows(60, 30, 500), [30 / 500], LEVEL).is_better


def test_a_look_without_power_says_so() -> None:
    assert [by_rows(rows(won, 0, 39), [won / 39], LEVEL).least for won in (0, 1, 15)] == [None] * 3
    assert by_rows(rows(0, 1, 39), [-1 / 39], LEVEL).least is None
    assert by_rows(rows(30, 0, 39), [30 / 39], 1e-6).least is None, "no draw is so rare"
    assert by_nights([0.1, 0.2, 0.3], LEVEL).least is None
    fewer = by_rows(rows(10, 10, 39), [0.0], LEVEL).least
    assert fewer is not None and fewer < 0


@pytest.mark.parametrize("of", [4, 5])
def test_a_handful_of_rows_never_proves_a_gain(of: int) -> None:
    looks = len(LOOKS)
    assert not by_rows(rows(of, 0, of, looks), [1.0] * LOOKS[-1], LEVEL).is_better  # 2^-5 > 0.0125


def test_identical_nights_count_as_one() -> None:
    """All looks spend what one look at the last level would: 30 of 40 rows have a probability of 0.0011."""
    found = by_rows(rows(30, 10, 2000, looks=5), [0.01] * 14, LEVEL)
    assert found.is_better and found.gain == pytest.approx(0.01) and found.least and 0 < found.least < 0.004
    assert not by_rows(rows(26, 14, 2000, looks=5), [0.006] * 14, LEVEL).is_better  # 0.04


def test_differences_between_candidates_widen_the_interval_of_a_line() -> None:
    alike = by_rows(rows(100, 40, 2000, looks=3), [0.03] * 7, LEVEL)
    apart = by_rows(rows(100, 40, 2000, looks=3), [0.0, 0.06, -0.02, 0.08, 0.01, 0.02, 0.06], LEVEL)
    assert alike.is_better and apart.gain == alike.gain and not apart.is_better


def test_nights_on_new_rows_are_one_unit_each() -> None:
    assert not by_nights([0.05] * 6, LEVEL).is_better  # 2^-6 > 0.0125
    found = by_nights([0.05, 0.04] * 5, LEVEL)
    assert found.is_better and found.gain == pytest.approx(0.045) and found.units == 10
    assert not by_nights([0.09, -0.05] * 5, LEVEL).is_better
    assert not by_nights([0.0] * 14, LEVEL).is_better


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("correlated", [True, False])
def test_chance_spends_the_level_over_all_looks(correlated: bool) -> None:
    """2,000 lines that are no better, over looks at 20 %: rows that stay, and that change by half each night."""
    random, wrong = np.random.default_rng(1), 0
    for _ in range(300):
        base = random.choice([-1.0, 0.0, 1.0], 200)
        nights = [base if correlated else 0.7 * base + 0.7 * random.standard_normal(200) for _ in range(7)]
        parts, gains = [], []
        for number, night in enumerate(nights, 1):
            gains.append(float(night.mean()))
            if number in LOOKS:
                parts.append(np.mean(nights[:number], axis=0) / 200)
                if by_rows(np.stack(parts), gains, 0.4, draws=2000).is_better:
                    wrong += 1
                    break
    assert 0.10 < wrong / 300 < 0.30  # 0.4 * 55 % = 0.22


def test_the_decision_over_nights_is_deterministic() -> None:
    parts = np.random.default_rng(2).standard_normal((2, 500)) / 500
    assert by_rows(parts, [0.1, 0.2, 0.3], LEVEL) == by_rows(parts, [0.1, 0.2, 0.3], LEVEL)
    assert DRAWS * LEVEL * SPENT[1] > 4, "the first look's level is met by draws"
