"""The interval of a difference between two models that were measured on the same rows.

Shares of the same rows (accuracy, the recall of a class): Wald's interval of (won + 1, lost + 1) in of + 2 rows
(D. Bonett, R. Price: Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data,
2012), where `won` counts the rows on which the candidate alone is right. It needs no row that differs. Tango's score
(noninferiority.py) may reach further, at levels that few rows hardly allow: the outer of both ends is the interval's.

What else follows from rows (precision, F1, AUROC, losses, errors) is to first order a mean over rows, whose differences
the rows say: Student's t, and where the differences are skewed its transformation (P. Hall: On the Removal of Skewness
by Transformation, 1992), whichever reaches further. As Bonett and Price do, two rows are added that did not occur: one
on which the candidate wins as much as one row can, one on which it loses that.

Rows that share a key count as one. A mean knows nothing of errors that did not occur (`UNLESS`), whatever its interval;
order statistics do (docs/evaluation.md).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from drivetrain.data.arrow import numpy
from drivetrain.decision.noninferiority import chance, most_lost

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

UNLESS = "if no rarer, larger errors exist than these rows show"
FEWEST_REPLICATES = 50
BONETT_PRICE, HALL, REPLICATES = "Bonett-Price and Tango", "t and Hall", "t and Hall on replicates"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A difference. Its distance from the true difference, in units of `error`, nearly follows Student's distribution,
    which is the normal one if `degrees` is infinite. `skewness` is that of the estimate."""

    center: float
    error: float
    degrees: float = math.inf
    skewness: float = 0.0
    method: str
    of_errors: bool = False
    """It is one of a mean: it holds `UNLESS`."""

    @property
    def reversed(self) -> Estimate:
        """The estimate of the opposite difference."""
        return replace(self, center=-self.center, skewness=-self.skewness)

    def low(self, level: float) -> float:
        """Above which the true difference lies, but with a probability of `level`."""
        return self.center - self._reach(level, 1.0)

    def high(self, level: float) -> float:
        """As `low`, below."""
        return self.center + self._reach(level, -1.0)

    def chance(self, least: float) -> float:
        """How often an estimate lies so far above where the true difference is `least`, or less: the level at which
        `low` is `least`."""
        if not self.error:
            return 0.0 if self.center > least else 1.0
        t = (self.center - least) / self.error
        return max(_beyond(t, self.degrees), _beyond(_bent(t, self.skewness), self.degrees))

    def _reach(self, level: float, side: float) -> float:
        t = reach(level, self.degrees)
        return self.error * max(t, _straightened(t, side * self.skewness)) if self.error else 0.0


@dataclass(frozen=True, kw_only=True)
class PairedShare(Estimate):
    """The difference of two shares of the same `of` rows; `of_share` makes it."""

    won: int
    lost: int
    of: int

    @property
    def reversed(self) -> Estimate:
        return of_share(self.lost, self.won, self.of)

    def low(self, level: float) -> float:
        return min(super().low(level), -most_lost(self.won, self.lost, self.of, level))

    def high(self, level: float) -> float:
        return max(super().high(level), most_lost(self.lost, self.won, self.of, level))

    def chance(self, least: float) -> float:
        return max(super().chance(least), chance(self.won, self.lost, self.of, -least))


def of_share(won: int, lost: int, of: int) -> PairedShare:
    """The paired difference of shares of the same `of` rows, on which one model alone was right `won` times, the other
    `lost` times."""
    net, rows = won - lost, of + 2
    variance = (won + lost + 2) / rows - (net / rows) ** 2
    error = math.sqrt(variance / rows)
    return PairedShare(center=net / rows, error=error, method=BONETT_PRICE, won=won, lost=lost, of=of)


def of_mean(value: float, differences: Floats, most: float = 0.0, degrees: float | None = None) -> Estimate | None:
    """Estimate a difference `value` that is a mean over rows, or to first order; None if nothing could differ.

    Args:
        differences: candidate - champion of each row, or of each key.
        most: what one of these can change, where it is known and no smaller than what occurs.
        degrees: of freedom; None for one less than there are differences.
    """
    np = numpy()
    count = len(differences)
    centered = differences - differences.mean() if count else differences
    largest = float(np.abs(differences).max(initial=0.0))
    most = max(most, largest)
    if count < 2 or not most:
        return None
    # Divided by the largest: squares and cubes of very large ones are no 64-bit numbers.
    scaled = centered / most
    squares = float(scaled @ scaled)
    deviation = math.sqrt(squares / count)
    skewness = float(np.mean(scaled**3)) / deviation**3 / math.sqrt(count) if deviation > 1e-12 else 0.0
    error = most * math.sqrt(squares + 2) / count
    return Estimate(
        center=value, error=error, degrees=count - 1 if degrees is None else degrees, skewness=skewness, method=HALL
    )


def of_replicates(
    value: float, ours: Sequence[float | None], theirs: Sequence[float | None], units: float
) -> Estimate | None:
    """Estimate a difference from its replicates, one value a replicate in one order; None where
    too few define it, or they do not vary, which is no certainty.

    Args:
        units: samples, or keys, that vary by themselves.
    """
    found = [
        difference
        for one, other in zip(ours, theirs, strict=True)
        if one is not None and other is not None and math.isfinite(difference := one - other)
    ]
    if len(found) < FEWEST_REPLICATES:
        return None
    # By a power of two, which rounds nothing: squares of very large differences are no 64-bit numbers.
    scale = math.ldexp(1.0, math.frexp(max(map(abs, found)))[1] - 1)
    scaled = [difference / scale for difference in found]
    mean, error = statistics.fmean(scaled), statistics.stdev(scaled)
    if not error:
        return None
    skewness = statistics.fmean(((each - mean) / error) ** 3 for each in scaled)
    degrees = min(len(found), units) - 1
    return Estimate(center=value, error=error * scale, degrees=degrees, skewness=skewness, method=REPLICATES)


def of_independent(one: Estimate, other: Estimate) -> Estimate:
    """The difference one - other of two estimates on different rows. (B. Welch: The Generalization of 'Student's'
    Problem when Several Different Population Variances are Involved, 1947.)"""
    ours, theirs = one.error**2, other.error**2
    error = math.sqrt(ours + theirs)
    if not error:
        return Estimate(center=one.center - other.center, error=0.0, method=HALL)
    return Estimate(
        center=one.center - other.center,
        error=error,
        degrees=error**4 / (ours**2 / one.degrees + theirs**2 / other.degrees),
        skewness=(one.skewness * one.error**3 - other.skewness * other.error**3) / error**3,
        method=HALL,
        of_errors=one.of_errors or other.of_errors,
    )


def rejected(chances: Sequence[float], level: float) -> list[bool]:
    """Test several chances together: True for those that are significant (S. Holm: A Simple Sequentially Rejective
    Multiple Test Procedure, 1979)."""
    found = [False] * len(chances)
    for number, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[place] > level / (len(chances) - number):
            break
        found[place] = True
    return found


def reach(level: float, degrees: float) -> float:
    """How many standard errors chance exceeds, in one direction, with the probability `level`: Student's t; infinite
    where it has no so small a level. (M. Abramowitz, I. Stegun: Handbook of Mathematical Functions, 1964, 26.7.8.)"""
    z = NormalDist().inv_cdf(1 - level)
    if math.isinf(degrees):
        return z
    left = (1 - 1 / (4 * degrees)) ** 2 - z * z / (2 * degrees) if degrees >= 1 else 0.0
    return math.copysign(math.sqrt(z * z / left), z) if left > 0 else math.inf


def _beyond(t: float, degrees: float) -> float:
    """The level at which `reach` is t."""
    if not math.isinf(degrees):
        t *= (1 - 1 / (4 * degrees)) / math.sqrt(1 + t * t / (2 * degrees))
    return NormalDist().cdf(-t)


def _bent(t: float, skewness: float) -> float:
    """Hall's transformation of t."""
    return t + skewness * t * t / 3 + skewness**2 * t**3 / 27 + skewness / 6


def _straightened(x: float, skewness: float) -> float:
    """The t whose transformation is x."""
    x -= skewness / 6
    return x if abs(skewness) < 1e-6 or math.isinf(x) else 3 * (math.cbrt(1 + skewness * x) - 1) / skewness
