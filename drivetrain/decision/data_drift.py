"""A batch against the training set of the approved version: sizes of differences with intervals.

A gate passes judgement on the interval's lower end, which is a size in the user's terms. p values over rows would alarm
at any difference once there are enough rows. Intervals of all columns hold together (Bonferroni), and rows of both
sides count. Rows are taken as independent: give rows of keys, if rows of a key resemble each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

MEAN_OF_NORMAL = math.sqrt(2 / math.pi)
"""The mean size of a standard normal number."""
SHARE_MOVED, MEAN_MOVED, NULLS_MOVED = MEASURES = ("share_moved", "mean_moved", "nulls_moved")


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """One of both sides; arrays are [columns], NaN where a column has no such value."""

    counts: Floats
    """[columns, bins]: values in each interval of the baseline, or of each category; 0 beyond a column's bins."""
    means: Floats
    stds: Floats
    nulls: Floats
    rows: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Effect:
    """A difference of each column, float64 [columns], NaN where it is not defined."""

    estimate: Floats
    low: Floats
    """The ends of the interval."""
    high: Floats

    @property
    def surely(self) -> Floats:
        """The least size that the interval allows, on either side."""
        np = numpy()
        return np.maximum(np.maximum(self.low, -self.high), 0)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The sizes from which a difference warns, and fails; `warn: 0.1, fail: 0.3`."""

    warn: float | None = None
    fail: float | None = None


def drift(batch: Side, baseline: Side, confidence: float = 0.95) -> dict[str, Effect]:
    """Measure each column's drift, by MEASURES:

    - `share_moved`: the share of values that would have to change for equal distributions (total variation), 0 to 1.
    - `mean_moved`: batch - baseline, in standard deviations of the baseline.
    - `nulls_moved`: batch - baseline, of the shares of empty cells.

    All intervals of a measure hold together with this confidence; each end by itself with half the error.

    Raises:
        InputError: the confidence is not between 0 and 1, or the sides have different columns or bins.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence={confidence:g} is not allowed. Give a number between 0 and 1, such as 0.95.")
    if batch.counts.shape != baseline.counts.shape:
        raise InputError(
            f"the batch has {batch.counts.shape} columns and bins, the baseline {baseline.counts.shape}. Count both in "
            "the baseline's bins."
        )
    level = (1 - confidence) / 2 / max(len(batch.counts), 1)
    with numpy().errstate(all="ignore"):
        return {
            SHARE_MOVED: _share_moved(batch.counts, baseline.counts, level),
            MEAN_MOVED: _mean_moved(batch, baseline, level),
            NULLS_MOVED: _nulls_moved(batch, baseline, level),
        }


def gated(effects: Mapping[str, Effect], gates: Mapping[str, Gate]) -> dict[str, tuple[Bools, Bools]]:
    """By measure the columns that warn and those that fail, bool [columns]: the interval's nearer end has the size.

    Raises:
        InputError: a gate names no measure.
    """
    np, found = numpy(), dict[str, tuple["Bools", "Bools"]]()
    for name, gate in gates.items():
        if name not in effects:
            raise InputError(f"drift: {name!r} is no measure. Allowed: {', '.join(effects)}.")
        sure = effects[name].surely
        fails = sure >= (math.inf if gate.fail is None else gate.fail)
        found[name] = np.logical_or(fails, sure >= (math.inf if gate.warn is None else gate.warn)), fails
    return found


def _share_moved(batch: Floats, baseline: Floats, level: float) -> Effect:
    """Half the sum of distances |p - q| over bins.

    Where p = q, chance alone makes |p - q| as large as 0.8 of its standard error, so that the plain sum grows with the
    bins. The estimate subtracts what chance adds to distances of the size that these bins have on average. The lower
    end subtracts what chance adds to bins with p = q, but for bins whose sign is sure: it adds nothing to these.
    """
    np = numpy()
    n, m = batch.sum(axis=1, keepdims=True), baseline.sum(axis=1, keepdims=True)
    used = (batch + baseline) > 0
    bins = used.sum(axis=1, keepdims=True)
    apart = np.where(used, batch / n - baseline / m, 0)
    size, z = np.abs(apart), _z(level)
    # Half a row in each bin: an empty one is not known to be empty.
    p, q = ((counts + 0.5 * used) / (rows + 0.5 * bins) for counts, rows in ((batch, n), (baseline, m)))
    sure = size > _z(level / 10 / max(p.shape[1], 1)) * np.sqrt(p * (1 - p) / n + q * (1 - q) / m)
    unsure = used & ~sure
    both = (batch + baseline + used) / (n + m + bins)
    # Few rows: closer to each other, as A. Agresti and B. Coull (Approximate is Better than Exact, 1998) add z^2 rows.
    p, q = (np.where(sure, (each + z * z * both) / (rows + z * z), both) for each, rows in ((batch, n), (baseline, m)))
    error = np.sqrt(p * (1 - p) / n + q * (1 - q) / m)

    def variance(signs: Floats) -> Floats:
        sides = ((p, n), (q, m))
        of_sums = (((x * signs * signs).sum(1) - (x * signs).sum(1) ** 2) / rows[:, 0] for x, rows in sides)
        return np.maximum(sum(of_sums), 0) / 4

    plain = size.sum(axis=1) / 2
    added = MEAN_OF_NORMAL * np.where(unsure, error, 0).sum(axis=1) / 2
    of_sizes = _variance_of_sizes(np.where(unsure, p, 0), np.where(unsure, q, 0), np.where(unsure, error, 0), n, m)
    low = plain - added - np.hypot(_far(added, of_sizes, z), z * np.sqrt(variance(np.where(sure, np.sign(apart), 0))))
    high = plain + z * np.sqrt(variance(np.where(used, np.where(apart < 0, -1.0, 1.0), 0)))
    squares = np.where(unsure, (apart / error) ** 2, 0).sum(axis=1) / np.maximum(unsure.sum(axis=1), 1)
    typical = np.sqrt(np.maximum(squares - 1, 0))[:, None]
    estimate = plain - (np.where(unsure, error, 0) * _added_by_chance(typical)).sum(axis=1) / 2
    none = (n[:, 0] == 0) | (m[:, 0] == 0)
    ends = (np.where(none, np.nan, np.clip(each, 0, 1)) for each in (estimate, low, high))
    return Effect(**dict(zip(("estimate", "low", "high"), ends, strict=True)))


def _variance_of_sizes(p: Floats, q: Floats, error: Floats, n: Floats, m: Floats) -> Floats:
    """The variance of half the sum of sizes of the bins' chance errors, which are normal with covariances
    -(p p' / n + q q' / m). Those of the sizes are taken as (1 - 2 / pi) r^2: right where r is 1 or -1, and elsewhere a
    little more than they are."""
    np = numpy()
    by_error = np.where(error > 0, 1 / error, 0)
    pairs = (
        (p * p * by_error).sum(axis=1) ** 2 / n[:, 0] ** 2
        + 2 * (p * q * by_error).sum(axis=1) ** 2 / n[:, 0] / m[:, 0]
        + (q * q * by_error).sum(axis=1) ** 2 / m[:, 0] ** 2
    )
    own = (error * error - ((p * p / n + q * q / m) * by_error) ** 2).sum(axis=1)
    return (1 - 2 / math.pi) * (pairs + own) / 4


def _far(mean: Floats, variance: Floats, z: float) -> Floats:
    """How far above its mean a sum of sizes of normal numbers lies with the probability of z: that of the chi
    distribution with the same mean and variance, which it is for one such number, by Wilson and Hilferty (1931)."""
    np = numpy()
    # Of chi with k degrees this ratio is about 2 k - 1/4: 1.75, 3.66, 5.63 for 1, 2, 3.
    degrees = np.maximum(1.0, np.where(variance > 0, mean * mean / variance, 0) / 2 + 1 / 8)
    cube = 1 - 2 / (9 * degrees) + z * np.sqrt(2 / (9 * degrees))
    return np.maximum(np.sqrt((variance + mean * mean) * cube**3) - mean, 0)


def _added_by_chance(distance: Floats) -> Floats:
    """The mean of |distance + a standard normal number|, less the distance."""
    np = numpy()
    tail = np.frompyfunc(math.erfc, 1, 1)(distance / math.sqrt(2)).astype(float)
    return MEAN_OF_NORMAL * np.exp(-distance * distance / 2) - distance * tail


def _mean_moved(batch: Side, baseline: Side, level: float) -> Effect:
    np = numpy()
    n, m = (np.maximum(side.counts.sum(axis=1), 1) for side in (batch, baseline))
    estimate = (batch.means - baseline.means) / np.where(baseline.stds > 0, baseline.stds, np.nan)
    ratio = batch.stds / baseline.stds
    reach = _z(level) * np.sqrt(ratio * ratio / n + 1 / m + estimate * estimate / (2 * m))
    return Effect(estimate=estimate, low=estimate - reach, high=estimate + reach)


def _nulls_moved(batch: Side, baseline: Side, level: float) -> Effect:
    """Newcombe's interval from two score intervals. (R. Newcombe: Interval Estimation for the Difference Between
    Independent Proportions, 1998, method 10.)"""
    np = numpy()
    z, ends = _z(level), list[tuple["Floats", "Floats", "Floats"]]()
    for side in (batch, baseline):
        rows = side.rows or math.nan
        p = side.nulls / rows
        middle, half = p + z * z / (2 * rows), z * np.sqrt(p * (1 - p) / rows + z * z / (4 * rows * rows))
        ends.append((p, (middle - half) / (1 + z * z / rows), (middle + half) / (1 + z * z / rows)))
    (p, p_low, p_high), (q, q_low, q_high) = ends
    moved = p - q
    return Effect(
        estimate=moved, low=moved - np.hypot(p - p_low, q_high - q), high=moved + np.hypot(p_high - p, q - q_low)
    )


def _z(level: float) -> float:
    return -NormalDist().inv_cdf(level)
