"""Tonight's statistics of a data set against those of the accepted nights before it.

Each statistic of each column gets a prediction bound: Student's t with the number of its nights, on the scale of its
kind (data_scales.py). All bounds of a night together give as many false warnings a year as `Settings` says, for nights
that vary independently and normally on that scale. docs/data_checks.md has what other nights give, simulated.

From 28 nights on a weekday has its own expected value where weekdays differ significantly. Where nights rise or fall
significantly, the bound reaches further on that side, by how far their mean lags behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import numpy
from drivetrain.decision.data_scales import SHARE, Scale
from drivetrain.decision.nights import exceeds, student

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from drivetrain.decision.data_sizes import Limit

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

FEWEST, FOR_WEEKDAYS = 8, 28
"""Nights before a statistic is judged, and before its weekdays are."""
SMALLEST_SHARE = 0.01
"""A share that moved by less does not stop a night, unless a limit says so."""
# Where chance looks like weekdays or a trend in 5 % of the columns: stricter levels miss weekdays that differ by one
# standard deviation, and laxer ones cost power at 1,000 columns.
_WEEKDAYS_DIFFER, _HAS_TREND = NormalDist().inv_cdf(0.95), NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """
    Raises:
        InputError: a number is not above 0.
    """

    warnings_a_year: float = 4.0
    """Expected false warnings, over all columns and statistics."""
    nights_a_year: float = 365.0

    def __post_init__(self) -> None:
        for name, value in (("warnings_a_year", self.warnings_a_year), ("nights_a_year", self.nights_a_year)):
            if not 0 < value < math.inf:
                raise InputError(f"{name}={value:g} is not allowed. Give a number above 0.")

    def level(self, comparisons: int) -> float:
        """The probability of a false warning at each end of a bound, of so many bounds a night."""
        return min(0.5, self.warnings_a_year / self.nights_a_year / max(comparisons, 1)) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Nights:
    """Accepted nights, the oldest first, and the night that is judged as the last one."""

    values: Floats
    """[nights, statistics, columns]; NaN where a night has no such value."""
    kinds: tuple[str, ...]
    """[statistics]; of data_scales.KINDS."""
    rows: Floats
    """[nights]"""
    weekdays: Ints
    """[nights]; 0 to 6, in the pipeline's time zone."""

    def until(self, night: int) -> Nights:
        """The nights up to this one, counted from 0."""
        end = night + 1
        return replace(self, values=self.values[:end], rows=self.rows[:end], weekdays=self.weekdays[:end])


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """The prediction of the nights before, on their scale; [statistics, columns]."""

    center: Floats
    variance: Floats
    degrees: Floats
    """Degrees of freedom."""
    lever: Floats
    """The variance of `center`, as a multiple of `variance`."""
    lag: Floats
    """How far tonight lies from the mean if the nights' trend goes on; 0 where it is not significant."""
    lowest: Floats
    """The lowest and the highest distance of a night from the mean of the others."""
    highest: Floats
    weekday: Bools
    """`center` is that of tonight's weekday."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdicts:
    """Arrays are [statistics, columns], and NaN where nothing is judged."""

    value: Floats
    expected: Floats
    low: Floats
    """The ends of the bound."""
    high: Floats
    least: Floats
    """The smallest and the largest value of the nights before."""
    most: Floats
    nights: Ints
    """Nights before that have a value."""
    rows: float
    sd: Floats
    """The standard deviation of nights on their scale."""
    reach: Floats
    """The bound's distance from the expected value in sd, without a trend."""
    distance: Floats
    """From the expected value, in sd."""
    p: Floats
    """The probability that a night lies so far away, on either side."""
    warned: Bools
    failed: Bools
    """Warned, too."""
    limited: Bools
    """Warned or failed by a limit."""
    few: Bools
    """Not judged: fewer than FEWEST nights before."""
    new: Bools
    """[columns]: the first night with a value."""
    gone: Bools
    """[columns]: no value tonight, but one on each night since the first that had one. Counts as warned."""
    fit: Fit
    scale: Scale

    @property
    def columns_warned(self) -> Bools:
        return numpy().any(self.warned, axis=0) | self.gone

    @property
    def columns_failed(self) -> Bools:
        return numpy().any(self.failed, axis=0)

    def moved_by(self, shift: float) -> Floats:
        """The value that lies `shift` sd from the expected one, in the statistic's unit."""
        return self.scale.back(self.fit.center + shift * self.sd)


def judge(
    nights: Nights, settings: Settings | None = None, limits: Mapping[tuple[int, int], Limit] | None = None
) -> Verdicts:
    """Judge the last night by those before it.

    A value warns that lies beyond its bound, and beyond all accepted nights. It fails where it lies beyond all accepted
    nights by their whole range again, or by a limit. A statistic that never varied warns when it changes; it fails by a
    limit alone, as chance says nothing about it, unless it is a count or a share.

    Args:
        limits: by (statistic, column). They hold from the first accepted night on.
    """
    np = numpy()
    with np.errstate(all="ignore"):
        values = np.where(np.isfinite(nights.values), nights.values, np.nan)
        scale = Scale.of(values[:-1], nights.kinds, nights.rows)
        scaled = scale.apply(values)
        fit = _fitted(scaled[:-1], nights.weekdays)
        return _judged(values, scaled[-1], fit, scale, settings or Settings(), limits or {})


def replayed(nights: Nights, settings: Settings | None = None, last: int = 60) -> tuple[Bools, Bools]:
    """Judge each of the last nights by those before it. Nights with fewer than FEWEST before them are left out.

    Returns:
        Columns warned and columns failed, bool [nights, columns].
    """
    first = max(FEWEST, len(nights.values) - last)
    found = [judge(nights.until(night), settings) for night in range(first, len(nights.values))]
    empty = numpy().zeros((0, nights.values.shape[2]), bool)
    stacked = numpy().vstack
    return stacked([empty, *(v.columns_warned for v in found)]), stacked([empty, *(v.columns_failed for v in found)])


def power(verdicts: Verdicts, shift: float) -> Floats:
    """The probability that a value is warned of on the first night that it is shifted by so many sd: the noncentral t
    distribution. `moved_by(shift)` is the size in the statistic's unit; [statistics, columns]."""
    np, fit = numpy(), verdicts.fit
    found = np.full(fit.degrees.shape, np.nan)
    twice_above = np.frompyfunc(math.erfc, 1, 1)
    # The mean over what the estimated variance may be: its cube root is about normal (E. Wilson and M. Hilferty, The
    # Distribution of Chi-Square, 1931).
    z = np.linspace(-4, 4, 33)
    weights = np.exp(-z * z / 2)
    for each in np.unique(fit.degrees[~np.isnan(verdicts.sd)]):
        at = (fit.degrees == each) & ~np.isnan(verdicts.sd)
        ratio = np.maximum(1 - 2 / (9 * each) + z * math.sqrt(2 / (9 * each)), 0) ** 1.5
        short = (verdicts.reach[at][:, None] * ratio - shift) / np.sqrt(1 + fit.lever[at])[:, None]
        found[at] = twice_above(short / math.sqrt(2)).astype(float) @ weights / 2 / weights.sum()
    return found


def _judged(
    values: Floats,
    tonight: Floats,
    fit: Fit,
    scale: Scale,
    settings: Settings,
    limits: Mapping[tuple[int, int], Limit],
) -> Verdicts:
    """
    Args:
        values: [nights, statistics, columns], as they are.
        tonight: [statistics, columns], on the scale.
    """
    np = numpy()
    before, value = values[:-1], values[-1]
    present = ~np.isnan(before)
    count, there = present.sum(axis=0), ~np.isnan(value)
    judged = there & (count >= FEWEST)
    noise, more_noise = scale.noise(present)
    rounding = scale.rounding(fit.center)
    least = np.maximum(noise, rounding * rounding)
    sd = np.where(judged, np.sqrt(np.maximum(fit.variance, least) + more_noise), np.nan)
    moved = tonight - fit.center
    # What the trend explains of it.
    surprise = moved - np.clip(moved, np.minimum(fit.lag, 0), np.maximum(fit.lag, 0))
    spread = np.sqrt(1 + fit.lever)
    level, t, p = settings.level(int(judged.sum())), np.full(sd.shape, np.nan), np.full(sd.shape, np.nan)
    for degrees in np.unique(fit.degrees[judged]):
        at = judged & (fit.degrees == degrees)
        t[at] = student(level, int(degrees))
        p[at] = 2 * exceeds(np.abs(surprise / sd / spread)[at], int(degrees))
    reach = t * spread
    warned = (np.abs(surprise) > reach * sd) & ((moved < fit.lowest) | (moved > fit.highest))
    # So far chance alone would have come in as many nights.
    chance = NormalDist().inv_cdf(1 - 1 / (len(before) + 2)) * np.sqrt(noise)
    lowest, highest = np.minimum(fit.lowest, -chance), np.maximum(fit.highest, chance)
    range_ = highest - lowest
    expected = np.where(count > 0, scale.back(fit.center), np.nan)
    large = (np.array([kind != SHARE for kind in scale.kinds])[:, None]) | (np.abs(value - expected) >= SMALLEST_SHARE)
    failed = warned & large & (range_ > 3 * rounding) & ((moved < lowest - range_) | (moved > highest + range_))
    limited = np.zeros(sd.shape, bool)
    for place, limit in limits.items():
        if limit.warns(expected[place], value[place]):
            warned[place] = limited[place] = True
            failed[place] |= limit.fails(expected[place], value[place])
    had = count > 0
    return Verdicts(
        value=value,
        expected=expected,
        low=scale.back(fit.center + np.minimum(fit.lag, 0) - reach * sd),
        high=scale.back(fit.center + np.maximum(fit.lag, 0) + reach * sd),
        least=np.where(had, np.fmin.reduce(before, axis=0, initial=np.inf), np.nan),
        most=np.where(had, np.fmax.reduce(before, axis=0, initial=-np.inf), np.nan),
        nights=count,
        rows=float(scale.rows[-1]),
        sd=sd,
        reach=reach,
        distance=moved / sd,
        p=p,
        warned=warned,
        failed=failed,
        limited=limited,
        few=there & had & (count < FEWEST),
        new=there.any(axis=0) & ~had.any(axis=0),
        gone=~there.any(axis=0) & had.any(axis=0) & (np.diff(present.any(axis=1).astype(int), axis=0) >= 0).all(axis=0),
        fit=fit,
        scale=scale,
    )


def _fitted(scaled: Floats, weekdays: Ints) -> Fit:
    """
    Args:
        scaled: [nights before, statistics, columns], on their scale.
        weekdays: [nights before, and tonight].
    """
    np = numpy()
    shape = scaled.shape[1:]
    y = scaled.reshape(len(scaled), math.prod(shape))
    there = (~np.isnan(y)).astype(float)
    count = there.sum(axis=0)
    mean = np.nan_to_num(y).sum(axis=0) / count
    e = np.nan_to_num(y - mean)
    squares, degrees, lever, center = (e * e).sum(axis=0), count - 1, 1 / count, mean
    apart = e * (count / (count - 1))
    of_week = (weekdays[:-1, None] == np.arange(7)).astype(float)
    each, sums = of_week.T @ there, of_week.T @ e  # [weekdays, values]
    days, same = (each > 0).sum(axis=0), each[weekdays[-1]]
    between = (sums * sums / np.maximum(each, 1)).sum(axis=0)
    differ = _f_as_normal(between / (days - 1), (squares - between) / (count - days), days - 1, count - days)
    weekday = (count >= FOR_WEEKDAYS) & (same > 1) & (days > 1) & (differ > _WEEKDAYS_DIFFER)
    if weekday.any():
        means, others = sums / np.maximum(each, 1), np.maximum(each - 1, 1)
        center = mean + np.where(weekday, means[weekdays[-1]], 0)
        e = np.where(weekday, (e - means[weekdays[:-1]]) * there, e)
        apart = np.where(weekday, e * (each / others)[weekdays[:-1]], apart)
        squares = np.where(weekday, squares - between, squares)
        degrees, lever = np.where(weekday, count - days, degrees), np.where(weekday, 1 / same, lever)
    variance = squares / degrees
    night = np.arange(len(y), dtype=float)
    middle = night @ there / count
    length = (night * night) @ there - count * middle * middle
    slope = night @ e / length
    trend = np.abs(slope) * np.sqrt(length / variance) > _HAS_TREND
    found = {
        "center": center,
        "variance": variance,
        "degrees": degrees,
        "lever": lever,
        "lag": np.where(trend, slope * (len(y) - middle), 0.0),
        "lowest": apart.min(axis=0, initial=0),
        "highest": apart.max(axis=0, initial=0),
        "weekday": weekday,
    }
    return Fit(**{name: each.reshape(shape) for name, each in found.items()})


def _f_as_normal(above: Floats, below: Floats, first: Floats, second: Floats) -> Floats:
    """A ratio of mean squares as a standard normal number. (E. Paulson: An Approximate Normalization of the Analysis of
    Variance Distribution, 1942.)"""
    np = numpy()
    root, a, b = np.cbrt(above / np.maximum(below, 1e-9 * above)), 2 / (9 * first), 2 / (9 * second)
    return ((1 - b) * root - (1 - a)) / np.sqrt(b * root * root + a)
