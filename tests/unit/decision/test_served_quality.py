"""Drops of quality: rarely found where there is none, and found where it is large; and what is not judged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.row_forms import Is, Mean, Ranking
from drivetrain.decision.rows import Rows
from drivetrain.decision.served_quality import Quality, estimate_of, judged_quality, understood

LOOKS = 365


def shares(random: np.random.Generator, rows: int, right: float) -> Rows:
    return Rows.of({"accuracy": (random.random(rows) < right, None)})


def rankings(random: np.random.Generator, rows: int, apart: float) -> Rows:
    positive = random.random(rows) < 0.25
    scores = random.normal(size=rows) + apart * positive
    keys = np.arange(rows, dtype=np.uint64)
    forms = {"auroc": Ranking(1, Is(0, 1))}
    return Rows(keys=keys, keyed=False, columns=[positive.astype(np.uint8), scores], forms=forms)


def errors(random: np.random.Generator, rows: int, scale: float) -> Rows:
    keys = np.arange(rows, dtype=np.uint64)
    return Rows(keys=keys, keyed=False, columns=[(scale * random.normal(size=rows)) ** 2], forms={"mse": Mean(0)})


KINDS = {"accuracy": (shares, 0.9, 0.78), "auroc": (rankings, 1.8, 1.0), "mse": (errors, 1.0, 1.35)}


def evaluation(rows: Rows, metric: str) -> Evaluation:
    said = rows.said(metric)
    assert said is not None
    measured = Measured(value=said.value, higher_is_better=metric != "mse")
    group = Group(num_samples=rows.num_rows, metrics={metric: measured})
    return Evaluation(
        source="the report",
        groups={"": group},
        data_hash="",
        rows=rows.num_rows,
        key=None,
        model_hash="",
        settings={},
        resampling=None,
        evidence=rows,
    )


def judged(served: Rows, promised: Rows, metric: str, **options: float) -> Quality:
    given: dict[str, float] = {"level": 1 / LOOKS, "max_drop": 0.0, "min_labels": 100, **options}
    return judged_quality(evaluation(served, metric), evaluation(promised, metric), metric, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", KINDS)
def test_at_most_one_false_drop_a_year_of_equal_quality(metric: str) -> None:
    """Each year has a test set of its own, which all its looks share: 1,460 looks, of which chance allows 4."""
    make, good, _ = KINDS[metric]
    random = np.random.default_rng(5)
    found = 0
    for _ in range(4):
        promised = make(random, 1_000, good)
        found += sum(judged(make(random, 300, good), promised, metric).dropped for _ in range(LOOKS))
    assert found <= 4 + 2 * 2, "two standard deviations more"


@pytest.mark.parametrize("metric", KINDS)
def test_a_large_drop_is_found_and_one_that_is_allowed_is_not(metric: str) -> None:
    make, good, bad = KINDS[metric]
    random = np.random.default_rng(6)
    promised = make(random, 2_000, good)
    looks = [judged(make(random, 500, bad), promised, metric) for _ in range(50)]
    assert sum(each.dropped for each in looks) >= 45
    assert not any(judged(make(random, 500, bad), promised, metric, max_drop=0.8).dropped for _ in range(20))


def test_rows_of_one_key_are_one_unit() -> None:
    right = np.random.default_rng(7).random(400) < 0.8
    keys = np.repeat(np.arange(400, dtype=np.uint64), 9)
    once = estimate_of(Rows.of({"accuracy": (right, None)}), "accuracy", float(right.mean()))
    repeated = estimate_of(Rows.of({"accuracy": (np.repeat(right, 9), None)}, keys=keys), "accuracy", right.mean())
    assert once is not None and repeated is not None
    assert repeated.error == pytest.approx(once.error, rel=1e-9) and repeated.degrees == 399


def test_few_labels_are_told_and_not_judged() -> None:
    random = np.random.default_rng(8)
    found = judged(shares(random, 60, 0.1), shares(random, 500, 0.9), "accuracy")
    assert not found.dropped and found.surely is None and found.why.endswith("It is judged from 100 labelled rows on")
    found = judged(rankings(random, 60, 1.0), rankings(random, 25, 1.0), "auroc", min_labels=20)
    assert found.surely is None and "the report by which it was approved say too little" in found.why


def test_a_metric_that_is_not_there_or_has_no_direction_is_refused() -> None:
    rows = shares(np.random.default_rng(9), 500, 0.9)
    with pytest.raises(InputError, match=r"the report has no 'acuracy'\. Did you mean 'accuracy'"):
        judged_quality(
            *(evaluation(rows, "accuracy"), evaluation(rows, "accuracy"), "acuracy"),
            level=0.01,
            max_drop=0.0,
            min_labels=1,
        )


NAMED = {"kind": "binary", "class_names": ["no", "yes"], "num_classes": 2}
COUNTED = {"kind": "multiclass", "class_names": [], "num_classes": 3}


@pytest.mark.parametrize(
    ("task", "given", "kept"),
    [
        (NAMED, ["no", "NO", "maybe", "yes"], ["no", None, None, "yes"]),
        (NAMED, [0, 1, 2], [0, 1, None]),
        (NAMED, [True, False], [True, False]),
        (COUNTED, ["0", "2", "3"], ["0", "2", None]),
        (COUNTED, [0.0, 1.5, float("nan")], [0.0, None, None]),
        ({"kind": "regression"}, [1.5, float("inf"), float("nan")], [1.5, None, None]),
        ({"kind": "regression"}, ["2", "maybe", "inf"], [2.0, None, None]),
        ({"kind": "multilabel", "num_classes": 2}, [[0, 1]], [[0, 1]]),
    ],
)
def test_labels_that_a_task_does_not_have_become_null(
    task: dict[str, object], given: list[object], kept: list[object]
) -> None:
    assert understood(pa.chunked_array([pa.array(given)]), task).to_pylist() == kept
