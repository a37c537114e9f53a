"""A gradient that begins at nothing and grows is none that vanishes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drivetrain.training.health.rules.vanishing_gradients import Rule
from tests.contract.health_rules import records
from tests.contract.health_rules.records import changed


def steps_at_which_it_fires(share: Callable[[int], float]) -> list[int]:
    """`share`: the gradient of the first matrix beside what is healthy, by the number of its step."""
    rule, found = Rule(), []
    for number, record in enumerate(records.healthy(0, steps=12), start=1):
        planted = changed(record, "tensors", "grad_sq", 0, lambda before, n=number: before * share(n) ** 2)
        if rule.see(planted):
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("share", "found"),
    [
        (lambda n: 1e-8 * (n - 1) ** 3, []),  # of LoRA's A: 0 at first, then as B grows, here along a warm-up
        (lambda n: 1e-8, list(range(3, 13))),
        (lambda n: 1e-8 / n, list(range(3, 13))),
        (lambda n: 1e-8 * 4 ** min(n, 3), list(range(5, 13))),  # it grew, and stays where it is
    ],
    ids=["grows", "stays", "shrinks", "grew"],
)
def test_it_fires_where_a_gradient_stays_small(share: Callable[[int], float], found: list[int]) -> None:
    assert steps_at_which_it_fires(share) == found
