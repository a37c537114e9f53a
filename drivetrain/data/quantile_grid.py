"""Grids of 65 quantiles of columns: how many values lie below an edge, and the grid of the values of two sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.data.arrow import numpy

POINTS = 65
"""Points of a column's grid: the quantiles 0, 1/64, ..., 1."""


def fractions() -> list[float]:
    return [place / (POINTS - 1) for place in range(POINTS)]


def below(grid: Any, edges: Any, *, side: str = "left") -> Any:
    """The share of values below each edge (up to it, with side="right"), by a column's quantile grid."""
    np = numpy()
    if np.isnan(grid[0]):
        return np.zeros(len(edges))
    if side == "right":  # numpy's own side where a quantile is there several times
        return np.interp(edges, grid, fractions(), left=0.0)
    return 1.0 - np.interp(-edges, -grid[::-1], fractions(), left=0.0)


def mixture(grids: Sequence[Any], counts: Sequence[Any]) -> Any:
    """The grids of the values of several sets: `grids` are float64 [columns, POINTS], NaN for a column without values,
    and `counts` the numbers of their values, [columns]."""
    np = numpy()
    shares = np.stack([np.nan_to_num(count) for count in counts])
    shares = shares / np.maximum(shares.sum(axis=0), 1)
    found = np.full(grids[0].shape, np.nan)
    for place in np.flatnonzero(shares.sum(axis=0)).tolist():
        parts = [(grid[place], share) for grid, share in zip(grids, shares[:, place], strict=True) if share]
        if len(parts) == 1:
            found[place] = parts[0][0]
            continue
        knots = np.unique(np.concatenate([grid for grid, _ in parts]))
        lower, upper = (
            sum(below(grid, knots, side=side) * share for grid, share in parts) for side in ("left", "right")
        )
        steps = np.stack([lower, upper], axis=1).ravel()  # a value that is there often has two
        found[place] = np.interp(fractions(), steps, np.repeat(knots, 2))
        found[place, [0, -1]] = knots[[0, -1]]
    return found


def grid_of_counts(rows: Mapping[Any, int]) -> Any:
    """The grid of a column whose numbers are counted, float64 [POINTS]."""
    np = numpy()
    values = sorted(rows)
    ranks = np.cumsum([rows[value] for value in values])
    places = np.floor(np.array(fractions()) * (ranks[-1] - 1))
    return np.array(values, "float64")[np.searchsorted(ranks, places, side="right")]
