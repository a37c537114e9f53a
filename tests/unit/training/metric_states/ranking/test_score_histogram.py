"""Bins of scores: they keep the order, mirror each other, are the same for float32, and hold ties where they say so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Samples
from drivetrain.training.metric_states.ranking.score_histogram import (
    CELLS,
    FINEST,
    ScoreHistogram,
    bins_of,
    bins_of_ties,
    lower_edges,
    number_of_bins,
    resolution_for,
)
from drivetrain.training.metrics.auroc import Metric
from drivetrain.training.task import Task

SCORES = st.one_of(
    st.floats(0, 1),
    st.floats(0, 1e-300),
    st.floats(0.999999, 1),
    st.integers(0, 1100).map(lambda power: 2.0**-power),
    st.integers(1, 53).map(lambda power: 1 - 2.0**-power),
    st.sampled_from([0.0, -0.0, 5e-324, 0.5, 1.0]),
)
RESOLUTIONS = st.integers(1, 22)


@settings(deadline=None)
@given(st.lists(SCORES, min_size=1), RESOLUTIONS)
def test_bins_are_in_the_order_of_scores_and_mirror_each_other(scores: list[float], resolution: int) -> None:
    given_scores = np.sort(np.array(scores))
    bins = bins_of(given_scores, resolution)
    last = number_of_bins(resolution) - 1
    assert (np.diff(bins) >= 0).all() and bins.min() >= 0 and bins.max() <= last
    upper = given_scores[given_scores >= 0.5]
    assert np.array_equal(bins_of(1 - upper, resolution), last - bins[given_scores >= 0.5])


@settings(deadline=None)
@given(st.lists(SCORES, min_size=1), RESOLUTIONS)
def test_bins_that_say_so_hold_ties_alone(scores: list[float], resolution: int) -> None:
    ties = bins_of_ties(resolution)
    assert len(ties) == number_of_bins(resolution) and ties[0] and ties[-1] and ties[len(ties) // 2]
    for score in scores:
        check_ties(score, resolution)


@pytest.mark.parametrize("resolution", range(1, 23))
def test_bins_near_one_that_say_so_hold_ties_alone(resolution: int) -> None:
    # Where bins become as narrow as float64 are apart.
    for power in range(29, 54):
        for score in (1 - 2.0**-power, np.nextafter(1 - 2.0**-power, 0), np.nextafter(1 - 2.0**-power, 1)):
            check_ties(score, resolution)


def check_ties(score: float, resolution: int) -> None:
    """Where the bin of a score is said to hold ties, its neighbours are not in it."""
    (number,) = bins_of(np.array([score]), resolution)
    if bins_of_ties(resolution)[number]:
        neighbours = np.array([np.nextafter(score, 0), np.nextafter(score, 1)])
        apart = neighbours[neighbours != score]
        assert (bins_of(apart, resolution) != number).all()


@pytest.mark.parametrize("resolution", [*range(1, 18), 20])
def test_a_bin_begins_at_its_edge(resolution: int) -> None:
    edges, numbers = lower_edges(resolution), np.arange(number_of_bins(resolution))
    assert len(edges) == len(numbers) and edges[0] == 0 and edges[-1] == 1 and (np.diff(edges) >= 0).all()
    low = edges <= 0.5
    assert np.array_equal(bins_of(edges[low], resolution), numbers[low])
    assert np.array_equal(bins_of(np.nextafter(edges[low][1:], 0), resolution), numbers[low][:-1])
    # (Nearer to 1 float64 are further apart than bins.)
    high = np.flatnonzero((edges > 0.5) & (edges < 1 - 2.0**-38))
    assert np.array_equal(bins_of(edges[high], resolution), high)
    assert np.array_equal(bins_of(np.nextafter(edges[high], 0), resolution), high - 1)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.floats(0, 1, width=32)), RESOLUTIONS)
def test_float32_and_float64_have_one_bin(scores: list[float], resolution: int) -> None:
    wide, narrow = np.array(scores, np.float64), np.array(scores, np.float32)
    assert np.array_equal(bins_of(wide, resolution), bins_of(narrow, resolution))


def test_bins_are_finer_near_the_ends() -> None:
    edges = lower_edges(FINEST)
    assert np.diff(edges[(edges > 0.3) & (edges < 0.5)]).max() <= 2.0**-16
    tails = edges[(edges > 2.0**-60) & (edges < 2.0**-8)]
    assert (tails[1:] / tails[:-1]).max() <= 1 + 2.0**-8
    # A softmax of a large logit is told apart from one of a larger one.
    assert len(np.unique(bins_of(1 - np.array([1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0]), FINEST))) == 6


def test_binary_cells() -> None:
    tally = ScoreHistogram.of(Task("binary", 2))
    bins = number_of_bins(FINEST)
    samples = Samples(scores=np.array([0.0, 1.0, 0.5]), targets=np.array([0, 1, 1]))
    cells, amounts = tally.count(samples)
    assert amounts is None and cells.tolist() == [0, 2 * bins - 1, bins + bins // 2]
    ((positives, negatives),) = tally.split(np.bincount(cells, minlength=tally.size))
    assert positives.sum() == 2 and positives[-1] == positives[bins // 2] == negatives[0] == negatives.sum() == 1


@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_cells_of_several_classes(kind: str) -> None:
    random = np.random.default_rng(0)
    scores = random.random((50, 3))
    targets = random.integers(0, 3, 50) if kind == "multiclass" else random.integers(0, 2, (50, 3))
    tally = ScoreHistogram(kind, 3, 4)  # type: ignore[arg-type]
    cells = tally.count(Samples(scores=scores, targets=targets)).cells
    assert cells.shape == (50, 3)
    for number, found in enumerate(tally.split(np.bincount(cells.ravel(), minlength=tally.size))):
        positive = targets == number if kind == "multiclass" else targets[:, number] == 1
        for side, counts in zip((positive, ~positive), found, strict=True):
            expected = np.bincount(bins_of(scores[side, number], 4), minlength=number_of_bins(4))
            assert np.array_equal(counts, expected)


def test_many_classes_have_coarser_bins() -> None:
    sizes = {}
    for classes in (2, 10, 100, 1000, 10_000):
        tally = ScoreHistogram.of(Task("multiclass", classes))
        sizes[classes] = tally.resolution
        assert tally.size <= CELLS
    assert sizes[10] == FINEST and list(sizes.values()) == sorted(sizes.values(), reverse=True) and sizes[10_000] > 1
    assert ScoreHistogram.of(Task("multiclass", 1000), 12).resolution == 12
    assert resolution_for(Task("multiclass", 10), cells=0) == 1


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1.5, -1e-9])
def test_invalid_probabilities_are_refused(wrong: float) -> None:
    tally = ScoreHistogram.of(Task("binary", 2))
    with pytest.raises(InputError, match="score is"):
        tally.count(Samples(scores=np.array([0.5, wrong]), targets=np.array([0, 1])))


def test_a_target_that_is_no_class_is_refused() -> None:
    tally = ScoreHistogram.of(Task("multiclass", 3))
    with pytest.raises(InputError, match="target is 3"):
        tally.count(Samples(scores=np.full((1, 3), 0.3), targets=np.array([3])))


@pytest.mark.parametrize("resolution", [-1, 23, 1.5])
def test_a_resolution_that_cannot_be_is_refused(resolution: int) -> None:
    with pytest.raises(InputError, match="whole numbers from 1 to 22"):
        Metric(resolution=resolution)
