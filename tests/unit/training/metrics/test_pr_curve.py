"""Precision-recall curve: its points are scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.metrics import precision_recall_curve

from drivetrain.training.metric import Ranking, Samples, UndefinedError
from drivetrain.training.metric_states.ranking.ranking import rank_exactly
from drivetrain.training.metrics.pr_curve import Metric
from drivetrain.training.process import Process
from drivetrain.training.task import Task
from tests.unit.training.metrics.adversarial import BINARY, RESOLUTIONS, binary, drawn
from tests.unit.training.metrics.sampling import counted

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


@settings(deadline=None)
@given(drawn(), RESOLUTIONS)
def test_each_point_is_one_of_the_curve(samples: tuple[list[float], list[bool]], resolution: int) -> None:
    metric = Metric(resolution=resolution)
    counts = counted(metric, BINARY, binary(*samples))
    if not any(samples[1]):
        for asked in (metric.compute, metric.curves):
            with pytest.raises(UndefinedError, match="no sample of class 1"):
                asked(BINARY, counts)
        return
    assert metric.compute(BINARY, counts) == {}
    curve = metric.curves(BINARY, counts)[""]
    precision, recall, _ = precision_recall_curve(samples[1], samples[0])
    points = set(zip(recall.tolist(), precision.tolist(), strict=True))
    assert set(zip(curve["x"], curve["y"], strict=True)) <= points
    assert (curve["x"][0], curve["y"][0], curve["x"][-1]) == (0, 1, 1)
    assert (np.diff(curve["x"]) >= 0).all()


def test_many_thresholds_become_few_points() -> None:
    random = np.random.default_rng(0)
    targets = random.random(50_000) < 0.1
    scores = 1 / (1 + np.exp(-random.normal(size=50_000) - 2 * targets))
    samples = Samples(scores=scores, targets=targets.astype(np.int64))
    curve = Metric().curves(BINARY, counted(Metric(), BINARY, samples))[""]
    assert (curve["kind"], curve["x_label"], curve["y_label"]) == ("pr", "recall", "precision")
    assert 500 < len(curve["x"]) <= 1000
    precision, recall, _ = precision_recall_curve(targets, scores)
    late = recall > 0.05  # before, the precision of few samples jumps
    assert np.interp(recall[late], curve["x"], curve["y"]) == pytest.approx(precision[late], abs=0.01)


def test_with_very_many_classes_each_has_fewer_points() -> None:
    task = Task("multilabel", 300)
    random = np.random.default_rng(0)
    samples = Samples(scores=random.random((3000, 300)), targets=random.integers(0, 2, (3000, 300)))
    found = Metric().curves(task, counted(Metric(), task, samples))
    assert len(found) == 300 and 100_000 // 600 < max(len(curve["x"]) for curve in found.values()) <= 100_000 // 300


@pytest.mark.slow
@settings(deadline=None)
@given(drawn())
def test_exact_ones_have_a_point_for_each_of_few_scores(samples: tuple[list[float], list[bool]]) -> None:
    ranked = rank_exactly(ALONE, {"class_1": [Ranking(np.array(samples[0]), np.array(samples[1], bool))]}, curves=True)
    if not any(samples[1]):
        with pytest.raises(UndefinedError, match="no sample of class 1"):
            Metric().curves_exact(BINARY, ranked[0])
        return
    curve = Metric().curves_exact(BINARY, ranked[0])[""]
    precision, recall, thresholds = precision_recall_curve(samples[1], samples[0])
    assert (curve["x"], curve["y"]) == (recall[::-1].tolist(), precision[::-1].tolist())
    assert curve["thresholds"] == [None, *thresholds[::-1].tolist()]
