"""Answers in every format hold the same numbers."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.serving.predictions import Predictions
from drivetrain.training.serving.response import body_of, named_columns
from drivetrain.training.task import Task

THREE = Predictions(Task("multiclass", 3), np.array([2, 0]), np.array([[0.1, 0.2, 0.7], [1 / 3, 1e-300, 2 / 3]]))
BINARY = Predictions(Task("binary", 2), np.array([1, 0]), np.array([0.75, 1 / 3]))
VALUES = Predictions(Task("regression", 1), np.array([[0.1], [2.0]]))
SEGMENTS = Predictions(Task("segmentation", 2), np.array([[1, 0], [0, 1]]))


def test_json_and_json_lines() -> None:
    body, kind = body_of(THREE, "application/json")
    rows = json.loads(body)["predictions"]
    assert kind == "application/json"
    assert rows == [{"predicted": 2, "scores": [0.1, 0.2, 0.7]}, {"predicted": 0, "scores": [1 / 3, 1e-300, 2 / 3]}]
    lines, kind = body_of(THREE, "application/jsonlines")
    assert isinstance(lines, str) and kind == "application/jsonlines"
    assert [json.loads(line) for line in lines.splitlines()] == rows
    assert json.loads(body_of(BINARY, "*/*")[0])["predictions"][1] == {"predicted": 0, "score": 1 / 3}
    assert json.loads(body_of(VALUES, "")[0])["predictions"] == [{"predicted": 0.1}, {"predicted": 2.0}]


def test_csv_has_a_line_a_row_and_no_header() -> None:
    body, kind = body_of(THREE, "text/csv")
    assert isinstance(body, str) and kind == "text/csv"
    read = [[float(cell) for cell in row] for row in csv.reader(io.StringIO(body))]
    assert read == [[2, 0.1, 0.2, 0.7], [0, 1 / 3, 1e-300, 2 / 3]]
    assert body_of(SEGMENTS, "text/csv")[0] == '"[1, 0]"\n"[0, 1]"\n'


def test_an_array() -> None:
    for predictions, expected in ((THREE, THREE.scores), (BINARY, BINARY.scores), (VALUES, VALUES.predicted)):
        body, kind = body_of(predictions, "application/x-npy")
        assert isinstance(body, bytes) and kind == "application/x-npy"
        found = np.load(io.BytesIO(body), allow_pickle=False)
        assert found.dtype == np.float64 and np.array_equal(found, expected)


def test_names_of_columns() -> None:
    assert list(named_columns(THREE)) == ["predicted", "score_0", "score_1", "score_2"]
    named = Predictions(Task("multiclass", 3, ("ant", "bee", "fly")), THREE.predicted, THREE.scores)
    assert list(named_columns(named)) == ["predicted", "score_ant", "score_bee", "score_fly"]
    assert named_columns(named)["predicted"].tolist() == ["fly", "ant"]
    assert [each["predicted"] for each in json.loads(body_of(named, "application/json")[0])["predictions"]] == [
        "fly",
        "ant",
    ]
    assert str(body_of(named, "text/csv")[0]).startswith("fly,0.1,0.2,0.7\nant,")
    assert list(named_columns(BINARY)) == ["predicted", "score"]


def test_the_first_type_that_there_is() -> None:
    assert body_of(THREE, "text/html, text/csv;q=0.8, application/json")[1] == "text/csv"
    with pytest.raises(InputError, match=r"answers of type 'text/html' are not written\. Allowed: application/json, "):
        body_of(THREE, "text/html")


def test_an_answer_that_is_no_number() -> None:
    scores = np.array([[0.5, 0.5], [np.nan, 0.5]])
    with pytest.raises(InputError, match="the model's answer to row 2 is not finite"):
        body_of(Predictions(Task("multiclass", 2), np.array([0, 1]), scores), "application/json")
