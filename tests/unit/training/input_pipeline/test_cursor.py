from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.cursor import Order, permute, share

FIRST_OF_A_THOUSAND = [126, 187, 942, 81, 192, 226, 222, 905]
FIRST_OF_A_BILLION = [600935495, 630027118, 70763872, 811711075]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(num_samples=st.integers(1, 3000), key=st.text(max_size=10))
def test_a_permutation_of_any_size(num_samples: int, key: str) -> None:
    order = permute(np.arange(num_samples, dtype=np.uint64), num_samples, key=key)
    assert sorted(order.tolist()) == list(range(num_samples))


def test_every_seed_and_epoch_has_its_own_order() -> None:
    def whole_epoch(seed: int, epoch: int) -> tuple[int, ...]:
        return tuple(Order(1000, 1000, seed).batch(epoch * 1000).tolist())

    orders = {whole_epoch(seed, epoch) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
    assert tuple(range(1000)) not in orders


@pytest.mark.slow
def test_the_order_is_spread_evenly() -> None:
    """Over many keys each sample comes first about equally often: chi-square over 16 samples, 4,000 keys."""
    first = [int(permute(np.zeros(1, dtype=np.uint64), 16, key=str(key))[0]) for key in range(4000)]
    counts = np.bincount(first, minlength=16)
    chi_square = float(((counts - 250.0) ** 2 / 250.0).sum())
    assert chi_square < 37.7  # 99.9 % quantile at 15 degrees of freedom; the keys are fixed, so this never flickers


@settings(max_examples=40, deadline=None)
@given(
    num_samples=st.integers(1, 200),
    global_batch=st.integers(1, 70),
    world_size=st.integers(1, 5),
    seed=st.integers(0, 2**31),
)
def test_an_epoch_has_each_sample_once_on_any_world_size(
    num_samples: int, global_batch: int, world_size: int, seed: int
) -> None:
    order = Order(num_samples, global_batch, seed)
    consumed, seen, steps = 3 * num_samples, [], 0
    while consumed < 4 * num_samples:
        batch = order.batch(consumed)
        parts = [share(batch, rank, world_size) for rank in range(world_size)]
        assert np.concatenate(parts).tolist() == batch.tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        seen += batch.tolist()
        consumed += len(batch)
        steps += 1
    assert consumed == 4 * num_samples  # no batch crosses the end of an epoch
    assert steps == order.steps_per_epoch
    assert sorted(seen) == list(range(num_samples))


@pytest.mark.parametrize("position", [0, 123_456_789, 999_999_936])
def test_a_batch_in_a_billion_needs_no_table(position: int) -> None:
    batch = Order(10**9, 64, seed=1).batch(5 * 10**9 + position)
    assert len(set(batch.tolist())) == 64
    assert ((batch >= 0) & (batch < 10**9)).all()


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**63))
def test_a_whole_epoch_of_a_million_is_a_permutation(seed: int) -> None:
    order = Order(10**6, 4096, seed)
    seen = np.zeros(10**6, dtype=bool)
    consumed = 0
    while consumed < 10**6:
        batch = order.batch(consumed)
        seen[batch] = True
        consumed += len(batch)
    assert consumed == 10**6 and seen.all()


@settings(max_examples=60, deadline=None)
@given(num_rows=st.integers(1, 30_000), epoch=st.integers(0, 5), seed=st.integers(0, 2**63), data=st.data())
def test_a_seek_gives_what_reading_on_gives(num_rows: int, epoch: int, seed: int, data: st.DataObject) -> None:
    """Also where the block that was computed ahead ends inside a batch."""
    global_batch = data.draw(st.integers(1, 500))
    steps = -(-num_rows // global_batch)
    step = data.draw(st.integers(0, steps - 1))
    reading = Order(num_rows, global_batch, seed)
    start = epoch * num_rows
    for consumed in range(start, start + (step + 1) * global_batch, global_batch):
        expected = reading.batch(consumed)
    found = Order(num_rows, global_batch, seed).batch(start + step * global_batch)
    assert found.tolist() == expected.tolist()
    positions = np.arange(step * global_batch, step * global_batch + len(found), dtype=np.uint64)
    assert found.tolist() == permute(positions, num_rows, key=f"{seed}/{epoch}").tolist()


@pytest.mark.parametrize(("num_rows", "global_batch"), [(10, 4), (3000, 25)])
def test_reading_on_through_epochs_gives_what_each_epoch_has(num_rows: int, global_batch: int) -> None:
    """By one object, as a training reads: of what it holds nothing is left in the next epoch, and what it holds may end
    one sample before a batch does (1,024 are computed at once, and 41 batches of 25 are 1,025)."""
    order = Order(num_rows, global_batch, seed=1)
    for epoch in range(3):
        read = [order.batch(epoch * num_rows + place) for place in range(0, num_rows, global_batch)]
        expected = permute(np.arange(num_rows, dtype=np.uint64), num_rows, key=f"1/{epoch}")
        assert np.concatenate(read).tolist() == expected.tolist()


def test_the_order_of_a_key_never_changes() -> None:
    """A run that goes on with a later version of this program goes on with the same samples."""
    assert Order(1000, 8, seed=3).batch(2000).tolist() == FIRST_OF_A_THOUSAND
    assert Order(10**9, 4, seed=3).batch(0).tolist() == FIRST_OF_A_BILLION


@settings(max_examples=60, deadline=None)
@given(num_rows=st.integers(1, 300), global_batch=st.integers(1, 60), seed=st.integers(0, 2**31))
def test_dropping_the_last_batch(num_rows: int, global_batch: int, seed: int) -> None:
    if num_rows < global_batch:
        with pytest.raises(InputError, match="drop_last leaves nothing of"):
            Order(num_rows, global_batch, seed, drop_last=True)
        return
    order, whole = Order(num_rows, global_batch, seed, drop_last=True), Order(num_rows, global_batch, seed)
    assert order.steps_per_epoch == num_rows // global_batch
    assert order.num_samples == order.steps_per_epoch * global_batch
    for epoch in range(2):
        for step in range(order.steps_per_epoch):
            place = step * global_batch
            batch = order.batch(epoch * order.num_samples + place)
            assert len(batch) == global_batch
            assert batch.tolist() == whole.batch(epoch * num_rows + place).tolist()


def test_a_billion_samples_take_no_memory() -> None:
    order = Order(10**9, 64, seed=1)
    order.batch(0)
    tracemalloc.start()
    for step in range(0, 2000, 7):
        order.batch(5 * 10**9 + step * 64)
    used, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 200_000 and peak < 2_000_000


def test_precomputed_orders_are_protected() -> None:
    order = Order(100, 10, seed=0)
    with pytest.raises(ValueError, match="read-only"):
        order.batch(0)[0] = 5


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0)])
def test_nothing_to_order(sizes: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=r"allowed are whole numbers from 1"):
        Order(*sizes, seed=0)


def test_a_seed_for_each_sample() -> None:
    """The same wherever a sample comes in an epoch, another in each epoch, for each sample and each seed."""
    order = Order(1000, 10, seed=1)
    rows = np.arange(1000)
    seeds = order.seeds(0, np.zeros(1000, dtype=np.uint64), rows)
    assert seeds.dtype == np.uint64 and len(set(seeds.tolist())) == 1000
    assert order.seeds(0, rows.astype(np.uint64), rows[::-1]).tolist() == seeds[::-1].tolist()
    others = [
        order.seeds(1, rows.astype(np.uint64), rows),
        Order(1000, 10, seed=2).seeds(0, rows.astype(np.uint64), rows),
    ]
    assert not any(set(seeds.tolist()) & set(other.tolist()) for other in others)
    bits = np.unpackbits(seeds.view(np.uint8)).reshape(1000, 64).mean(axis=0)
    assert (abs(bits - 0.5) < 0.08).all()  # 5 standard deviations
