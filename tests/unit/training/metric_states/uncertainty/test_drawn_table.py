"""A table of replicates holds the columns in use, and reads as one that holds all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from drivetrain.training.metric import Counts, Ints, Samples
from drivetrain.training.metric_states.numbers.hashing import hash_column
from drivetrain.training.metric_states.state import DrawnTable
from drivetrain.training.metric_states.uncertainty import bootstrap

REPLICATES, GROUPS = 3, 2


@dataclass(frozen=True)
class Plain:
    size: int

    def count(self, samples: Samples) -> Counts:
        raise NotImplementedError


@dataclass(frozen=True)
class Carrying(Plain):
    def settle(self, cells: Ints) -> None:
        pass


def add(table: DrawnTable, whole: Ints, cells: Ints, seed: int) -> None:
    """To a table, and to one that holds all columns."""
    drawn = bootstrap.weights(hash_column(np.arange(len(cells))), REPLICATES, seed)
    table.add(Counts(cells), drawn, 2**62)
    bootstrap.add_weighted(whole, Counts(cells), drawn)


@pytest.mark.parametrize("tally", [Plain(50), Plain(4), Carrying(50)])
def test_a_group_reads_as_if_all_columns_were_held(tally: Plain) -> None:
    table, whole = DrawnTable(tally, GROUPS, REPLICATES), np.zeros((REPLICATES, GROUPS * tally.size), np.int64)
    random = np.random.default_rng(0)
    for seed, num_samples in enumerate([3, 0, 2, 5, 90, 4]):
        add(table, whole, random.integers(0, GROUPS * tally.size, (num_samples, 2)), seed)
        for group in range(GROUPS):
            expected = whole[:, group * tally.size : (group + 1) * tally.size]
            assert [cells.tolist() for cells in table.each(group)] == expected.tolist()


def test_columns_that_no_sample_is_counted_in_are_not_held() -> None:
    table, whole = DrawnTable(Plain(50), GROUPS, REPLICATES), np.zeros((REPLICATES, 100), np.int64)
    add(table, whole, np.array([[7, 93], [60, 7]]), seed=0)
    assert table.columns.tolist() == [7, 60, 93]
    table.move(np.array([5, 7, 60, 93]), np.zeros(4 * REPLICATES, np.int64))
    assert table.cells.tolist() == whole[:, [5, 7, 60, 93]].tolist()
    add(table, whole, np.arange(60)[:, np.newaxis], seed=1)  # most of them: room for all is made at once
    assert table.cells.tolist() == whole.tolist()


@pytest.mark.parametrize("cell", [-1, 100])
def test_a_column_that_there_is_not_is_refused(cell: int) -> None:
    table = DrawnTable(Plain(50), GROUPS, REPLICATES)
    with pytest.raises(ValueError, match=f"counts in cells {cell} to {cell} of 100"):
        add(table, np.zeros((REPLICATES, 101), np.int64), np.array([cell]), seed=0)
