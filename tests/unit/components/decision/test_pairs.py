"""The paired bootstrap's interval, held against what must be true of any."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.components.decision.pairs import fewest, paired, quantile

VALUES = st.floats(-1e6, 1e6, allow_nan=False)
PAIRS = st.lists(st.tuples(st.one_of(st.none(), VALUES), st.one_of(st.none(), VALUES)), min_size=80, max_size=120)


@settings(deadline=None)
@given(PAIRS)
def test_the_interval_lies_among_the_differences(pairs: list[tuple[float | None, float | None]]) -> None:
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    differences = sorted(a - b for a, b in pairs if a is not None and b is not None)
    interval, used = paired(ours, theirs, 0.9)
    assert used == len(differences)
    if used < fewest(0.9):
        assert interval is None
        return
    assert interval is not None
    assert differences[0] <= interval.low <= statistics.median(differences) <= interval.high <= differences[-1]
    assert (interval.replicates, interval.left_out) == (used, len(pairs) - used)
    beyond = sum(each < interval.low or each > interval.high for each in differences)
    assert beyond <= math.ceil(0.1 * used)
    assert interval.share_greater + interval.share_less <= 1 + 1e-12


@settings(deadline=None)
@given(PAIRS)
def test_the_other_way_round_it_is_the_same(pairs: list[tuple[float | None, float | None]]) -> None:
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    one, _ = paired(ours, theirs, 0.9)
    other, _ = paired(theirs, ours, 0.9)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        size = max(abs(one.low), abs(one.high), 1e-12)
        assert math.isclose(one.low, -other.high, rel_tol=1e-9, abs_tol=1e-9 * size)
        assert math.isclose(one.high, -other.low, rel_tol=1e-9, abs_tol=1e-9 * size)
        assert (one.share_greater, one.share_less) == (other.share_less, other.share_greater)


@settings(deadline=None)
@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_replicates_does_not_count(
    pairs: list[tuple[float | None, float | None]], draw: object
) -> None:
    shuffled = list(pairs)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    one = paired([pair[0] for pair in pairs], [pair[1] for pair in pairs], 0.9)
    assert one == paired([pair[0] for pair in shuffled], [pair[1] for pair in shuffled], 0.9)


@settings(deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=40), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    numpy = pytest.importorskip("numpy")
    ordered = sorted(values)
    size = max(map(abs, ordered))
    assert math.isclose(quantile(ordered, share), numpy.quantile(ordered, share), rel_tol=1e-9, abs_tol=1e-9 * size)


def test_a_wider_confidence_is_a_wider_interval() -> None:
    ours = [math.sin(number) for number in range(400)]
    widths: list[float] = []
    for confidence in (0.5, 0.8, 0.9, 0.95, 0.99):
        interval, _ = paired(ours, [0.0] * 400, confidence)
        assert interval is not None
        widths.append(interval.high - interval.low)
    assert widths == sorted(widths)
    assert [fewest(confidence) for confidence in (0.5, 0.9, 0.95, 0.99)] == [8, 40, 80, 400]


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Two models that are right alike often, on test sets drawn 300 times: the true difference, 0, lies in the interval
    of about 95 of 100. Where both are right on the same samples mostly, pairing makes it a fraction as wide."""
    numpy = pytest.importorskip("numpy")
    draw = numpy.random.default_rng(0)
    samples, replicates, covered = 300, 200, 0
    widths: list[tuple[float, float]] = []
    for _ in range(300):
        easy = draw.random(samples) < 0.8
        ours, theirs = (numpy.where(easy, 1.0, draw.random(samples) < 0.5) for _ in range(2))
        weights = draw.poisson(1.0, (replicates, samples))
        one, other = (((weights @ right) / weights.sum(axis=1)).tolist() for right in (ours, theirs))
        interval, _ = paired(one, other, 0.95)
        unpaired, _ = paired(one, draw.permutation(other).tolist(), 0.95)
        assert interval is not None and unpaired is not None
        covered += interval.low <= 0 <= interval.high
        widths.append((interval.high - interval.low, unpaired.high - unpaired.low))
    assert 0.92 <= covered / 300 <= 0.98
    assert sum(pair for pair, _ in widths) < 0.8 * sum(single for _, single in widths)


def test_other_lengths_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired([1.0] * 100, [1.0] * 99, 0.9)
