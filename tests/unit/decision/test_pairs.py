"""The paired bootstrap's interval, held against what must be true of any."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.decision.pairs import fewest, paired, quantile

VALUES = st.floats(-1e6, 1e6, allow_nan=False)
# Numbers this small have few digits left, and rounding moves them by more than any share of themselves.
SMALLEST = 1e-300
Pairs = list[tuple[float | None, float | None]]


@st.composite
def pairs_of(draw: st.DrawFn) -> Pairs:
    """Most of them defined: about as many fall on either side of the fewest that make an interval of 0.5 or 0.8."""
    found: Pairs = list(draw(st.lists(st.tuples(VALUES, VALUES), min_size=10, max_size=36)))
    for place in draw(st.sets(st.integers(0, len(found) - 1), max_size=4)):
        ours, theirs = found[place]
        found[place] = (None, theirs) if place % 2 else (ours, None)
    return found


@settings(deadline=None)
@given(pairs_of(), st.sampled_from([(0.5, 4), (0.8, 10)]))
def test_the_interval_lies_among_the_differences(pairs: Pairs, asked: tuple[float, int]) -> None:
    """Of n ordered values the quantile p lies at the place p (n - 1), counted from 0. With k its whole part, it lies
    from value k to value k + 1: k + 1 values are not above it, and at most k + 1 are below. From the upper end the same
    holds. A place that is whole may come out of the arithmetic as a little less or more, which is one value's worth."""
    confidence, part = asked  # a tail is a `part`th
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    differences = sorted(a - b for a, b in pairs if a is not None and b is not None)
    interval, used = paired(ours, theirs, confidence)
    assert used == len(differences)
    if used < fewest(confidence):
        assert interval is None
        return
    assert interval is not None
    assert differences[0] <= interval.low <= statistics.median(differences) <= interval.high <= differences[-1]
    assert (interval.replicates, interval.left_out) == (used, len(pairs) - used)
    place, rest = divmod(used - 1, part)
    for beyond, to_the_end in (
        (sum(each < interval.low for each in differences), sum(each <= interval.low for each in differences)),
        (sum(each > interval.high for each in differences), sum(each >= interval.high for each in differences)),
    ):
        assert beyond <= place + 1
        assert to_the_end >= (place + 1 if rest else place)
    assert interval.share_greater + interval.share_less <= 1 + 1e-12


@settings(deadline=None)
@given(pairs_of())
def test_the_other_way_round_it_is_the_same(pairs: Pairs) -> None:
    one, _ = paired([pair[0] for pair in pairs], [pair[1] for pair in pairs], 0.8)
    other, _ = paired([pair[1] for pair in pairs], [pair[0] for pair in pairs], 0.8)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        # Places are rounded, and what that moves an end goes with the gaps between the values, however small the end.
        size = max(abs(a - b) for a, b in pairs if a is not None and b is not None)
        assert math.isclose(one.low, -other.high, rel_tol=0, abs_tol=1e-9 * size + SMALLEST)
        assert math.isclose(one.high, -other.low, rel_tol=0, abs_tol=1e-9 * size + SMALLEST)
        assert (one.share_greater, one.share_less) == (other.share_less, other.share_greater)


@settings(deadline=None)
@given(pairs_of(), st.randoms(use_true_random=False))
def test_the_order_of_the_replicates_does_not_count(pairs: Pairs, draw: object) -> None:
    shuffled = list(pairs)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    one = paired([pair[0] for pair in pairs], [pair[1] for pair in pairs], 0.8)
    assert one == paired([pair[0] for pair in shuffled], [pair[1] for pair in shuffled], 0.8)


@settings(deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=40), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    numpy = pytest.importorskip("numpy")
    ordered = sorted(values)
    tolerance = 1e-9 * max(map(abs, ordered)) + SMALLEST
    assert math.isclose(quantile(ordered, share), numpy.quantile(ordered, share), rel_tol=0, abs_tol=tolerance)


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


def test_of_equal_values_neither_is_greater() -> None:
    interval, used = paired([0.5] * 80, [0.5] * 80, 0.95)
    assert interval is not None and used == 80
    assert (interval.low, interval.high, interval.share_greater, interval.share_less) == (0, 0, 0, 0)


def test_differences_beyond_every_number_are_left_out() -> None:
    interval, used = paired([math.inf] * 5 + [1e300, -1e300] * 40, [0.0] * 85, 0.95)
    assert interval is not None and (used, interval.left_out) == (80, 5)
    assert interval.deviation == pytest.approx(1e300, rel=0.01) and interval.skewness == pytest.approx(0, abs=1e-9)
    assert paired([math.inf] * 80, [math.inf] * 80, 0.95) == (None, 0)


def test_a_quantile_lies_between_its_neighbours() -> None:
    ordered = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [quantile(ordered, share) for share in (0, 0.25, 0.5, 0.875, 1)] == [0, 1, 2, 3.5, 4]
