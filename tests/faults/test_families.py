"""A few trials of every fault family, as in CI; `make faults` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.harness.families import families

SEED = 20261120


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(families()))
def test_nothing_is_violated(name: str) -> None:
    family = families()[name]
    made, violations = family.run(family.quick, SEED)
    assert made > 0 and violations == []
