"""An exact ranking on one process, and the entries that it is made of. (On several: tests/distributed.)"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Ranked, Ranking
from drivetrain.training.metric_states.numbers.enclosure import UNIT
from drivetrain.training.metric_states.ranking.ranking import FEW_SCORES, rank_exactly
from drivetrain.training.metric_states.ranking.score_entries import (
    Tallied,
    entries_of,
    merged,
    precision_sum,
    twice_wins,
)
from drivetrain.training.process import Process

ALONE = Process(0, 1, 0, 1, None)  # type: ignore[arg-type]
POOL = [-1e300, -2.5, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.25, float(np.nextafter(0.25, 1)), 1.0, 1e300]
SAMPLES = st.lists(st.tuples(st.one_of(st.sampled_from(POOL), st.floats(-10, 10)), st.booleans()), max_size=40)


def ranking(pairs: list[tuple[float, bool]]) -> Ranking:
    return Ranking(np.array([score for score, _ in pairs], np.float64), np.array([one for _, one in pairs], bool))


def by_pairs(pairs: list[tuple[float, bool]]) -> Ranked:
    ones, zeros = [score for score, one in pairs if one], [score for score, one in pairs if not one]
    precisions = [
        Fraction(sum(other >= one for other in ones), sum(other >= one for other, _ in pairs)) for one in ones
    ]
    return Ranked(
        num_positives=len(ones),
        num_negatives=len(zeros),
        twice_wins=sum(2 * (one > zero) + (one == zero) for one in ones for zero in zeros),
        precision_sum=float(sum(precisions, Fraction(0))),
        scores=tuple(sorted({score for score, _ in pairs})),
    )


@settings(deadline=None)
@given(SAMPLES, st.integers(1, 5))
def test_the_ranking_equals_the_count_over_all_pairs(pairs: list[tuple[float, bool]], size: int) -> None:
    batches = [ranking(pairs[start : start + size]) for start in range(0, len(pairs), size)]
    assert rank_exactly(ALONE, {"all": batches, "none": []}) == ({"all": by_pairs(pairs), "none": by_pairs([])}, 0)


def test_scores_are_told_where_they_are_few() -> None:
    for number, told in ((FEW_SCORES, True), (FEW_SCORES + 1, False)):
        ranked, _ = rank_exactly(ALONE, {"a": [ranking([(score / 100, True) for score in range(number)] * 2)]})
        assert (ranked["a"].scores is not None) == told


@given(SAMPLES)
def test_entries_have_each_score_once(pairs: list[tuple[float, bool]]) -> None:
    entries = entries_of([ranking(pairs)])
    expected = sorted({score for score, _ in pairs})
    assert entries.scores.tolist() == expected
    assert entries.positives.tolist() == [sum(one for other, one in pairs if other == score) for score in expected]
    assert entries.negatives.tolist() == [sum(not one for other, one in pairs if other == score) for score in expected]


@pytest.mark.slow
@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_merged_entries_are_those_of_all(several: list[list[tuple[float, bool]]]) -> None:
    found = merged([entries_of([ranking(pairs)]) for pairs in several])
    whole = entries_of([ranking(pairs) for pairs in several])
    for column, expected in zip(found, (whole.scores, whole.positives, whole.negatives), strict=True):
        assert np.array_equal(column, expected)


@settings(deadline=None)
@given(SAMPLES, st.integers(0, 40))
def test_ranges_add_up_to_the_whole(pairs: list[tuple[float, bool]], place: int) -> None:
    whole = merged([entries_of([ranking(pairs)])])
    low, high = (Tallied(*(column[part] for column in whole)) for part in (slice(place), slice(place, None)))
    wins = twice_wins(low, 0) + twice_wins(high, int(low.negatives.sum()))
    assert wins == twice_wins(whole, 0) == by_pairs(pairs).twice_wins
    above = int(high.positives.sum()), int(high.negatives.sum())
    precisions = precision_sum(low, *above) + precision_sum(high, 0, 0)
    assert precisions == precision_sum(whole, 0, 0)
    assert precisions / UNIT == by_pairs(pairs).precision_sum


def test_more_samples_than_int64_has_pairs() -> None:
    many = 2**40
    tallied = Tallied(np.array([0.1, 0.2]), np.array([many, many]), np.array([many, 0]))
    assert twice_wins(tallied, 3) == 2 * 3 * 2 * many + many**2 + 2 * many**2
    true = Fraction(many) + many * Fraction(2, 3)
    assert precision_sum(tallied, 0, 0) == int(true * UNIT)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="not finite"):
        rank_exactly(ALONE, {"a": [ranking([(0.5, True)])], "b": [ranking([(wrong, False)])]})
