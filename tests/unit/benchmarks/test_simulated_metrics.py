"""What the simulations of metrics calculate by arrays is what the product, or scikit-learn, says of one night."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, cohen_kappa_score, matthews_corrcoef

from drivetrain.decision.row_forms import Average, Is, Share
from drivetrain.decision.rows import Rows, paired
from tests.benchmarks import metric_nights, replicates
from tests.benchmarks.class_metrics import FORMS

SIZE = 200
BALANCED = Average((Share((Is(3),), (Is(0, 0),)), Share((Is(3),), (Is(0),))), ((Is(0, 0),), (Is(0),)))


@pytest.mark.parametrize("metric", ["recall", "precision", "f1", "auroc", "mse", "balanced_accuracy"])
def test_what_rows_add_is_what_compare_pairs(metric: str) -> None:
    world = metric_nights.World(metric, SIZE, 30, 0.5, stricter=0.3 if metric in ("precision", "f1") else 0.0)
    random = np.random.default_rng(0)
    target = np.arange(SIZE) < world.positives
    noise = list(random.standard_normal((2, 1, SIZE)))
    found = metric_nights.differences(world, target, noise, np.array([[1]]))[0]
    far = 0.0 if metric == "mse" else metric_nights.distance(world, metric_nights.APART)
    scores = [far * target + noise[0][0], metric_nights.DISTANCE * target + noise[1][0]]
    columns = [(target, scores[0] > 1 + world.stricter, scores[0]), (target, scores[1] > 1, scores[1])]
    if metric == "mse":
        columns = [(target, target, noise[0][0] ** 2 * (1 - metric_nights.APART)), (target, target, noise[1][0] ** 2)]
    ours, theirs = (
        Rows(
            keys=np.arange(SIZE, dtype=np.uint64),
            keyed=False,
            columns=[*each, each[0] == each[1]],
            forms={**FORMS, "balanced_accuracy": BALANCED},
        )
        for each in columns
    )
    pairs = paired(ours, theirs, metric, centered=False)
    assert pairs is not None
    expected = np.zeros(SIZE)
    expected[pairs.keys.astype(int)] = pairs.differences / len(pairs.keys) * (-1 if metric == "mse" else 1)
    np.testing.assert_allclose(found, expected, atol=1e-15)
    assert found.any()


def test_replicates_have_the_values_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    target = random.random(SIZE) < 0.2
    scores, weights = target + random.standard_normal(SIZE), random.poisson(1.0, SIZE).astype(float)
    expected = average_precision_score(target, scores, sample_weight=weights)
    found = replicates.average_precision(target[None], scores[None], weights[None, None])
    assert found[0, 0] == pytest.approx(expected)
    answers = [scores > 0.8, scores > 0.5]
    cells = np.bincount(4 * target + 2 * answers[0] + answers[1], minlength=8)
    for place, answer in zip((1, 0), answers, strict=True):
        confusion = replicates.confusion(cells, place)
        assert replicates.agreement("mcc", *confusion) == pytest.approx(matthews_corrcoef(target, answer))
        assert replicates.agreement("cohen_kappa", *confusion) == pytest.approx(cohen_kappa_score(target, answer))
