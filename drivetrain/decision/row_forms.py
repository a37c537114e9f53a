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
    """Of the rows for which one of `of` holds (without any: of all rows), those for which all of `right` hold."""

    right: tuple[Is, ...]
    of: tuple[Is, ...] = ()
    scale: str = ""


@dataclass(frozen=True)
class Mean:
    """Of a column, weighted by another, over the rows for which one of `of` holds (without any: over all)."""

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
    """Of parts, each of which counts where one of its conditions `there` holds for some row (without any: always), as
    0 where the rows do not define it. With `by_size` a part weighs as many rows as its conditions hold for."""

    parts: tuple[Form, ...]
    there: tuple[tuple[Is, ...], ...]
    by_size: bool = False


Form = Share | Mean | Ranking | Average


class Said(NamedTuple):
    """What rows say of a value: pseudo-values, whose mean over `support` is the value; elsewhere they are the value."""

    value: float
    pseudo: Floats
    support: Bools


def mean(numbers: NDArray[Any], weight: Floats, n: int) -> Said | None:
    total = float(weight.sum())
    if not total:
        return None
    value = float((numbers * weight).sum()) / total
    return Said(value, value + n / total * weight * (numbers - value), weight > 0)


def scaled(scale: str, said: Said | None) -> Said | None:
    if said is None or not scale:
        return said
    to, slope = _SCALES[scale]
    value = to(said.value)
    return Said(value, value + slope(said.value) * (said.pseudo - said.value), said.support)


def ranked(scores: NDArray[Any], positive: Bools, inside: Bools) -> Said | None:
    """The placement values of E. DeLong, D. DeLong and D. Clarke-Pearson, "Comparing the Areas under Two or More
    Correlated Receiver Operating Characteristic Curves", 1988."""
    np = numpy()
    ones, zeros = positive & inside, ~positive & inside
    if not ones.any() or not zeros.any():
        return None
    pseudo = np.zeros(len(scores))
    for own, others in ((ones, zeros), (zeros, ones)):
        ordered = np.sort(scores[others])
        below, up_to = (np.searchsorted(ordered, scores[own], side=side) for side in ("left", "right"))
        pseudo[own] = (below + up_to) / (2 * len(ordered))
    pseudo[zeros] = 1 - pseudo[zeros]
    value = float(pseudo[ones].mean())
    n = int(inside.sum())
    for own in (ones, zeros):
        pseudo[own] = value + n / int(own.sum()) * (pseudo[own] - value)
    return Said(value, pseudo, inside)


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
