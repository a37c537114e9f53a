"""Logits of any size, of both frameworks: they are ranked by themselves, and their log loss loses no digit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from drivetrain.base.errors import InputError
from drivetrain.training import process
from drivetrain.training.metric import Samples, load_metrics
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.result import Evaluation
from drivetrain.training.metric_states.samples import samples_of
from drivetrain.training.outputs import task_of
from drivetrain.training.task import Task
from drivetrain.training.tensorflow import values as tensorflow_values
from drivetrain.training.torch import values as torch_values

ALONE = process.Process(0, 1, 0, 1, torch.device("cpu"))
FRAMEWORKS = {"torch": torch_values.Values(), "tensorflow": tensorflow_values.Values()}
# Fifteen samples whose sigmoid is 1.0.
LARGE = [98.095, 98.4612, 98.1145, 98.1506, 97.6037, 98.9425, 99.2644, 99.5014, 99.728, 99.6595, 99.6931, 99.4667]
LARGE += [99.9623, 99.8949, 99.8768]
LABELS = [0] + [1] * 14


def recipe_of(num_classes: int, **attributes: Any) -> Any:
    def losses(outputs: Any, targets: Any) -> Any:
        return outputs.reshape(len(outputs), -1)[:, 0] > 0

    return SimpleNamespace(
        **{"num_classes": num_classes, "losses": losses, "metrics": lambda outputs, targets: {}, **attributes}
    )


def measured(
    outputs: Any, targets: Any, scoring: str, *, framework: str = "torch", exact: bool = False, **attributes: Any
) -> Evaluation:
    """What is measured of a model with these outputs, given in two batches."""
    outputs, targets = np.asarray(outputs), np.asarray(targets)
    classes = 2 if outputs.ndim == 1 else outputs.shape[1]
    recipe = recipe_of(attributes.pop("num_classes", classes), **attributes)
    task = task_of(recipe)
    counting = Accumulator(ALONE, task, load_metrics(scoring, task), num_rows=len(targets), exact=exact)
    make: Any = torch.tensor if framework == "torch" else np.array
    for rows in np.array_split(np.arange(len(targets)), 2):
        given = make(outputs[rows]), make(targets[rows])
        counting.update(rows, samples_of(FRAMEWORKS[framework], recipe, task, *given, rows=rows))
    return counting.finish()


def margins(logits: np.ndarray) -> np.ndarray:
    """z_k - logsumexp of the others, by the book."""
    others = [logsumexp(np.delete(logits, k, axis=1), axis=1) for k in range(logits.shape[1])]
    return logits - np.stack(others, axis=1)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("exact", [False, True], ids=["histogram", "exact"])
@pytest.mark.parametrize("columns", ["one output", "two outputs", "three classes", "multilabel"])
def test_large_logits_do_not_tie(columns: str, exact: bool, framework: str) -> None:
    logits, targets = np.array(LARGE), np.array(LABELS)
    area, precision = roc_auc_score(targets, logits), average_precision_score(targets, logits)
    assert area == pytest.approx(0.9286, abs=5e-5)
    attributes: dict[str, Any] = {}
    suffix = ""
    if columns == "two outputs":
        logits = np.stack([0 * logits, logits], axis=1)
    elif columns == "three classes":
        logits, suffix = np.stack([0 * logits, logits, 0 * logits - 50], axis=1), "_class_1"
    elif columns == "multilabel":
        logits, targets = np.stack([logits, -logits], axis=1), np.stack([targets, 1 - targets], axis=1)
        attributes, suffix = {"task": "multilabel"}, "_class_0"
    scoring = "auroc, average_precision, roc_curve"
    if suffix:
        scoring = "auroc(per_class=true), average_precision(per_class=true), roc_curve"
    found = measured(logits, targets, scoring, exact=exact, framework=framework, **attributes)
    for name, expected in (("auroc", area), ("average_precision", precision)):
        value = found.whole.metrics[name + suffix]
        assert abs(value.value - expected) <= value.bound + 1e-12
        assert value.bound <= (0 if exact else 0.1)
    curve = found.curves["roc_curve" + suffix]
    assert len(curve["x"]) > 5 and 0 < curve["y"][1] < 1
    assert all(0 <= threshold <= 1 for threshold in curve["thresholds"][1:])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_margins_are_those_by_the_book(framework: str) -> None:
    random = np.random.default_rng(0)
    logits = random.normal(size=(400, 5)) * np.repeat([1e-3, 1, 30, 3000], 100)[:, None]
    task = task_of(recipe_of(5))
    make: Any = torch.tensor if framework == "torch" else np.array
    targets = make(np.zeros(400, np.int64))
    samples = samples_of(FRAMEWORKS[framework], recipe_of(5), task, make(logits), targets)
    assert samples.margins is not None
    np.testing.assert_allclose(samples.margins, margins(logits), rtol=1e-13, atol=1e-14)
    twice = samples_of(FRAMEWORKS[framework], recipe_of(5), task, make(logits[:, [0, 0, 1, 2, 2]]), targets).margins
    assert twice is not None
    assert (twice[:, 0] == twice[:, 1]).all() and (twice[:, 3] == twice[:, 4]).all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("scale", [0.1, 5, 2000])
def test_log_loss_of_logits_is_that_of_log_softmax(scale: float, framework: str) -> None:
    random = np.random.default_rng(1)
    logits, targets = scale * random.normal(size=(200, 4)), random.integers(0, 4, 200)
    expected = -log_softmax(logits, axis=1)[np.arange(200), targets].mean()
    assert measured(logits, targets, "log_loss", framework=framework).whole.metrics["log_loss"].value == pytest.approx(
        expected, rel=1e-13
    )
    one, labels = logits[:, 0], (targets > 1).astype(np.int64)
    expected = np.logaddexp(0, np.where(labels == 1, -one, one)).mean()
    assert measured(one, labels, "log_loss", framework=framework).whole.metrics["log_loss"].value == pytest.approx(
        expected, rel=1e-13
    )


def test_top_k_of_large_logits_does_not_tie() -> None:
    # The softmax of the second and of the third class is 0.
    found = measured([[2000.0, 500.0, 400.0]] * 4, [1, 1, 2, 0], "top_k(k=2)")
    assert found.whole.metrics["top_k"].value == 0.75


def test_the_threshold_is_among_probabilities() -> None:
    value = measured([-1.0, 0.5, 1.5, 2.0], [0, 0, 1, 1], "threshold").whole.metrics["threshold"].value
    assert 1 / (1 + np.exp(-0.5)) < value < 1 / (1 + np.exp(-1.5))


@pytest.mark.parametrize("exact", [False, True])
def test_raw_scores_are_ranked_as_they_are(exact: bool) -> None:
    random = np.random.default_rng(2)
    targets = random.integers(0, 2, 300)
    distances = 1e4 * (random.normal(size=300) + targets)
    raw: dict[str, Any] = {"raw_scores": True, "scores": lambda outputs: outputs}
    found = measured(distances, targets, "auroc, roc_curve", exact=exact, **raw)
    value = found.whole.metrics["auroc"]
    assert abs(value.value - roc_auc_score(targets, distances)) <= value.bound + 1e-12 and value.bound < 0.02
    assert max(found.curves["roc_curve"]["thresholds"][1:]) > 1e4
    with pytest.raises(InputError, match=r"needs probabilities between 0 and 1.*raw_scores = True"):
        measured(distances, targets, "log_loss", **raw)
    with pytest.raises(InputError, match=r"raw_scores = True, and name metrics that rank"):
        measured(distances, targets, "auroc", scores=raw["scores"])
    with pytest.raises(InputError, match=r"raw_scores is true, and there is no method scores"):
        measured(distances, targets, "auroc", raw_scores=True)


def test_scores_that_do_not_sum_to_one_are_reported() -> None:
    random = np.random.default_rng(3)
    probabilities, targets = softmax(random.normal(size=(50, 3)), axis=1), random.integers(0, 3, 50)
    own: dict[str, Any] = {"scores": lambda outputs: outputs}
    scoring = "log_loss, brier, calibration_error"
    right = measured(probabilities, targets, scoring, **own).whole.metrics
    assert right["log_loss"].value == pytest.approx(log_loss(targets, y_proba=probabilities), rel=1e-12)
    assert not any(value.advice for value in right.values())
    probabilities[:5] *= 0.9
    for value in measured(probabilities, targets, scoring, **own).whole.metrics.values():
        assert value.advice.startswith("the scores of 5 of 50 samples do not sum to 1")


def test_a_task_says_by_what_samples_are_ranked() -> None:
    own = {"scores": lambda outputs: outputs}
    assert task_of(recipe_of(2)).ranked_by == task_of(recipe_of(3)).ranked_by == "logits"
    assert task_of(recipe_of(3, **own)).ranked_by == task_of(recipe_of(0, task="regression")).ranked_by
    assert task_of(recipe_of(3, raw_scores=True, **own)).ranked_by == "raw scores"


@pytest.mark.parametrize("logit", [np.inf, np.nan])
def test_a_logit_that_is_no_number_is_refused(logit: float) -> None:
    with pytest.raises(InputError, match=r"(score|output) of row 1 is (nan|inf)"):
        measured([0.0, logit, 1.0, 2.0], [0, 1, 0, 1], "auroc")
    task = Task("binary", 2, ranked_by="logits")
    samples = Samples(scores=np.ones(2), margins=np.array([0.0, logit]), targets=np.array([0, 1]))
    counting = Accumulator(ALONE, task, load_metrics("auroc", task), num_rows=2)
    counting.update(np.arange(2), samples)
    with pytest.raises(InputError, match=r"a score to rank by is (nan|inf)"):
        counting.finish()
