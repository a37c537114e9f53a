"""ROC curve: its points are scikit-learn's, and few."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.metrics import roc_curve

from drivetrain.training.metric import HasExact, Ranking, Samples, UndefinedError
from drivetrain.training.metric_states.ranking.ranking import rank_exactly
from drivetrain.training.metrics._score_curve import thinned
from drivetrain.training.metrics.roc_curve import Metric
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
    if len(set(samples[1])) < 2:
        for asked in (metric.compute, metric.curves):
            with pytest.raises(UndefinedError, match=r"no sample of class 1|all samples are of class 1"):
                asked(BINARY, counts)
        return
    assert metric.compute(BINARY, counts) == {}
    curve = metric.curves(BINARY, counts)[""]
    x, y, _ = roc_curve(samples[1], samples[0], drop_intermediate=False)
    assert set(zip(curve["x"], curve["y"], strict=True)) <= set(zip(x.tolist(), y.tolist(), strict=True))
    assert (curve["x"][0], curve["y"][0]) == (0, 0) and (curve["x"][-1], curve["y"][-1]) == (1, 1)


def test_points_have_the_threshold_that_reaches_them() -> None:
    samples = binary([0.9, 0.75, 0.25, 0.1], [True, False, True, False])
    curve = Metric().curves(BINARY, counted(Metric(), BINARY, samples))[""]
    assert (curve["kind"], curve["x_label"], curve["y_label"]) == ("roc", "false positive rate", "true positive rate")
    assert curve["x"] == [0, 0, 0.5, 0.5, 1] and curve["y"] == [0, 0.5, 0.5, 1, 1]
    assert curve["thresholds"][0] is None
    assert curve["thresholds"][1:] == pytest.approx([0.9, 0.75, 0.25, 0.1], abs=2**-16)
    assert all(t <= score for t, score in zip(curve["thresholds"][1:], [0.9, 0.75, 0.25, 0.1], strict=True))


def test_many_thresholds_become_few_points_that_follow_the_curve() -> None:
    random = np.random.default_rng(0)
    targets = random.random(50_000) < 0.5
    scores = 1 / (1 + np.exp(-random.normal(size=50_000) - 2 * targets))
    samples = Samples(scores=scores, targets=targets.astype(np.int64))
    curve = Metric().curves(BINARY, counted(Metric(), BINARY, samples))[""]
    assert 500 < len(curve["x"]) <= 1000 and json.loads(json.dumps(curve, allow_nan=False)) == curve
    assert max(np.diff(curve["x"]).max(), np.diff(curve["y"]).max()) <= 2 / 998 + 1e-3
    x, y, _ = roc_curve(targets, scores)
    ways = [found + other for found, other in ((x, y), (np.array(curve["x"]), np.array(curve["y"])))]
    assert np.interp(*ways, curve["y"]) == pytest.approx(y, abs=0.003)


def test_thinning_keeps_both_ends_and_short_curves() -> None:
    x = np.linspace(0, 1, 5000)
    kept = thinned(x, x**2, 100)
    assert kept[0] == 0 and kept[-1] == 4999 and 90 < len(kept) <= 100
    assert thinned(x[:100], x[:100], 100).tolist() == list(range(100))


def test_several_classes_have_a_curve_each_but_for_those_that_have_none() -> None:
    task = Task("multiclass", 4)
    scores = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    samples = Samples(scores=scores, targets=np.arange(30) % 3)
    found = Metric().curves(task, counted(Metric(), task, samples))
    assert list(found) == ["class_0", "class_1", "class_2"]
    x, y, _ = roc_curve(samples.targets == 1, scores[:, 1], drop_intermediate=False)
    assert (found["class_1"]["x"], found["class_1"]["y"]) == (x.tolist(), y.tolist())
    assert not isinstance(Metric(), HasExact)  # it has no value


@pytest.mark.slow
@settings(deadline=None)
@given(drawn())
def test_exact_ones_have_a_point_for_each_of_few_scores(samples: tuple[list[float], list[bool]]) -> None:
    ranked = rank_exactly(ALONE, {"class_1": [Ranking(np.array(samples[0]), np.array(samples[1], bool))]}, curves=True)
    if len(set(samples[1])) < 2:
        with pytest.raises(UndefinedError, match=r"no sample of class 1|all samples are of class 1"):
            Metric().curves_exact(BINARY, ranked[0])
        return
    curve = Metric().curves_exact(BINARY, ranked[0])[""]
    x, y, thresholds = roc_curve(samples[1], samples[0], drop_intermediate=False)
    assert (curve["x"], curve["y"]) == (x.tolist(), y.tolist())
    assert curve["thresholds"] == [None, *thresholds[1:].tolist()]


@pytest.mark.parametrize("classes", [1, 300])
def test_exact_ones_of_many_scores_have_few_points_which_are_of_the_curve(classes: int) -> None:
    random = np.random.default_rng(0)
    targets = random.random(50_000) < 0.03
    scores = 0.3 + 1e-7 * (random.normal(size=50_000) + 2 * targets)  # all of them in one bin
    few = {f"class_{number}": [Ranking(scores[:50], targets[:50])] for number in range(1, classes)}
    ranked, _ = rank_exactly(ALONE, {"class_0": [Ranking(scores, targets)], **few}, curves=True)
    task = BINARY if classes == 1 else Task("multilabel", classes)
    found = {f"class_{number}": ranked["class_0"] for number in range(classes)} | {"class_1": ranked["class_0"]}
    curve = next(iter(Metric().curves_exact(task, found).values()))
    x, y, _ = roc_curve(targets, scores, drop_intermediate=False)
    most = 1000 if classes == 1 else 100_000 // 300
    assert set(zip(curve["x"], curve["y"], strict=True)) <= set(zip(x.tolist(), y.tolist(), strict=True))
    assert 0.9 * most < len(curve["x"]) <= most and json.loads(json.dumps(curve, allow_nan=False)) == curve
    assert max(np.diff(curve["x"]).max(), np.diff(curve["y"]).max()) < 3 / most
    assert (curve["x"][0], curve["y"][0], curve["x"][-1], curve["y"][-1]) == (0, 0, 1, 1)
