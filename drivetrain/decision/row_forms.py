"""How a metric follows from the columns of rows (rows.py), and what a row adds to its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from drivetrain.data.arrow import numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

_SCALES: Mapping[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "": (lambda mean: mean, lambda _: 1.0),
    "root": (lambda mean: mean**0.5, lambda mean: 0.5 / mean**0.5 if mean > 0 else 0.0),
    "exponential": (lambda mean: math.exp(mean), lambda mean: math.exp(mean)),
    "twice": (lambda mean: 2 * mean / (1 + mean), lambda mean: 2 / (1 + mean) ** 2),
}
"""From a mean or a share to the value, and the derivative."""


class Is(NamedTuple):
    """Rows in which a column has the value; with `negated`, another one."""

    column: int
    value: int = 1
    negated: bool = False


@dataclass(frozen=True)
class Share:
    """The share of rows for which all of `right` hold, among those for which one of `of` holds (without any: all
    rows)."""

    right: tuple[Is, ...]
    of: tuple[Is, ...] = ()
    scale: str = ""


@dataclass(frozen=True)
class Mean:
    """The mean of a column, weighted by another, over the rows for which one of `of` holds (without any: over all)."""

    column: int
    weight: int | None = None
    of: tuple[Is, ...] = ()
    scale: str = ""


@dataclass(frozen=True)
class Ranking:
    """How often a row for which `positive` holds has a greater score than another one; a tie counts half."""

    score: int
    positive: Is


@dataclass(frozen=True)
class Average:
    """The average of parts. A part counts if one of its conditions `there` holds for some row (without any: always), as
    0 where the rows do not define it. With `by_size` a part weighs as many rows as its conditions hold for."""

    parts: tuple[Form, ...]
    there: tuple[tuple[Is, ...], ...]
    by_size: bool = False


Form = Share | Mean | Ranking | Average


class Part(NamedTuple):
    """One summand of a value, weight included, and the rows that it rests on."""

    value: float
    rows: NDArray[np.int64]
    weight: float = 1.0


class Said(NamedTuple):
    """The influence of rows on a value: their number times its first-order change by each row. The changes add up to
    0."""

    value: float
    places: NDArray[np.int64]
    """The places of the rows that are evidence on it: those of a class, perhaps."""
    changes: Floats
    """The changes by these rows; for a mean over all rows, the row's own value - `value`. Those of other rows are 0."""
    parts: tuple[Part, ...] = ()
    """Without any the value rests on `places`."""

    @property
    def rests(self) -> tuple[Part, ...]:
        return self.parts or (Part(self.value, self.places),)


def mean(numbers: NDArray[Any], weight: Floats | None, places: NDArray[np.int64], num_rows: int) -> Said | None:
    """The influence on a mean of the numbers at `places`, weighted by `weight`, each of shape [n]; None without
    rows."""
    total = len(places) if weight is None else float(weight.sum())
    if not total:
        return None
    value = float(numbers.sum() if weight is None else (numbers * weight).sum()) / total
    changes = num_rows / total * (numbers - value)
    return Said(value, places, changes if weight is None else changes * weight)


def scaled(scale: str, said: Said | None) -> Said | None:
    if said is None or not scale:
        return said
    to, slope = _SCALES[scale]
    return Said(to(said.value), said.places, slope(said.value) * said.changes)


def ranked(scores: NDArray[Any], positive: Bools, places: NDArray[np.int64]) -> Said | None:
    """The influence on a ranking's area of the rows at `places`: the placement values of E. DeLong, D. DeLong and
    D. Clarke-Pearson, "Comparing the Areas under Two or More Correlated Receiver Operating Characteristic Curves",
    1988."""
    np = numpy()
    if not positive.any() or positive.all():
        return None
    won = np.zeros(len(places))
    for own, others in ((positive, ~positive), (~positive, positive)):
        ordered = np.sort(scores[others])
        below, up_to = (np.searchsorted(ordered, scores[own], side=side) for side in ("left", "right"))
        won[own] = (below + up_to) / (2 * len(ordered))
    won[~positive] = 1 - won[~positive]
    value = float(won[positive].mean())
    each = np.where(positive, len(places) / positive.sum(), len(places) / (~positive).sum())
    fewer = positive if 2 * positive.sum() <= len(places) else ~positive
    return Said(value, places, each * (won - value), (Part(value, places[fewer]),))


def form_of(form: Mapping[str, Any]) -> Form:
    kind, scale = form["kind"], str(form.get("scale", ""))
    if scale not in _SCALES:
        raise ValueError(f"it has the scale {scale!r}")
    if kind == "share":
        return Share(_conditions(form["right"]), _conditions(form["of"]), scale)
    if kind == "mean":
        return Mean(form["column"], form["weight"], _conditions(form["of"]), scale)
    if kind == "ranking":
        return Ranking(form["score"], Is(*form["positive"]))
    if kind != "average":
        raise ValueError(f"it has the form {kind!r}")
    return Average(tuple(map(form_of, form["parts"])), tuple(map(_conditions, form["there"])), form["by_size"])


def _conditions(found: Sequence[Sequence[Any]]) -> tuple[Is, ...]:
    return tuple(Is(*one) for one in found)
