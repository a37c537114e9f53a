"""The scales on which the nights of a data set's statistics vary about evenly, by the kind of a statistic.

- `count`: twice the square root (F. Anscombe: The Transformation of Poisson, Binomial and Negative-Binomial Data,
  1948). Chance alone has a variance of 1.
- `share`: twice the arcsine of the root (the same paper). Chance alone has a variance of 1 / rows.
- `positive`: the logarithm, where all nights before are above 0.
- `number`: as it is; the square root where all nights before are at least 0 and they are significantly skewed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drivetrain.data.arrow import numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

COUNT, SHARE, POSITIVE, NUMBER = KINDS = ("count", "share", "positive", "number")
_LEAST_POSITIVE = 1e-300
# Standard errors of the skewness of normal nights.
_SKEWED = 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Scale:
    """The scale of each statistic of each column, for nights of these rows."""

    kinds: tuple[str, ...]
    """[statistics]"""
    logarithmic: Bools
    """[statistics, columns]"""
    rooted: Bools
    """[statistics, columns]; the root of a number."""
    rows: Floats
    """[nights]; the last one is tonight."""

    @classmethod
    def of(cls, before: Floats, kinds: tuple[str, ...], rows: Floats) -> Scale:
        """The scale for nights before [nights, statistics, columns]."""
        np = numpy()
        positive, number = (np.array([[kind == wanted] for kind in kinds]) for wanted in (POSITIVE, NUMBER))
        count = np.maximum((~np.isnan(before)).sum(axis=0), 1)
        e = np.nan_to_num(before - np.nansum(before, axis=0) / count)
        skewed = (e * e * e).sum(axis=0) / count > _SKEWED * np.sqrt(6 / count) * ((e * e).sum(axis=0) / count) ** 1.5
        return cls(
            kinds=kinds,
            logarithmic=positive & ~(before <= 0).any(axis=0),
            rooted=number & ~(before < 0).any(axis=0) & skewed,
            rows=np.maximum(rows, 1.0),
        )

    def apply(self, values: Floats) -> Floats:
        """Values of all nights [nights, statistics, columns] on the scale."""
        np, found, n = numpy(), values.copy(), self.rows[:, None]
        for place, kind in enumerate(self.kinds):
            each = values[:, place]
            if kind == COUNT:
                found[:, place] = 2 * np.sqrt(np.maximum(each, 0) + 3 / 8)
            elif kind == SHARE:
                found[:, place] = 2 * np.arcsin(np.sqrt((np.clip(each, 0, 1) * n + 3 / 8) / (n + 3 / 4)))
            elif kind == POSITIVE:
                found[:, place] = np.where(self.logarithmic[place], np.log(np.maximum(each, _LEAST_POSITIVE)), each)
            else:
                found[:, place] = np.where(self.rooted[place], np.sign(each) * np.sqrt(np.abs(each)), each)
        return found

    def back(self, scaled: Floats) -> Floats:
        """Tonight's values [statistics, columns] in the statistics' units."""
        np, found, n = numpy(), scaled.copy(), self.rows[-1]
        for place, kind in enumerate(self.kinds):
            each = scaled[place]
            if kind == COUNT:
                found[place] = np.maximum((np.maximum(each, 0) / 2) ** 2 - 3 / 8, 0)
            elif kind == SHARE:
                sine = np.sin(np.clip(each, 0, math.pi) / 2)
                found[place] = np.clip(((n + 3 / 4) * sine * sine - 3 / 8) / n, 0, 1)
            elif kind == POSITIVE:
                found[place] = np.where(self.logarithmic[place], np.exp(each), each)
            else:
                found[place] = np.where(self.rooted[place], each * np.abs(each), each)
        return found

    def noise(self, present: Bools) -> tuple[Floats, Floats]:
        """The variance of a night by chance alone, and how much more of it tonight has than the nights before, if its
        rows are fewer; both [statistics, columns].

        Args:
            present: [nights before, statistics, columns].
        """
        np = numpy()
        least, more = np.zeros(present.shape[1:]), np.zeros(present.shape[1:])
        for place, kind in enumerate(self.kinds):
            if kind == COUNT:
                least[place] = 1.0
            elif kind == SHARE:
                nights = np.maximum(present[:, place].sum(axis=0), 1)
                least[place] = (1 / self.rows[:-1]) @ present[:, place] / nights
                more[place] = np.maximum(1 / self.rows[-1] - least[place], 0)
        return least, more

    def rounding(self, center: Floats) -> Floats:
        """The distance from a value below which another is equal but for rounding: histories keep what has a logarithm
        in 32 bits."""
        return numpy().where(self.logarithmic, 1e-6, 1e-9 * numpy().abs(center))
