"""Two profiles side by side: the values of a batch in the bins of a baseline, column by column."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from drivetrain.base.formatting import number
from drivetrain.data.arrow import numpy
from drivetrain.decision.data_drift import SHARE_MOVED, Side, drift

if TYPE_CHECKING:
    from drivetrain.data.profile import Profile

BINS = 10
"""Intervals of a number column, between the deciles of the baseline."""
_MOST_VALUES = 40
OTHERS, _NOT_FINITE = "others", "not finite"


@dataclass(frozen=True, kw_only=True, eq=False)
class Aligned:
    """The columns that both have, with their values in bins of the same names."""

    columns: tuple[str, ...]
    bins: Mapping[str, tuple[str, ...]]
    batch: Side
    baseline: Side
    missing: tuple[str, ...]
    """Columns of the baseline that the batch lacks, or that are of another kind there."""
    added: tuple[str, ...]
    empty: tuple[str, ...] = ()
    """Those of `missing` that the batch has without a value."""


def aligned(batch: Profile, baseline: Profile) -> Aligned:
    """Count both in the baseline's bins: deciles of numbers, the values of columns with few, classes of the label.
    Numbers that are NaN or infinite have a bin of their own.

    Columns without bins (texts and times of many values) are compared by their nulls alone.
    """
    np = numpy()
    kinds = dict(zip(batch.columns, batch.kinds, strict=True))
    columns = [
        name
        for name, kind in zip(baseline.columns, baseline.kinds, strict=True)
        if kinds.get(name) == kind and name != baseline.key
    ]
    bins: dict[str, tuple[str, ...]] = {}
    counts: dict[str, tuple[Any, Any]] = {}
    edges: dict[str, Any] = {}
    for name in columns:
        ours, theirs = _listed(batch, name), _listed(baseline, name)
        if theirs is not None and ours is not None and len(theirs) <= _MOST_VALUES:
            bins[name], counts[name] = _by_value(ours, theirs)
        else:
            deciles = baseline.grid[baseline.places[name]][_deciles(baseline.grid.shape[1])]
            distinct = np.unique(deciles[~np.isnan(deciles)])
            if len(distinct) > 2:
                edges[name] = distinct
    ours, theirs = batch.histogram(edges), baseline.histogram(edges)
    for name, ends in edges.items():
        apart = [np.nan_to_num(side.arrays["not_finite"][side.places[name]]) for side in (batch, baseline)]
        names = (f"{number(low)} to {number(high)}" for low, high in pairwise(ends))
        bins[name] = (*names, *((_NOT_FINITE,) if any(apart) else ()))
        counts[name] = np.append(ours[name], apart[0]), np.append(theirs[name], apart[1])
    widest = max(map(len, bins.values()), default=1)
    sides: list[Side] = []
    for which, profile in enumerate((batch, baseline)):
        places = [profile.places[name] for name in columns]
        padded = np.zeros((len(columns), widest))
        for row, name in enumerate(columns):
            if name in counts:
                padded[row, : len(bins[name])] = counts[name][which][: len(bins[name])]
        statistics = profile.statistics
        sides.append(
            Side(
                counts=padded,
                means=statistics["mean"][places],
                stds=statistics["std"][places],
                nulls=profile.arrays["nulls"][places],
                rows=float(profile.rows),
            )
        )
    nulls = dict(zip(batch.columns, batch.arrays["nulls"].tolist(), strict=True))
    missing = tuple(name for name in baseline.columns if name not in columns and name != baseline.key)
    return Aligned(
        columns=tuple(columns),
        bins=bins,
        batch=sides[0],
        baseline=sides[1],
        missing=missing,
        added=tuple(name for name in batch.columns if name not in baseline.columns),
        empty=tuple(name for name in missing if nulls.get(name) == batch.rows),
    )


@dataclass(frozen=True, kw_only=True)
class Movement:
    """A column of two sets; its share of empty cells and its mean are before and after, None for none."""

    column: str
    moved: float | None
    """The share of the values that would have to change for the distribution of before (drift); None without bins."""
    surely: float | None
    """The least share that the interval of 95 % allows."""
    nulls: tuple[float | None, ...]
    means: tuple[float | None, ...]


def movements(before: Profile, after: Profile) -> list[Movement]:
    """The columns that both have, those that moved most first."""
    sides = aligned(after, before)
    effect = drift(sides.batch, sides.baseline)[SHARE_MOVED]
    found: list[Movement] = []
    for place, name in enumerate(sides.columns):
        at = [(each, each.places[name]) for each in (before, after)]
        nulls, means = (tuple(_known(each.statistics[what][row]) for each, row in at) for what in ("nulls", "mean"))
        moved, surely = _known(effect.estimate[place]), _known(effect.surely[place])
        found.append(Movement(column=name, moved=moved, surely=surely, nulls=nulls, means=means))
    return sorted(found, key=lambda each: (1.0 if each.moved is None else -each.moved, each.column))


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _listed(profile: Profile, name: str) -> Mapping[Any, int] | None:
    if name == profile.label and profile.classes:
        return profile.classes
    return profile.values.get(name)


def _by_value(ours: Mapping[Any, int], theirs: Mapping[Any, int]) -> tuple[tuple[str, ...], tuple[Any, Any]]:
    """The baseline's values, and one bin for all others."""
    np = numpy()
    others = sum(rows for value, rows in ours.items() if value not in theirs)
    names = (*map(str, theirs), *((OTHERS,) if others else ()))
    mine = [ours.get(value, 0) for value in theirs] + ([others] if others else [])
    its = [*theirs.values()] + ([0] if others else [])
    return names, (np.array(mine, "float64"), np.array(its, "float64"))


def _deciles(points: int) -> list[int]:
    """The places of the deciles among quantiles that are evenly apart."""
    return [round(place * (points - 1) / BINS) for place in range(BINS + 1)]
