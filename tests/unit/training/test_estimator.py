from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.estimator import (
    Feature,
    Features,
    Options,
    answers_of,
    find_features,
    levels_of,
)
from drivetrain.training.options import build_options
from drivetrain.training.task import Task

COLUMNS: dict[str, Any] = {
    "age": np.array([1.5, np.nan, 3.0]),
    "visits": np.array([1, 2, 3]),
    "plan": np.array(["pro", None, "free"], dtype=object),
    "level": np.array([7.0, np.nan, 3.0]),
}
OPTIONS = Options(categories=("plan", "level"))


def test_features_are_numbers_and_categories_by_their_values() -> None:
    features = find_features(COLUMNS, OPTIONS)
    assert features.all == (
        Feature("age"), Feature("visits"), Feature("plan", ("free", "pro")), Feature("level", (3.0, 7.0)),
    )  # fmt: skip
    assert find_features(COLUMNS, Options(categories=("plan",), ignore=("age", "plan"))).names == ["visits", "level"]


def test_a_matrix_has_nan_for_what_is_missing_or_was_never_seen() -> None:
    features = find_features(COLUMNS, OPTIONS)
    made = features.matrix(COLUMNS)
    assert made.dtype == np.float32
    nan = float("nan")
    np.testing.assert_array_equal(made, [[1.5, 1, 1, 1], [nan, 2, nan, nan], [3, 3, 0, 0]])
    other = {**COLUMNS, "plan": np.array(["gold", "pro", "pro"], dtype=object), "level": np.array([3, 4, 7])}
    np.testing.assert_array_equal(features.matrix(other)[:, 2:], [[nan, 0], [1, nan], [1, 1]])


def test_numbers_among_empty_cells_are_read() -> None:
    given = {**COLUMNS, "age": np.array([None, 2, 2.5], dtype=object)}
    made = find_features(COLUMNS, OPTIONS).matrix(given)
    np.testing.assert_array_equal(made[:, 0], [float("nan"), 2, 2.5])


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            {},
            Options(categories=("plan", "size")),
            "categories: the data have no column 'size' to learn from; there are",
        ),
        ({}, Options(ignore=("size",)), "ignore: the data have no column 'size'"),
        (
            {},
            Options(categories=("level",)),
            "column 'plan' holds 'pro', where numbers are read. Name the column in the",
        ),
        ({"age": np.ones((3, 2))}, OPTIONS, "column 'age' holds lists; allowed is a number a row."),
        ({"age": np.array(["2026-01-01"] * 3, dtype="datetime64[D]")}, OPTIONS, "column 'age' holds .*where numbers"),
        ({}, Options(ignore=tuple(COLUMNS)), "the data have no column to learn from besides the label"),
    ],
    ids=["category", "ignore", "text", "lists", "time", "none"],
)
def test_columns_that_cannot_be_learnt_from_are_refused(columns: Any, options: Options, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        find_features({**COLUMNS, **columns}, options)
    assert "\n" not in str(refused.value)


def test_a_model_folder_gives_its_features_back(tmp_path: Path) -> None:
    features = find_features(COLUMNS, OPTIONS)
    task = {"kind": "binary", "num_classes": 2, "class_names": ["no", "yes"], "threshold": 0.4}
    about = {"table": {"features": features.as_json(), "options": {"a": 1}}, "task": task}
    (tmp_path / "model.json").write_text(json.dumps(about))
    found, known, options = Features.read(tmp_path)
    assert found == features and known == Task("binary", 2, ("no", "yes"), 0.4) and options == {"a": 1}
    np.testing.assert_array_equal(found.matrix(COLUMNS), features.matrix(COLUMNS))


def test_levels_are_sorted_without_missing_ones() -> None:
    assert levels_of(np.array(["b", None, "a", "b"], dtype=object)) == ("a", "b")
    assert levels_of(np.array([2.0, np.nan, 1.0])) == (1.0, 2.0)
    assert levels_of(np.array([True, False])) == (False, True)


@pytest.mark.parametrize("given", [[0.5], [0.5, 0.1, 0.9], [0, 0.5, 0.9], [0.1, 0.5, "x"], [0.1, 0.1, 0.5]], ids=str)
def test_quantiles_are_three_rising_numbers(given: list[Any]) -> None:
    with pytest.raises(InputError, match="quantiles are three rising numbers between 0 and 1"):
        build_options(Options, {"quantiles": given}, "estimator 'x'")
    assert build_options(Options, {"quantiles": [0.1, 0.5, 0.9]}, "estimator 'x'").quantiles == (0.1, 0.5, 0.9)


def test_answers_of_each_task() -> None:
    binary = answers_of(Task("binary", 2), np.array([0.0, 800.0, -800.0], dtype=np.float32))
    assert binary["score"].tolist() == [0.5, 1.0, 0.0] and binary["margin"].tolist() == [0, 800, -800]
    several = answers_of(Task("multiclass", 3), np.array([[1.0, 1.0, 1.0], [800.0, 0.0, 0.0]]))
    assert list(several) == ["score_0", "score_1", "score_2"]
    assert several["score_0"].tolist() == [1 / 3, 1.0]
    assert answers_of(Task("regression", 1), np.array([1.5]))["predicted"].tolist() == [1.5]


def test_quantiles_that_cross_are_put_in_order() -> None:
    found = answers_of(Task("regression", 1), np.array([[3.0, 2.0, 1.0], [0.0, 1.0, 2.0]]))
    assert (
        found["low"].tolist() == [1, 0] and found["predicted"].tolist() == [2, 1] and found["high"].tolist() == [3, 2]
    )


def test_a_number_where_categories_are_texts_is_refused() -> None:
    features = find_features(COLUMNS, OPTIONS)
    for name, other in (("plan", [7, 1, 2]), ("level", ["3", "7", "3"])):
        given = {**COLUMNS, name: np.array(other, dtype=object)}
        with pytest.raises(InputError, match=f"column '{name}' holds .*, and its categories are values such as"):
            features.matrix(given)
    with pytest.raises(InputError, match="column 'plan' holds 7"):
        features.matrix({**COLUMNS, "plan": np.array([7, 7, 7])})


def test_an_unknown_estimator_is_answered_by_those_that_there_are() -> None:
    with pytest.raises(
        InputError, match=r"no estimator 'xgbost'\. Did you mean 'xgboost'\?.* my_estimators\.boosted\."
    ):
        plugins.load("estimators", "xgbost", kind="estimator", own_modules=True)
