"""Rows that are counted twice or not at all are found out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.training_scripts.counting.coverage import Coverage, CoverageError, check


def covered(num_rows: int, *parts: list[int]) -> int:
    """What ranks find that counted these rows each."""
    cells = []
    for rank, rows in enumerate(parts):
        coverage = Coverage(num_rows, rank, len(parts))
        coverage.count(np.array(rows[: len(rows) // 2], dtype=np.int64))
        coverage.count(np.array(rows[len(rows) // 2 :], dtype=np.int64))
        cells.append(coverage.cells())
    return check(np.sum(cells, axis=0))


@given(st.permutations(range(23)), st.integers(0, 23), st.integers(0, 23))
def test_each_row_once_on_any_rank(rows: list[int], first: int, second: int) -> None:
    assert covered(23, rows[:first], rows[first:]) == 23
    low, high = sorted((first, second))
    assert covered(23, rows[:low], rows[low:high], rows[high:]) == 23


def test_more_rows_than_are_hashed_at_once() -> None:
    assert covered(100_003, list(range(0, 100_003, 2)), list(range(1, 100_003, 2))) == 100_003


def test_no_rows() -> None:
    assert covered(0, [], []) == 0


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([[0, 1, 2], [3]], "4 rows were counted of 5: 1 are missing"),
        ([[0, 1, 2, 3], [3, 4]], "6 rows were counted of 5: 1 were counted twice"),
        ([[0, 1, 2, 2], [4]], "5 rows were counted of 5, but some of them twice, and as many are missing"),
        ([[0, 1], [1, 2, 6]], "5 rows were counted of 5, but some"),
        ([[], []], "0 rows were counted of 5: 5 are missing"),
    ],
)
def test_what_is_wrong(parts: list[list[int]], message: str) -> None:
    with pytest.raises(CoverageError, match=message):
        covered(5, *parts)
