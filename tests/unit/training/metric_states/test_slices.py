"""Which slice a sample is in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.metric_states.slices import MISSING, SliceColumn


@pytest.mark.parametrize(
    ("values", "column", "expected"),
    [
        ((3, -1, 2**40), np.array([2**40, 3, -1, 3]), [2, 0, 1, 0]),
        ((3, 7), np.array([7, 3], dtype=np.uint8), [1, 0]),
        ((False, True), np.array([True, False]), [1, 0]),
        (("b", "a", ""), np.array(["a", "", "b"], dtype=object), [1, 2, 0]),
        (("b", "a"), np.array(["a", "b"]), [1, 0]),
        ((2**63,), np.array([2**63], dtype=np.uint64), [0]),
        ((5,), np.zeros(0, dtype=np.int64), []),
        ((3, 7, MISSING), np.array([7, np.nan, 3]), [1, 2, 0]),
        (("a", MISSING), np.array(["a", None], dtype=object), [0, 1]),
    ],
)
def test_numbers(values: tuple[Any, ...], column: np.ndarray, expected: list[int]) -> None:
    assert SliceColumn("site", values).numbers(column, np.arange(len(column))).tolist() == expected


@pytest.mark.parametrize(
    ("values", "column", "said"),
    [
        ((3, 7), np.array([3, 9, 8]), "has 9, which is not among its values in the data's manifest (3, 7)"),
        ((3, 7), np.array([3, 1, 8]), "has 1,"),
        (("a",), np.array(["a", "b"], dtype=object), "has 'b', which is not among its values"),
        (("a",), np.array(["a", None], dtype=object), "has None,"),
        (tuple(range(20)), np.array([0, 30]), "(0, 1, 2, 3, 4, 5, 6, 7, ...)"),
        ((1,), np.array([1.0, 1.5]), "has 1.5,"),
    ],
)
def test_an_unknown_value_names_row_and_column(values: tuple[Any, ...], column: np.ndarray, said: str) -> None:
    with pytest.raises(InputError) as raised:
        SliceColumn("site", values).numbers(column, np.arange(40, 40 + len(column)))
    assert str(raised.value).startswith("row 41, counted from 0: column 'site' is to be sliced by, and ")
    assert said in str(raised.value)
