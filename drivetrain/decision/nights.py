"""A line's nights pooled: whether its candidates are better than the champion, of all that its nights have said.

A line is a series of candidates of one pipeline, compared with one champion. Its nights are not independent where they
use the same test rows, so what varies by itself is the unit: a row where the rows are used again (`by_rows`: each
row's mean over the nights), a night where they are new each night (`by_nights`).

A line is looked at on few nights only, and `SPENT` says how much of its error rate is spent by each (K. Lan, D. DeMets:
Discrete Sequential Boundaries for Clinical Trials, 1983). How much chance gives at all looks together follows from the
units themselves: without a difference each unit is as likely to say the opposite (R. Fisher: The Design of Experiments,
1935). The units that say most get random signs; the sum of the others is normal, with their covariances over the
looks. So the first looks of small test sets, where few units differ, are exact, and those of large ones cost nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drivetrain.data.arrow import numpy
from drivetrain.decision.standing import total

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SPENT = {1: 0.002, 3: 0.25, 7: 0.5, 10: 0.68, 14: 0.9, 30: 0.92, 90: 0.94, 180: 0.95, 365: 0.96}
"""Look -> the share of a line's error rate that is spent by then. On the first night nothing is known of how much
candidates of the line vary, so next to nothing is spent on it."""
OF_NIGHTS = 0.8
"""The share of that where the night is the unit. The rest is for the first look, at which the rows were the unit: of
candidates that vary by themselves one looks better than its line is."""
LOOKS = tuple(SPENT)
DRAWS = 200_000
_SIGNED = 64
_CHUNK = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """The pooled result of a line's nights at a look. `gain` is the mean gain of its candidates; `least` is the
    smallest one that is not ruled out at this look, None where so few units differ that the look can show nothing."""

    nights: int
    gain: float
    least: float | None
    units: int
    """Rows, or nights, that say something."""

    @property
    def is_better(self) -> bool:
        return self.least is not None and self.least > 0


def looks_until(nights: int) -> tuple[int, ...]:
    """The looks of a line of so many nights."""
    return tuple(look for look in LOOKS if look <= nights)


def next_look(nights: int) -> int | None:
    """The first look after so many nights; None after the last."""
    return next((look for look in LOOKS if look > nights), None)


def by_rows(parts: Floats, gains: Sequence[float], level: float, draws: int = DRAWS) -> Pooled:
    """The verdict where each night has the same test rows.

    Args:
        parts: looks x rows: for each look so far, the last one being now, each row's part of the gain as its mean over
            the nights until then; their sum is the line's mean gain.
        gains: of each night.
        level: the line's share of the error rate.
    """
    gain = total(parts[-1].tolist())
    chance, tail = _reach(parts, [level * SPENT[look] for look in looks_until(len(gains))], draws)
    # Candidates of one line differ by more than the rows say: each is trained anew.
    spread = 0.0
    if len(gains) > 1 and (varies := float(numpy().std(numpy().asarray(gains), ddof=1))) > 1e-12:
        spread = student(tail, len(gains) - 1) * varies / math.sqrt(len(gains))
    return Pooled(
        nights=len(gains),
        gain=gain,
        least=_least(parts[-1], chance, spread),
        units=int(numpy().count_nonzero(parts[-1])),
    )


def by_nights(gains: Sequence[float], level: float, draws: int = DRAWS) -> Pooled:
    """The verdict where each night has test rows of its own; arguments as in `by_rows`, at which the first look was."""
    looks = looks_until(len(gains))[1:]
    told = numpy().asarray(gains, dtype=float)
    units = numpy().stack([numpy().where(numpy().arange(len(told)) < look, told, 0.0) / look for look in looks])
    gain = total(units[-1].tolist())
    chance, _ = _reach(units, [OF_NIGHTS * level * SPENT[look] for look in looks], draws)
    return Pooled(nights=len(told), gain=gain, least=_least(units[-1], chance), units=int(numpy().count_nonzero(told)))


def _least(units: Floats, chance: float, spread: float = 0.0) -> float | None:
    """The gain less what chance and the spread of candidates reach; None where chance reaches it all, were every unit a
    gain."""
    if chance >= float(numpy().abs(units).sum()) * (1 - 1e-8):
        return None
    gain, reach = total(units.tolist()), math.hypot(chance, spread)
    return 0.0 if abs(gain - reach) <= 1e-8 * abs(gain) else gain - reach  # equal but for rounding


@functools.lru_cache(maxsize=1024)
def student(level: float, degrees: int) -> float:
    """The value that Student's t exceeds with probability `level` (at most 1/2)."""
    low, high = 0.0, 1.0
    while exceeds(high, degrees) > level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle, degrees) > level else (low, middle)
    return high


def exceeds(t: Any, degrees: int) -> Any:
    """The probability that Student's t is greater than `t`, a number or an array, from 0 on; to about 1e-16. (M.
    Abramowitz, I. Stegun: Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4.)"""
    np = numpy()
    theta = np.arctan2(t, math.sqrt(degrees))
    cosine = np.cos(theta)
    term = total = cosine if degrees % 2 else np.ones_like(cosine)
    for step in range(3 if degrees % 2 else 2, degrees, 2):
        term = term * (cosine * cosine * ((step - 1) / step))
        total = total + term
    if degrees % 2:
        inside = 2 / math.pi * (theta + (np.sin(theta) * total if degrees > 1 else 0.0))
    else:
        inside = np.sin(theta) * total
    return np.maximum(0.0, (1 - inside) / 2)


def _reach(units: Floats, spent: Sequence[float], draws: int) -> tuple[float, float]:
    """The limit of the sum at the last look, such that by each look chance has exceeded a limit with the probability
    that is spent by then; and how often chance exceeds the last one."""
    sums = _by_chance(units, draws)
    waiting = numpy().ones(draws, dtype=bool)
    limit = math.inf
    for number, share in enumerate(spent):
        allowed = math.floor(share * (draws + 1)) - 1 - int(numpy().count_nonzero(~waiting))
        left = sums[waiting, number]
        limit = math.inf
        if 0 <= allowed < len(left):
            limit = float(numpy().partition(left, len(left) - 1 - allowed)[len(left) - 1 - allowed])
            limit += 1e-9 * abs(limit)  # equal sums that were rounded differently
            waiting &= sums[:, number] <= limit
    above = float(numpy().count_nonzero(sums[:, -1] > limit) + 1) / (draws + 1)
    return limit, min(above, 0.5)


def _by_chance(units: Floats, draws: int) -> Floats:
    """Sums at each look (draws x looks) where every unit is as likely to say the opposite."""
    random: Any = numpy().random.default_rng(0)
    size = numpy().abs(units).max(axis=0)
    order = numpy().argsort(-size, kind="stable")
    signed, others = units[:, order[:_SIGNED]], units[:, order[_SIGNED:]]
    signed = signed[:, size[order[:_SIGNED]] > 0]
    sums = numpy().zeros((draws, len(units)))
    for start in range(0, draws, _CHUNK):
        end = min(start + _CHUNK, draws)
        signs = random.integers(0, 2, (end - start, signed.shape[1]), dtype=numpy().int8) * 2 - 1
        sums[start:end] = signs.astype(numpy().float64) @ signed.T
    if others.any():
        values, vectors = numpy().linalg.eigh(others @ others.T)
        root = vectors * numpy().sqrt(numpy().maximum(values, 0))
        sums += random.standard_normal((draws, len(units))) @ root.T
    return sums
