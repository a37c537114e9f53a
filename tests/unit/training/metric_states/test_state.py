"""The vector of a rank: exact whatever is added, and never beyond 64 bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.metric import Counts, HasCarry, Ints, Samples
from drivetrain.training.metric_states.numbers import exact_sum
from drivetrain.training.metric_states.room import make_room
from drivetrain.training.metric_states.state import State
from drivetrain.training.metric_states.uncertainty import bootstrap
from drivetrain.training.task import Kind, Task
from tests.fixtures import evaluated_samples
from tests.fixtures.evaluated_samples import KINDS

VALUES = Task("values")
SAMPLES = Samples(losses=np.zeros(4))


@dataclass(frozen=True)
class Given:
    """Counts what it is given."""

    size: int
    counts: Counts = field(compare=False)

    def count(self, samples: Samples) -> Counts:
        return self.counts


@dataclass(frozen=True)
class Carrying(Given):
    def settle(self, cells: Ints) -> None:
        exact_sum.settle(cells)


@dataclass(frozen=True)
class Metric:
    tally: Given
    kinds = ("values",)
    higher_is_better = None

    def tallies(self, task: Task) -> dict[str, Given]:
        return {"it": self.tally}

    def compute(self, task: Task, counted: Any) -> dict[str, Any]:
        return {}


def state(tally: Given, **given: Any) -> State:
    return State(make_room(VALUES, {"it": Metric(tally)}, **given), header=3)  # type: ignore[dict-item]


def ints(*values: Any) -> Ints:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize("amounts", [None, ints([1, -(2**32)], [2**32, 5], [7, 0], [-1, -1])])
def test_counts_of_any_form_are_added(size: int, amounts: Ints | None) -> None:
    tally = Given(size, Counts(ints([0, 1], [1, 2], [0, 0], [2, 2]), amounts))
    counting = state(tally, num_values=[2])
    for _ in range(3):
        counting.update(SAMPLES, [ints(0, 1, 0, 1)])
    expected = np.zeros((2, size), dtype=np.int64)
    for row in range(4):
        for place, cell in enumerate(tally.counts.cells[row]):
            expected[row % 2, cell] += 3 * (1 if amounts is None else amounts[row, place])
    counting.finish()
    assert np.array_equal(counting.whole()[1], expected.sum(axis=0))
    assert [cells[1].tolist() for cells in counting.slices(0)] == expected.tolist()
    assert counting.whole()[0].tolist() == [12]
    assert not counting.header.any()


def test_sums_are_carried_before_they_overflow() -> None:
    """2**40 times the largest limbs that there are, in steps that a state knows nothing of."""
    values = np.full(4, 2.0**31 * (2 - 2**-52))
    tally = Carrying(exact_sum.SIZE, exact_sum.spread(values))
    counting = state(tally)
    for _ in range(40):
        counting.update(SAMPLES)
        cells = counting.whole()[1]
        cells *= 2  # as if there had been so many more samples
        counting._whole[1].largest *= 2
    total = exact_sum.total(counting.whole()[1])
    expected = 0
    for _ in range(40):
        expected = (expected + 4 * exact_sum.Fraction(values[0])) * 2
    assert total == expected
    counting.finish()
    cells = counting.whole()[1]
    assert cells.min() >= 0
    assert cells.max() < 2**32
    assert exact_sum.total(cells) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_carries_its_sums(kind: Kind) -> None:
    """The values stay, and the cells have room for those of 2**29 ranks."""
    given = evaluated_samples.Given(kind, 30)
    found, _ = evaluated_samples.samples(given)
    carried = 0
    for metric in given.metrics.values():
        counting = State(make_room(given.task, {"it": metric}))
        counting.update(found)
        for table in counting._whole:
            table.cells *= 2**29  # as if there had been so many more samples
        before = counting.room.whole.compute("it", counting.whole())
        for table in counting._whole:
            if isinstance(table.tally, HasCarry):
                table.settle()
                carried += 1
                assert np.abs(table.cells).max() <= 30 * 2**29
        assert counting.room.whole.compute("it", counting.whole()) == before
    assert carried


def test_uncarryable_sums_are_refused_before_overflow() -> None:
    tally = Given(2, Counts(ints(0, 0, 0, 0), ints(*[2**59 - 1] * 4)))
    counting = state(tally)
    counting.update(SAMPLES)
    counting.update(SAMPLES)
    assert counting.whole()[1].tolist() == [8 * (2**59 - 1), 0]
    with pytest.raises(InputError, match="adds up to more than 64 bits hold"):
        counting.update(SAMPLES)


def counted(amount: int, *, num_ranks: int, replicates: int = 0) -> State:
    """Of one sample that adds so much."""
    room = make_room(VALUES, {"it": Metric(Given(1, Counts(ints(0), ints(amount))))}, replicates=replicates)  # type: ignore[dict-item]
    counting = State(room, num_ranks=num_ranks)
    counting.update(Samples(losses=np.zeros(1)), (), np.zeros(1, np.uint64) if replicates else None)
    counting.finish()
    return counting


def test_the_sum_over_all_ranks_has_room_too() -> None:
    assert counted(2**60, num_ranks=4).whole()[1].tolist() == [2**60]
    with pytest.raises(InputError, match="adds up to more than 64 bits hold"):
        counted(2**60 + 1, num_ranks=4)
    assert counted(2**60 + 1, num_ranks=3).whole()[1].tolist() == [2**60 + 1]


def test_a_replicate_may_count_a_sample_as_often_as_can_be() -> None:
    """However often it does: another rank, or another seed, is refused alike."""
    most = 2**60 // bootstrap.LARGEST_WEIGHT
    few = 2**53 // bootstrap.LARGEST_WEIGHT  # what a product with a weight has as float64
    counted(few, num_ranks=2**62 // (few * bootstrap.LARGEST_WEIGHT), replicates=2)
    with pytest.raises(InputError, match="adds up to more than 64 bits hold"):
        counted(few, num_ranks=2**62 // (few * bootstrap.LARGEST_WEIGHT) + 1, replicates=2)
    with pytest.raises(InputError, match="adds up to more than 64 bits hold"):
        counted(most + 1, num_ranks=4, replicates=2)


def test_a_bound_is_looked_at_again_before_it_refuses() -> None:
    tally = Given(2, Counts(ints(0, 0, 1, 1), ints(2**59, -(2**59), 1, 1)))
    counting = state(tally)
    for _ in range(20):
        counting.update(SAMPLES)
    assert counting.whole()[1].tolist() == [0, 40]


@pytest.mark.parametrize(
    ("cells", "amounts"),
    [
        (ints(0, 1, 2, 3), None),
        (ints(0, 1, 2, 3), ints(1, 1, 1, 1)),
        (ints(0, 1, -1, 0), None),
        (np.zeros(4), None),
        (np.zeros((4, 1, 1), np.int64), None),
        (ints(0, 0, 0, 0), ints(1)),
    ],
)
@pytest.mark.parametrize("replicates", [0, 2])
def test_a_tally_with_unknown_cells_is_refused(cells: Any, amounts: Any, replicates: int) -> None:
    counting = state(Given(3, Counts(cells, amounts)), num_values=[2], replicates=replicates)
    with pytest.raises((ValueError, IndexError)):
        counting.update(SAMPLES, [ints(0, 0, 0, 0)], np.arange(4, dtype=np.uint64))


def assert_adds_up(counting: State, parts: list[State]) -> None:
    """What ranks counted in parts adds up, vector by vector, to what one counted of all."""
    vector = sum(part.finish() for part in parts)
    counting.finish()
    summed = len(vector) - len(counting._in_use)
    assert np.array_equal(counting.vector[:summed], vector[:summed])
    assert np.array_equal(counting._in_use > 0, vector[summed:] > 0)
    for part in parts:
        part.vector[:] = vector
    assert np.array_equal(counting.replicates_in_use(), sum(part.replicates_in_use() for part in parts))


def test_samples_of_other_widths_are_drawn_alike() -> None:
    """Sequences of two lengths, and then some of one class alone: what waits to be drawn is counted first."""

    class Width(Given):
        width = 2

        def count(self, samples: Samples) -> Counts:
            cells = np.arange(4 * self.width).reshape(4, self.width) % self.size
            return Counts(cells, np.ones_like(cells) if self.width == 3 else None)

    tally = Width(5, Counts(ints()))
    counting = state(tally, replicates=3)
    alone = []
    for width in (2, 3, 1, 2):
        Width.width = width
        one = state(tally, replicates=3)
        keys = np.arange(4, dtype=np.uint64) + np.uint64(10 * len(alone))
        for each in (counting, one):
            each.update(SAMPLES, keys=keys)
        alone.append(one)
    assert_adds_up(counting, alone)
