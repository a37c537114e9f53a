"""Scores that are hard on a histogram, and what areas come to by the book: pair by pair, in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from drivetrain.training.metric import Samples, Value
from drivetrain.training.metric_states.ranking.score_histogram import lower_edges
from drivetrain.training.task import Task

BINARY = Task("binary", 2)
RESOLUTIONS = st.sampled_from([1, 2, 3, 5, 8, 9, 12, 16])

_ONE = np.float64(1.0)
_POOLS = {
    "constant": [0.3],
    "two values": [0.3, 0.6],
    "neighbours": [0.3, float(np.nextafter(0.3, 1)), float(np.nextafter(0.3, 0))],
    "ends": [0.0, -0.0, 1.0, 0.5],
    "saturated": [0.0, 5e-324, 1e-310, 1e-45, 1e-20, 1 - 2.0**-53, 1 - 2.0**-52, 1 - 2.0**-24, 1.0],
    "near 1": [float(s) for k in (44, 45, 46) for s in (np.nextafter(1 - 2.0**-k, 0), 1 - 2.0**-k)],
    "around 1/2": [0.5, float(np.nextafter(0.5, 0)), float(np.nextafter(0.5, 1))],
    "coarse": [number / 8 for number in range(9)],
}


@st.composite
def pools(draw: st.DrawFn) -> list[float]:
    """Some values, of which scores are drawn: often the same, or a bit apart, or across the edge of a bin."""
    name = draw(st.sampled_from([*_POOLS, "edges", "close", "any", "float32"]))
    if name in _POOLS:
        return _POOLS[name]
    if name == "edges":
        edges = lower_edges(draw(RESOLUTIONS))
        edge = edges[draw(st.integers(0, len(edges) - 1))]
        return [float(value) for value in (np.nextafter(edge, 0), edge, np.nextafter(edge, _ONE))]
    if name == "close":
        start = draw(st.floats(0, 0.999))
        return [start + step * 1e-7 for step in range(20)]
    return draw(st.lists(st.floats(0, 1, width=32 if name == "float32" else 64), min_size=1, max_size=20))


@st.composite
def drawn(draw: st.DrawFn, least: int = 0) -> tuple[list[float], list[bool]]:
    """Scores, and which of them are positive."""
    pool = draw(pools())
    pairs = draw(st.lists(st.tuples(st.sampled_from(pool), st.booleans()), min_size=least, max_size=40))
    return [score for score, _ in pairs], [positive for _, positive in pairs]


def binary(scores: list[float], positive: list[bool], dtype: type = np.float64) -> Samples:
    return Samples(scores=np.array(scores, dtype), targets=np.array(positive, np.int64))


def exact_area(scores: list[float], positive: list[bool]) -> Fraction | None:
    """Won pairs over all pairs; None where there is none."""
    ones = [score for score, of in zip(scores, positive, strict=True) if of]
    zeros = [score for score, of in zip(scores, positive, strict=True) if not of]
    wins = sum((one > zero) + Fraction(one == zero, 2) for one in ones for zero in zeros)
    return wins / (len(ones) * len(zeros)) if ones and zeros else None


def exact_precision(scores: list[float], positive: list[bool]) -> Fraction | None:
    """The mean precision at the positives' scores; None where there is no positive."""
    ones = [score for score, of in zip(scores, positive, strict=True) if of]
    above = [(sum(other >= one for other in ones), sum(other >= one for other in scores)) for one in ones]
    return sum((Fraction(*pair) for pair in above), Fraction(0)) / len(ones) if ones else None


def holds(value: Value, exact: Fraction) -> bool:
    """Whether the exact value lies within the bound, which is 0 only for its correct rounding."""
    if value.bound == 0:
        return value.value == float(exact)
    return abs(Fraction(value.value) - exact) <= Fraction(value.bound)
