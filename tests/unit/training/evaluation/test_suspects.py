"""Suggestions of wrong labels: flipped ones are found, and clean data have few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from drivetrain.training.evaluation.suspects import MOST, suspects
from drivetrain.training.task import Task

DIGITS = Task(kind="multiclass", num_classes=10)


def found_in(folder: Path, task: Task, **columns: Any) -> dict[str, Any]:
    (folder / "predictions").mkdir()
    rows = np.arange(len(columns["target"]))
    table = pa.table({"row": rows, "key": [f"k{row}" for row in rows], **columns})
    for number, start in enumerate(range(0, len(rows), 500)):
        parquet.write_table(table.slice(start, 500), folder / f"predictions/part-{number:05d}.parquet")
    found = suspects(folder, task, "id")
    assert found is not None
    return found


def flipped(labels: NDArray[Any], share: float, random: np.random.Generator) -> tuple[NDArray[Any], set[int]]:
    """Labels of which a share is one of the other classes, and their places."""
    places = random.permutation(len(labels))[: round(share * len(labels))]
    wrong = labels.copy()
    wrong[places] = (labels[places] + random.integers(1, 10, len(places))) % 10
    return wrong, set(places.tolist())


@pytest.mark.parametrize("share", [0.05, 0.0])
def test_flipped_labels_of_an_easy_data_set_come_first(tmp_path: Path, share: float) -> None:
    """Both halves of the digits have wrong labels: that which the model learns from, and that which is looked at."""
    random = np.random.default_rng(1)
    pixels, labels = load_digits(return_X_y=True)
    order = random.permutation(len(labels))
    pixels, labels = pixels[order] / 16, labels[order]
    (learnt, _), (given, places) = (flipped(each, share, random) for each in (labels[:800], labels[800:]))
    model = LogisticRegression(max_iter=300, C=0.1).fit(pixels[:800], learnt)
    scores = {f"score_{number}": column for number, column in enumerate(model.predict_proba(pixels[800:]).T)}
    found = found_in(tmp_path, DIGITS, target=given, **scores)
    listed = found["suspects"]
    assert found["note"].startswith("Suggestions only") and len(listed) <= MOST
    if not share:
        assert found["found"] < 0.04 * len(given), found["found"]  # the model's own errors
        return
    right = [one["row"] in places for one in listed]
    assert np.mean(right[: len(places)]) >= 0.8, np.mean(right[: len(places)])
    truth = [one["suggested"] == str(labels[800 + one["row"]]) for one in listed[: len(places)] if one["row"] in places]
    assert np.mean(truth) > 0.9
    assert listed[0]["key"] == f"k{listed[0]['row']}" and listed[0]["given"] == str(given[listed[0]["row"]])
    margins = [one["margin"] for one in listed]
    assert margins == sorted(margins, reverse=True) and all(0 < one["score"] < 0.7 for one in listed)


def test_two_classes_by_name_and_what_has_no_probabilities(tmp_path: Path) -> None:
    task = Task(kind="binary", num_classes=2, class_names=("stays", "leaves"))
    target, score = np.array([1, 1, 0, 0, 0]), np.array([0.9, 0.8, 0.1, 0.2, 0.95])
    [one] = found_in(tmp_path, task, target=target, score=score)["suspects"]
    assert one == {
        **{"row": 4, "key": "k4", "given": "stays", "suggested": "leaves"},
        **{"score": pytest.approx(0.05), "margin": pytest.approx(0.9)},
    }
    assert suspects(tmp_path, Task(kind="binary", num_classes=2, ranked_by="raw scores"), None) is None
    assert suspects(tmp_path, Task(kind="multilabel", num_classes=3), None) is None


def test_numbers_far_from_their_predictions(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    predicted = random.uniform(0, 10, 1000)
    target = predicted + random.normal(0, 1, 1000)
    (tmp_path / "clean").mkdir()
    number = Task(kind="regression", num_classes=1)
    assert found_in(tmp_path / "clean", number, target=target, predicted=predicted)["found"] <= 1
    target[[3, 700]] += (9, -12)
    found = found_in(tmp_path, number, target=target, predicted=predicted)
    assert [one["row"] for one in found["suspects"]] == [700, 3] and found["found"] == 2
    first = found["suspects"][0]
    assert first["suggested"] == predicted[700] and first["margin"] == pytest.approx(target[700] - predicted[700])
    others = np.delete(target - predicted, 700)
    expected = (target[700] - predicted[700] - others.mean()) / (others.std(ddof=1) * np.sqrt(1000 / 999))
    assert first["score"] == pytest.approx(expected, rel=1e-4)
