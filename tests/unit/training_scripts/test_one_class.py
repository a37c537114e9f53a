"""An evaluation tells of a model that takes all samples for one class."""

from __future__ import annotations

import pytest

from drivetrain.training.metric_states.result import Evaluation, Group
from drivetrain.training.task import Kind, Task
from drivetrain.training_scripts.evaluate import one_class


def evaluation(*cells: list[int], shown: bool = True, kind: Kind = "multiclass", more: int = 0) -> Evaluation:
    names = [f"c{number}" for number in range(len(cells))]
    matrix = {"kind": "matrix", "rows": names, "columns": names, "cells": [*cells]}
    whole = Group(num_samples=sum(map(sum, cells)), metrics={}, undefined={})
    return Evaluation(
        task=Task(kind, len(cells) + more),
        whole=whole,
        curves={"confusion_matrix": matrix} if shown else {},
        expected_rows=whole.num_samples,
        collectives=1,
    )


def test_a_model_that_takes_all_for_one_class_has_learnt_nothing() -> None:
    said = one_class(evaluation([0, 40, 0], [0, 30, 0], [0, 30, 0]))
    assert said.startswith("all 100 samples are taken for class c1, and 30 are of it. The model has learnt nothing")


@pytest.mark.parametrize(
    "cells",
    [
        ([1, 39], [0, 60]),  # once it said the other
        ([99, 0], [1, 0]),  # nearly all are of it
        ([0, 9], [0, 9]),  # few samples
        ([100],),
        ([0, 0], [0, 0]),
    ],
)
def test_it_says_nothing_of_others(cells: tuple[list[int], ...]) -> None:
    assert one_class(evaluation(*cells)) == ""


def test_it_says_nothing_where_the_matrix_does_not_tell() -> None:
    guesses = [0, 40], [0, 60]
    assert one_class(evaluation(*guesses))
    assert one_class(evaluation(*guesses, shown=False)) == ""
    assert one_class(evaluation(*guesses, kind="segmentation")) == ""
    assert one_class(evaluation(*guesses, more=1)) == ""  # the last column is several classes
