from __future__ import annotations

import pytest

from tests.benchmarks.training_loop import BY_HAND, _measured


def test_loops_are_compared_side_by_side() -> None:
    """Fifty steps of one with the fifty of the other taken at the same time; what is left over is not used."""
    quiet, busy = [1.0] * 5, [3.0] * 5
    by_hand = [*quiet, *busy, *quiet, 99.0]
    ours = [2 * seconds for seconds in by_hand]
    ratios, milliseconds = _measured([{BY_HAND: by_hand, "ours": ours}, {BY_HAND: quiet, "ours": quiet}], 2)
    assert ratios == {BY_HAND: 1.0, "ours": 2.0}
    assert milliseconds[BY_HAND] == pytest.approx(1000 * 5 / 50 / 2)
