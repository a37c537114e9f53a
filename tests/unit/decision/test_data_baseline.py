"""Two profiles side by side, by the bins of the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from drivetrain.data.profile import Profile
from drivetrain.data.statistics import TableStatistics
from drivetrain.decision.data_baseline import aligned
from drivetrain.decision.data_drift import SHARE_MOVED, Effect, drift
from drivetrain.decision.served_check import drift_of_served


def profile(**columns: Any) -> Profile:
    table = pa.table({"id": np.arange(len(next(iter(columns.values())))), **columns})
    found = TableStatistics(table.schema, None)
    for batch in table.to_batches():
        found.add(batch)
    return Profile.of(found)


def moved(batch: Any, baseline: Any) -> Effect:
    sides = aligned(profile(x=batch), profile(x=baseline))
    found = drift(sides.batch, sides.baseline)[SHARE_MOVED]
    at = sides.columns.index("x")
    return Effect(estimate=found.estimate[at], low=found.low[at], high=found.high[at])


@pytest.mark.parametrize("shift", [0, 6])
def test_whole_numbers_move_by_their_share_though_they_tie_with_the_bounds_of_bins(shift: int) -> None:
    """60 numbers: more than are compared one by one."""
    random = np.random.default_rng(4)
    found = [moved(random.integers(0, 60, 20_000) + shift, random.integers(0, 60, 3_450)) for _ in range(20)]
    # (Where some bins have moved, the estimate keeps about half of what chance adds to the others.)
    assert -0.003 < np.mean([each.estimate for each in found]) - shift / 60 < 0.01
    assert sum(each.low <= shift / 60 <= each.high for each in found) >= 19
    assert all(each.high > 0 for each in found)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_numbers_have_moved(value: float) -> None:
    random = np.random.default_rng(4)
    before, now = random.normal(size=3000), random.normal(size=3000)
    now[:1500] = value
    assert moved(now, before).estimate == pytest.approx(0.5, abs=0.02)
    assert moved(np.full(3000, value), before).low > 0.9
    assert moved(before, now).low > 0.4


def test_served_rows_drift_where_many_cells_are_empty_without_a_rule() -> None:
    random = np.random.default_rng(4)
    before, now = random.normal(size=3000), random.normal(size=3000).astype(object)
    now[:600] = None
    drifted, _ = drift_of_served(1, profile(x=now.tolist()), profile(x=before), {}, (), None)
    assert drifted is not None and list(drifted.warned) == ["x"]
