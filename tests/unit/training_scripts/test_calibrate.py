"""The numbers of a calibration: against scikit-learn, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from drivetrain.base.errors import InputError
from drivetrain.training.calibration import Calibration, log_odds_of_each
from drivetrain.training.calibration_config import CalibrationConfig
from drivetrain.training.task import Task
from drivetrain.training_scripts.calibrate import Asked, cheapest, conformal_radius, fit, inverse_temperature, platt

RNG = np.random.default_rng(0)


def overconfident(num_classes: int, num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and labels of noisy classes."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, num_classes, num_rows)
    return random.normal(size=(num_rows, 6)) + 0.7 * np.eye(num_classes, 6)[labels], labels


def test_platt_has_the_probabilities_of_scikit_learn() -> None:
    model = LogisticRegression(C=1e6).fit(*overconfident(2, 12, 1))
    columns, labels = overconfident(2, 2000, 2)
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid").fit(columns, labels)
    slope, intercept = platt(model.decision_function(columns), labels == 1)
    new, _ = overconfident(2, 500, 3)
    found, margins = Calibration(slope=slope, intercept=intercept).probabilities(
        "binary", model.predict_proba(new)[:, 1], model.decision_function(new)
    )
    assert np.abs(found - theirs.predict_proba(new)[:, 1]).max() < 1e-5
    assert margins is not None and np.allclose(1 / (1 + np.exp(-margins)), found, rtol=1e-14)
    assert slope < 0.5  # the model was too sure


def test_a_temperature_has_the_probabilities_of_scikit_learn() -> None:
    model = LogisticRegression(C=1e6).fit(*overconfident(3, 90, 4))
    columns, labels = overconfident(3, 2000, 5)
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(columns, labels)
    slope = inverse_temperature(np.log(model.predict_proba(columns)), labels)
    new, _ = overconfident(3, 500, 6)
    given = model.predict_proba(new)
    found, _ = Calibration(slope=slope).probabilities("multiclass", given, None)
    assert np.abs(found - theirs.predict_proba(new)).max() < 2e-3
    by_margins, margins = Calibration(slope=slope).probabilities(
        "multiclass", given, log_odds_of_each(np.log(given), given)
    )
    assert margins is not None and np.allclose(by_margins, found, atol=1e-12)
    assert np.allclose(1 / (1 + np.exp(-margins)), found, atol=1e-12)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_scores_of_exactly_0_and_1_leave_a_forest_no_worse_than_scikit_learn(num_classes: int) -> None:
    model = RandomForestClassifier(20, random_state=0).fit(*overconfident(num_classes, 1000, 7))
    columns, labels = overconfident(num_classes, 500, 8)
    new, truth = overconfident(num_classes, 4000, 9)
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid").fit(columns, labels).predict_proba(new)
    kind = "binary" if num_classes == 2 else "multiclass"

    def scores_of(given: np.ndarray) -> np.ndarray:
        return given[:, 1] if num_classes == 2 else given

    def errors(given: np.ndarray) -> np.ndarray:
        """Brier score, and calibration error of each class in 10 bins."""
        right = np.eye(num_classes)[truth]
        brier, off = ((given - right) ** 2).sum(axis=1).mean(), 0.0
        for each in range(num_classes):
            bins = np.minimum((given[:, each] * 10).astype(int), 9)
            gaps = np.bincount(bins, given[:, each] - right[:, each], 10)
            off += float(np.abs(gaps).sum()) / len(truth) / num_classes
        return np.array([brier, off])

    raw = model.predict_proba(columns)
    assert (raw == 0).any()
    asked = Asked(Task(kind, num_classes), labels, scores_of(raw), None, raw.argmax(axis=1), None, "")
    found, numbers = fit(asked, CalibrationConfig())
    assert numbers["calibration_error"] < numbers["calibration_error_before"]
    given, _ = found.probabilities(kind, scores_of(model.predict_proba(new)), None)
    ours = errors(given if num_classes > 2 else np.stack([1 - given, given], axis=1))
    assert (ours <= errors(model.predict_proba(new))).all()
    assert (ours <= errors(theirs) + 0.015).all()


def test_rows_that_are_all_right_leave_the_numbers_finite() -> None:
    margins, positive = np.array([-30.0, -20.0, 20.0, 1e6]), np.array([False, False, True, True])
    slope, intercept = platt(margins, positive)
    assert 0 < slope < 10 and math.isfinite(intercept)
    sure = np.log(np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.01, 0.01, 0.98]]))
    assert inverse_temperature(sure, np.arange(3)) == 1


def beta_binomial(found: int, rows: int, a: int, b: int) -> float:
    """The probability of so many covered rows of a test set, of intervals whose coverage is of Beta(a, b)."""
    ways = gammaln(rows + 1) - gammaln(found + 1) - gammaln(rows - found + 1)
    return float(np.exp(ways + betaln(found + a, rows - found + b) - betaln(a, b)))


@pytest.mark.parametrize("quantiles", [False, True])
def test_intervals_hold_new_rows_as_often_as_the_exact_distribution_says(quantiles: bool) -> None:
    rows, new, coverage, sets = 99, 50, 0.9, 400
    place = math.ceil((rows + 1) * coverage)
    held = []
    for _ in range(sets):
        x = RNG.normal(size=rows + new)
        y = (x + (0.3 + np.abs(x)) * RNG.standard_t(4, size=rows + new))[:, None]
        predicted = x[:, None] * 1.1 + 0.2
        ends = (predicted[:, 0] - 0.5 - np.abs(x), predicted[:, 0] + 0.5 + np.abs(x)) if quantiles else None
        asked = Asked(
            *(Task("regression", 1), y[:rows], None, None, predicted[:rows]),
            *(None if ends is None else (ends[0][:rows], ends[1][:rows]), ""),
        )
        calibration, _ = fit(asked, CalibrationConfig(coverage=coverage))
        found = calibration.ends(predicted[rows:], None if ends is None else (ends[0][rows:], ends[1][rows:]))
        assert found is not None
        held.append(int(((found[0] <= y[rows:, 0]) & (y[rows:, 0] <= found[1])).sum()))
    chances = np.array([beta_binomial(each, new, place, rows + 1 - place) for each in range(new + 1)])
    mean, variance = (chances * np.arange(new + 1)).sum(), 0.0
    variance = (chances * (np.arange(new + 1) - mean) ** 2).sum()
    assert mean / new == pytest.approx(place / (rows + 1))
    assert abs(np.mean(held) - mean) < 4 * math.sqrt(variance / sets)
    # The whole distribution, by Kolmogorov and Smirnov's distance at 0.1 %.
    seen = np.cumsum(np.bincount(held, minlength=new + 1)) / sets
    assert np.abs(seen - np.cumsum(chances)).max() < 1.95 / math.sqrt(sets)


def test_too_few_rows_for_a_coverage_are_refused_with_the_number_that_is_needed() -> None:
    with pytest.raises(InputError, match=r"0\.95 needs at least 19 rows, and the calibration set has 18"):
        conformal_radius(np.arange(18.0), 0.95)
    assert conformal_radius(np.arange(19.0), 0.95) == 18


@pytest.mark.parametrize(("answer", "right"), [(0.8, 3.4), (1e6, 0.3), (-0.1, 1e-17)])
def test_an_interval_holds_the_rows_that_it_was_made_of_to_the_last_digit(answer: float, right: float) -> None:
    targets, predicted = np.full((40, 1), right), np.full((40, 1), answer)
    asked = Asked(Task("regression", 1), targets, None, None, predicted, None, "")
    found, numbers = fit(asked, CalibrationConfig())
    ends = found.ends(predicted, None)
    assert ends is not None and ((ends[0] <= right) & (right <= ends[1])).all()
    assert numbers["width"] == pytest.approx(2 * abs(answer - right), rel=1e-12)
    assert numbers["coverage"] == 1 and numbers["coverage_promised"] == 0.9


def test_an_interval_that_shrinks_to_nothing_is_a_point() -> None:
    found = Calibration(radius=-2.0).ends(np.zeros(2), (np.array([-1.0, -5.0]), np.array([1.0, 5.0])))
    assert found is not None and found[0].tolist() == [0.0, -3.0] and found[1].tolist() == [0.0, 3.0]


def test_the_threshold_has_the_least_cost() -> None:
    scores = np.round(RNG.random(500), 3)
    targets = (RNG.random(500) < scores).astype(np.int64)
    found = cheapest(scores, targets, (1.0, 5.0), 0.95)

    def cost(threshold: float) -> float:
        taken = scores >= threshold
        return float((taken & (targets == 0)).sum() + 5 * (~taken & (targets == 1)).sum()) / 500

    assert found["threshold_cost"] == cost(found["threshold"])
    assert found["threshold_cost"] <= min(map(cost, np.linspace(0, 1, 2001))) + 0.02  # thresholds are between bins
    assert found["threshold_cost_low"] < found["threshold_cost"] < found["threshold_cost_high"]
    assert 0.05 < found["threshold"] < 0.35  # 1 / 6 of calibrated scores


def test_rows_that_say_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="4 rows of class 1 and 0 of class 0"):
        platt(np.arange(4.0), np.ones(4, bool))
    for margins in (np.ones(4), np.array([3.0, 2.0, 1.0, 0.0])):
        with pytest.raises(InputError, match="have no higher scores than those of class 0"):
            platt(margins, np.array([False, False, True, True]))
    with pytest.raises(InputError, match="say nothing of the classes"):
        inverse_temperature(np.log(np.array([[0.1, 0.9], [0.9, 0.1]])), np.array([0, 1]))
