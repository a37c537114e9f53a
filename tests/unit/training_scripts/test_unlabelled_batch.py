"""Rows without a label become batches by any recipe that makes targets of its label's column; others are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import Batch, load_recipe, unlabelled_batch
from drivetrain.training_scripts.recipes import digits_cnn

COLUMNS: dict[str, Any] = {f"p{number}": np.full(3, number % 16, dtype=np.uint8) for number in range(64)}


def test_the_inputs_are_those_of_rows_with_a_label() -> None:
    recipe = load_recipe("digits_cnn", {})
    labelled = recipe.batch({**COLUMNS, "digit": np.array([1, 2, 3])}, "digit")
    batch = unlabelled_batch(recipe, COLUMNS)
    assert torch.equal(batch.inputs, labelled.inputs)
    assert batch.targets.tolist() == [0, 0, 0]
    assert "" not in COLUMNS


@dataclass(frozen=True, kw_only=True)
class WantsTheName(digits_cnn.Recipe):
    def batch(self, columns: Any, label: str) -> Batch:
        return super().batch(columns, {"digit": "digit"}[label])


@dataclass(frozen=True, kw_only=True)
class LosesRows(digits_cnn.Recipe):
    def batch(self, columns: Any, label: str) -> Batch:
        return Batch(torch.zeros(1, 1, 8, 8), torch.zeros(1))


def test_a_recipe_that_cannot_do_without_is_told_what_to_return() -> None:
    with pytest.raises(InputError, match=r"makes no batch of rows without a label \(KeyError: ''\)\. With an empty"):
        unlabelled_batch(WantsTheName(), COLUMNS)
    with pytest.raises(InputError, match=r"must return a Batch of 3 rows"):
        unlabelled_batch(LosesRows(), COLUMNS)


def test_columns_that_are_missing() -> None:
    with pytest.raises(InputError, match="the rows lack p0, p1, p2, p3, p4; "):
        unlabelled_batch(load_recipe("digits_cnn", {}), {"p63": np.zeros(2)})
