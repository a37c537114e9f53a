"""Bins of margins: they keep the order, mirror each other, need no range, and are as fine as those of probabilities."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.training.metric import Samples
from drivetrain.training.metric_states.ranking import score_histogram
from drivetrain.training.metric_states.ranking.margin_bins import bins_of, bins_of_ties, lower_edges, number_of_bins
from drivetrain.training.metric_states.ranking.score_histogram import CELLS, FINEST, ScoreHistogram
from drivetrain.training.metrics.auroc import Metric
from drivetrain.training.task import Task
from tests.unit.training.metrics.sampling import counted

BINARY = Task("binary", 2)
LOGITS = Task("binary", 2, ranked_by="logits")
MARGINS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-50, 50),
    st.floats(-1e-300, 1e-300),
    st.integers(-1074, 1023).map(lambda power: 2.0**power - 1),
    st.sampled_from([0.0, -0.0, 3.0, 255.0, sys.float_info.max, -sys.float_info.max]),
)
RESOLUTIONS = st.integers(1, 22)


@settings(deadline=None)
@given(st.lists(MARGINS, min_size=1), RESOLUTIONS)
def test_bins_are_in_the_order_of_margins_and_mirror_each_other(margins: list[float], resolution: int) -> None:
    given_margins = np.sort(np.array(margins))
    bins = bins_of(given_margins, resolution)
    last = number_of_bins(resolution) - 1
    assert (np.diff(bins) >= 0).all() and bins.min() >= 0 and bins.max() <= last
    assert np.array_equal(bins_of(-given_margins, resolution), last - bins)
    assert ((bins == last // 2) == (given_margins == 0)).all()


@pytest.mark.parametrize("resolution", [*range(1, 18), 20])
def test_a_bin_begins_at_its_edge(resolution: int) -> None:
    edges, numbers = lower_edges(resolution), np.arange(number_of_bins(resolution))
    assert len(edges) == len(numbers) and (np.diff(edges) >= 0).all()
    upper = numbers[number_of_bins(resolution) // 2 + 2 :]
    assert np.array_equal(bins_of(edges[upper], resolution), upper)
    # (1 + margin is rounded.)
    assert np.array_equal(bins_of(edges[upper] * (1 - 2.0**-40) - 2.0**-40, resolution), upper - 1)
    ties = bins_of_ties(resolution)
    assert ties.sum() == 1 and ties[len(ties) // 2] and ties.shape == edges.shape


def test_there_are_hardly_more_of_them_than_of_probabilities() -> None:
    assert number_of_bins(FINEST) <= 1.01 * score_histogram.number_of_bins(FINEST)
    for classes in (10, 1000):
        assert ScoreHistogram.of(Task("multiclass", classes, ranked_by="logits")).size <= CELLS
    assert ScoreHistogram.of(Task("multiclass", 10, ranked_by="logits")).resolution == FINEST


@pytest.mark.parametrize("scale", [0.1, 0.5, 1, 1.5, 2, 4, 8])
@pytest.mark.parametrize("distance", [0, 1, 3])
def test_the_bound_of_ordinary_logits_is_as_narrow_as_that_of_their_probabilities(scale: float, distance: int) -> None:
    random = np.random.default_rng(0)
    targets = (random.random(200_000) < 0.4).astype(np.int64)
    margins = scale * (random.normal(size=len(targets)) + distance * (targets - 0.5))
    samples = Samples(scores=1 / (1 + np.exp(-margins)), margins=margins, targets=targets)
    bounds = [Metric().compute(task, counted(Metric(), task, samples))[""].bound for task in (LOGITS, BINARY)]
    assert bounds[0] <= 1.1 * bounds[1]
    assert scale not in (1.5, 2) or bounds[0] <= 1e-5


@pytest.mark.parametrize("scale", [1e-3, 30, 1e3, 1e6, 1e30])
def test_margins_of_any_size_are_distinguished(scale: float) -> None:
    random = np.random.default_rng(0)
    targets = (random.random(100_000) < 0.4).astype(np.int64)
    margins = scale * (random.normal(size=len(targets)) + targets)
    samples = Samples(scores=np.zeros(len(targets)), margins=margins, targets=targets)
    value = Metric().compute(LOGITS, counted(Metric(), LOGITS, samples))[""]
    assert value.value == pytest.approx(0.760, abs=0.01)
    assert value.bound <= {1e-3: 1e-2, 30: 1e-4, 1e3: 1e-2, 1e6: 1e-2, 1e30: 1e-2}[scale]
