"""Rows that are counted twice or not at all are found out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.training.metric_states.coverage import Coverage, CoverageError, check
from drivetrain.training.metric_states.numbers.hashing import BLOCK


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


@given(st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=5), st.integers(0, 6))
def test_only_counting_each_row_once_passes(parts: list[list[int]], num_rows: int) -> None:
    if sorted(row for part in parts for row in part) == list(range(num_rows)):
        assert covered(num_rows, *parts) == num_rows
    else:
        with pytest.raises(CoverageError):
            covered(num_rows, *parts)


def test_more_batches_than_are_hashed_at_once() -> None:
    batches = 2 * BLOCK + 3
    coverage = Coverage(2 * batches, 0, 1)
    for first in range(0, 2 * batches, 2):
        coverage.count(np.array([first, first + 1]))
    assert check(coverage.cells()) == 2 * batches
    coverage.count(np.array([7]))
    with pytest.raises(CoverageError, match="1 were counted twice"):
        check(coverage.cells())


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
def test_wrong_counts_are_reported(parts: list[list[int]], message: str) -> None:
    with pytest.raises(CoverageError, match=message):
        covered(5, *parts)
