"""Orders other than the uniform one: weighted, balanced, streamed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.cursor import Order, StreamOrder, WeightedOrder, balanced_weights, share


def epoch_of(order: Order, epoch: int) -> np.ndarray:
    batches, consumed = [], epoch * order.num_samples
    while consumed < (epoch + 1) * order.num_samples:
        batches.append(order.batch(consumed))
        consumed += len(batches[-1])
    assert consumed == (epoch + 1) * order.num_samples and len(batches) == order.steps_per_epoch
    return np.concatenate(batches)


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_samples_come_as_often_as_their_weights_say() -> None:
    weights = np.tile([1.0, 2.0, 0.0, 4.0, 0.5], 2000)
    drawn = np.concatenate([epoch_of(WeightedOrder(weights, 64, seed=5), epoch) for epoch in range(5)])
    assert (weights[drawn] > 0).all()
    counts = np.bincount(drawn % 5, minlength=5)[[0, 1, 3, 4]]
    assert chi_square(counts, 50_000 * np.array([1, 2, 4, 0.5]) / 7.5) < 16.3  # 99.9 % quantile, 3 degrees of freedom
    # Inside a weight no sample is favoured: 2,000 samples of weight 4, each expected 13.3 times.
    heavy = np.bincount(drawn[drawn % 5 == 3] // 5, minlength=2000)
    assert chi_square(heavy, np.full(2000, heavy.mean())) < 2202  # 99.9 % quantile, 1,999 degrees of freedom


def test_each_class_comes_equally_often() -> None:
    labels = np.repeat([7, 3, 9], [9000, 900, 100])
    order = WeightedOrder(balanced_weights(labels), 50, seed=1)
    counts = np.unique(labels[epoch_of(order, 0)], return_counts=True)[1]
    assert chi_square(counts, np.full(3, 10_000 / 3)) < 13.8  # 99.9 % quantile, 2 degrees of freedom


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -0.5, 2.0], r"weight -0\.5 of row 2 \(1 such\)"),
        ([1.0, float("nan")], "weight nan of row 2"),
        ([float("inf"), 1.0], "weight inf of row 1"),
        ([0.0, 0.0], r"the weights of all 2 samples add up to 0\.0"),
        ([1e308, 1e308], "add up to inf"),
    ],
)
def test_weights_that_are_none(weights: list[float], message: str) -> None:
    with np.errstate(over="ignore"), pytest.raises(InputError, match=message):
        WeightedOrder(weights, 1, seed=0)


def test_weights_of_every_size() -> None:
    """The last sample with a weight can be drawn, the one after it cannot, whatever is lost in rounding."""
    weights = np.array([1e-300, 1e300, 0.0])
    assert set(epoch_of(WeightedOrder(np.tile(weights, 1000), 100, seed=0), 0) % 3) == {1}


@settings(max_examples=40, deadline=None)
@given(
    shards=st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(lambda sizes: sum(sizes) > 0),
    window=st.integers(1, 60),
    global_batch=st.integers(1, 50),
    seed=st.integers(0, 2**31),
    epoch=st.integers(0, 3),
)
def test_a_stream_has_each_sample_once_and_near_its_place(
    shards: list[int], window: int, global_batch: int, seed: int, epoch: int
) -> None:
    order = StreamOrder(shards, window, global_batch, seed)
    rows = epoch_of(order, epoch)
    assert sorted(rows.tolist()) == list(range(sum(shards)))
    # Inside a window lie whole files and parts of two at most: its rows are as many neighbours.
    shard_of = np.repeat(np.arange(len(shards)), shards)
    met: list[int] = []
    for first in range(0, len(rows), window):
        inside = sorted(rows[first : first + window].tolist())
        runs = np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1)
        partial = [run for run in runs if any(len(run) < shards[s] for s in set(shard_of[run]))]
        assert len(runs) <= len(set(shard_of[inside])) and len(partial) <= 2
        met += [s for s in dict.fromkeys(shard_of[inside]) if s not in met]
    assert sorted(met) == [s for s, size in enumerate(shards) if size]


def test_a_stream_changes_files_and_windows_each_epoch() -> None:
    orders = {
        tuple(epoch_of(StreamOrder([10] * 8, 20, 16, seed=seed), epoch)) for seed in range(3) for epoch in range(3)
    }
    assert len(orders) == 9
    firsts = {int(epoch_of(StreamOrder([10] * 8, 20, 16, seed=1), epoch)[0]) // 10 for epoch in range(30)}
    assert firsts == set(range(8))


def test_one_stream_read_on_gives_what_each_epoch_has() -> None:
    """By one object, as a training reads: neither files nor samples of the epoch before are left."""
    read = StreamOrder([10] * 8, 20, 16, seed=1)
    for epoch in range(3):
        assert epoch_of(read, epoch).tolist() == epoch_of(StreamOrder([10] * 8, 20, 16, seed=1), epoch).tolist()


def test_each_window_has_an_order_of_its_own() -> None:
    rows = epoch_of(StreamOrder([80], 20, 16, seed=1), 0).reshape(4, 20)
    assert len({tuple(row) for row in (rows - rows.min(axis=1, keepdims=True)).tolist()}) == 4


def test_a_window_of_one_is_the_order_of_the_files() -> None:
    rows = epoch_of(StreamOrder([5, 5, 5], 1, 4, seed=0), 0)
    assert (np.diff(rows.reshape(3, 5)) == 1).all()


@pytest.mark.parametrize("window", [0, -3])
def test_no_window(window: int) -> None:
    with pytest.raises(InputError, match=f"shuffle_window={window}; allowed are whole numbers from 1"):
        StreamOrder([5], window, 2, seed=0)


ORDERS = {
    "weighted": lambda: WeightedOrder(np.arange(1, 501), 48, seed=2),
    "weighted, last dropped": lambda: WeightedOrder(np.arange(1, 501), 48, seed=2, drop_last=True),
    "stream": lambda: StreamOrder([100, 0, 250, 150], 70, 48, seed=2),
    "stream, last dropped": lambda: StreamOrder([100, 0, 250, 150], 70, 48, seed=2, drop_last=True),
}


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_the_same_batches_from_anywhere_on_any_number_of_processes(kind: str, world_size: int) -> None:
    order = ORDERS[kind]()
    expected = [order.batch(order.num_samples + start).tolist() for start in range(0, order.num_samples, 48)]
    for step in reversed(range(len(expected))):
        ranks = [ORDERS[kind]().batch(order.num_samples + 48 * step) for _ in range(world_size)]
        parts = [share(batch, rank, world_size) for rank, batch in enumerate(ranks)]
        assert np.concatenate(parts).tolist() == expected[step]


def test_a_sample_that_comes_twice_has_two_seeds() -> None:
    order = WeightedOrder([1.0, 1.0], 2, seed=0)
    seeds = order.seeds(0, np.arange(4, dtype=np.uint64), np.zeros(4, dtype=np.int64))
    assert len(set(seeds.tolist())) == 4
