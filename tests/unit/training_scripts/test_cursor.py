from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.training_scripts.cursor import Order, permute, share


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
