"""From rows to an estimate: which metrics have an interval, and which have too few rows for one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drivetrain.decision.differences import Evidence, evidence
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.intervals import BONETT_PRICE, HALL, of_share
from drivetrain.decision.row_forms import Average, Is, Ranking, Share
from drivetrain.decision.rows import Rows


def known(ours: Rows, theirs: Rows, metric: str) -> Evidence:
    pair = [
        Evaluation(
            source="",
            groups={"": Group(num_samples=rows.num_rows, metrics={metric: Measured(value=0.0)})},
            data_hash="",
            rows=rows.num_rows,
            key=None,
            model_hash="",
            settings={},
            resampling=None,
            evidence=rows,
        )
        for rows in (ours, theirs)
    ]
    return evidence(pair[0], pair[1], metric, "")


def classes(targets: np.ndarray, scores: np.ndarray) -> Rows:
    """Two classes; class 1 is predicted from a score of 0 on."""
    return Rows(
        keys=np.arange(len(targets), dtype=np.uint64),
        keyed=False,
        columns=[targets.astype(np.uint8), (scores >= 0).astype(np.uint8), scores],
        forms={
            "recall": Share((Is(0), Is(1)), (Is(0),)),
            "precision": Share((Is(0), Is(1)), (Is(1),)),
            "f1": Share((Is(0), Is(1)), (Is(0), Is(1)), "twice"),
            "auroc": Ranking(2, Is(0)),
            "balanced_accuracy": Average(
                (Share((Is(0), Is(1)), (Is(0),)), Share((Is(1, 0),), (Is(0, 0),))), ((Is(0),), (Is(0, 0),))
            ),
        },
    )


def shares(right: np.ndarray, keys: np.ndarray | None = None, of: np.ndarray | None = None) -> Rows:
    return Rows.of({"recall": (right, of)}, keys=keys)


def test_shares_of_equal_rows_use_their_own_denominator() -> None:
    """The recall of a class with 40 of 500 rows, 3 won and 1 lost."""
    of = np.arange(500) < 40
    ours, theirs = (np.arange(500) % 2 == 0 for _ in range(2))
    theirs[[0, 2, 4]] = False
    ours[6] = False
    theirs[400] = False  # is not of the class
    found = known(shares(ours, of=of), shares(theirs, of=of), "recall")
    assert found.counts is not None and tuple(found.counts) == (3, 1, 40)
    assert found.estimate == of_share(3, 1, 40)


def test_few_rows_of_a_class_give_no_evidence() -> None:
    right = np.arange(500) % 2 == 0
    nine, ten = (
        known(shares(right, of=of), shares(~right, of=of), "recall")
        for of in (np.arange(500) < rows for rows in (9, 10))
    )
    assert nine.estimate is None and nine.why_none == "too few samples: 9, and 10 are needed"
    assert ten.estimate is not None


def test_an_average_allows_for_another_row_of_a_small_class() -> None:
    """Both have the only row of class 1 wrong, and differ on 8 of 500 others: its recall is not known to be 0."""
    targets = np.arange(500) == 0
    ours, theirs = (np.where((np.arange(500) >= first) & (np.arange(500) < first + 4), 1.0, -1.0) for first in (10, 20))
    estimate = known(classes(targets, ours), classes(targets, theirs), "balanced_accuracy").estimate
    assert estimate is not None and estimate.center == 0
    assert estimate.low(0.025) < -0.5 and estimate.high(0.025) > 0.5


def test_rows_that_share_a_key_count_as_one() -> None:
    random = np.random.default_rng(0)
    right = [random.random(1000) < 0.9 for _ in range(2)]
    keys = [np.arange(1000, dtype=np.uint64) // size for size in (1, 20, 100)]
    alone, together, few = (known(shares(right[0], each), shares(right[1], each), "recall") for each in keys)
    assert alone.estimate is not None and together.estimate is not None
    assert (alone.estimate.method, together.estimate.method) == (BONETT_PRICE, HALL)
    assert together.estimate.degrees == 49
    assert few.estimate is None and few.why_none == "too few keys: 10, and 15 are needed"


def test_a_key_of_many_rows_leaves_fewer_degrees_of_freedom() -> None:
    right = np.random.default_rng(3).random((2, 460)) < 0.8
    keys = np.concatenate([np.arange(400, dtype=np.uint64) // 10, np.full(60, 40, dtype=np.uint64)])
    found = known(shares(right[0], keys), shares(right[1], keys), "recall").estimate
    # The effective number of keys (Kish), less one: 41 keys would be 40.
    assert found is not None and found.degrees == pytest.approx(460**2 / (40 * 10**2 + 60**2) - 1)


def test_equal_differences_of_all_keys_are_no_certainty() -> None:
    """20 patients of 50 rows each, on whom both models are right: one may be lost as a whole."""
    right, keys = np.full(1000, True), np.arange(1000, dtype=np.uint64) // 50
    found = known(shares(right, keys=keys), shares(right, keys=keys), "recall").estimate
    assert found is not None and found.low(0.025) == pytest.approx(-0.147, abs=0.01)


def test_precision_and_f1_have_an_interval_of_their_rows() -> None:
    random = np.random.default_rng(1)
    targets = random.random(400) < 0.3
    scores = np.where(targets, 1.0, -1.0) + random.standard_normal(400)
    ours, theirs = classes(targets, scores), classes(targets, scores + 0.3 * random.standard_normal(400))
    for metric in ("precision", "f1"):
        values = [float(np.mean(rows.values(metric))) for rows in (ours, theirs)]  # type: ignore[arg-type]
        found = known(ours, theirs, metric).estimate
        assert found is not None and found.center == pytest.approx(values[0] - values[1])
        assert 0.01 < found.error < 0.05
    same = known(ours, ours, "precision").estimate
    assert same is not None and same.center == 0 and same.high(0.025) > 0.01


def test_a_class_without_errors_has_no_interval() -> None:
    targets = np.arange(100) < 50
    rows = classes(targets, np.where(targets, 1.0, -1.0))
    found = known(rows, rows, "f1")
    assert found.estimate is None and found.why_none == "too few samples: all are right, or all are wrong"


@pytest.mark.parametrize(
    ("positives", "noise", "why"),
    [
        (9, 1.0, "too few samples on one side: 9, and 10 are needed"),
        (50, 0.0, "too few samples on which the models differ: 0, and 10 are needed"),
        (50, 1.0, ""),
    ],
)
def test_a_ranking_needs_both_classes_and_rows_ranked_differently(positives: int, noise: float, why: str) -> None:
    random = np.random.default_rng(2)
    targets = np.arange(200) < positives
    scores = targets + random.standard_normal(200)
    found = known(classes(targets, scores), classes(targets, scores + noise * random.standard_normal(200)), "auroc")
    assert found.why_none == why and (found.estimate is None) == bool(why)


@pytest.mark.parametrize(
    ("rows", "differ", "why"),
    [(199, 199, "too few samples: 199, and 200"), (500, 9, "too few samples on which"), (500, 500, "")],
)
def test_a_mean_needs_rows_and_states_its_assumptions(rows: int, differ: int, why: str) -> None:
    random = np.random.default_rng(3)
    theirs = random.exponential(size=rows)
    ours = np.where(np.arange(rows) < differ, random.exponential(size=rows), theirs)
    found = known(Rows.of({}, means={"mse": ours}), Rows.of({}, means={"mse": theirs}), "mse")
    assert found.why_none.startswith(why) and bool(found.why_none) == bool(why)
    assert found.estimate is None or found.estimate.of_errors


def test_metrics_without_row_evidence_use_replicates() -> None:
    rows = Rows(keys=np.arange(300, dtype=np.uint64), keyed=False, columns=[])
    drawn = tuple(0.5 + 0.001 * number for number in range(100))
    group = Group(num_samples=300, metrics={"mcc": Measured(value=0.5)}, replicates={"mcc": drawn})
    ours = Evaluation(
        source="", groups={"": group}, data_hash="", rows=300, key=None, model_hash="", settings={}, resampling=None,
        evidence=rows,
    )  # fmt: skip
    other = replace(ours, groups={"": replace(group, replicates={"mcc": tuple(reversed(drawn))})})
    assert evidence(ours, other, "mcc", "").estimate is not None
    for changes, why in (
        ({}, "too few replicates define it, or they do not vary"),
        ({"num_samples": 199}, "too few samples: 199, and 200 are needed"),
        ({"num_keys": 14.2}, "too few keys: 14, and 15 are needed"),
    ):
        one = replace(ours, groups={"": replace(group, **changes)})  # type: ignore[arg-type]
        assert evidence(one, one, "mcc", "").why_none == why
    bare = replace(ours, groups={"": replace(group, replicates={})})
    assert evidence(bare, bare, "mcc", "") == Evidence(None)
