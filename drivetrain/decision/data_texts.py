"""The verdicts on a night's data as sentences, for terminals and pages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from drivetrain.decision.data_bounds import FEWEST, Verdicts
from drivetrain.decision.data_drift import MEAN_MOVED, Effect
from drivetrain.decision.data_scales import COUNT, SHARE
from drivetrain.decision.formatting import count, number, signed

if TYPE_CHECKING:
    from drivetrain.decision.data_sizes import Limit

_WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def sentence(
    verdicts: Verdicts, statistic: int, column: int, name: str, weekday: int | None = None, limit: Limit | None = None
) -> str:
    """A value, the nights before, and its bound: `nulls of age: 12 % tonight; the last 60 nights had 1.1 % to 2 %
    (bound 3.1 %)`.

    Args:
        name: of the statistic and the column: `nulls of age`.
        weekday: tonight's.
        limit: of the user's, on this statistic of this column.
    """
    at, kind = (statistic, column), verdicts.scale.kinds[statistic]
    value, nights = float(verdicts.value[at]), int(verdicts.nights[at])
    if math.isnan(value):
        return f"{name}: no value tonight" + (f"; {_before(nights)} had one" if nights else "")
    told = f"{name}: {amount(value, kind)} tonight"
    if not nights:
        return f"{told}; no night before"
    least, most, expected = (float(each[at]) for each in (verdicts.least, verdicts.most, verdicts.expected))
    both = amount(least, kind) if least == most else f"{amount(least, kind)} to {amount(most, kind)}"
    told += f"; {_before(nights)} had {both}"
    if weekday is not None and verdicts.fit.weekday[at]:
        told += f", {_WEEKDAYS[weekday]} about {amount(expected, kind)}"
    if limit is not None and verdicts.limited[at]:
        size = limit.fail if limit.fail and limit.fails(expected, value) else limit.warn
        return f"{told} (limit {size.text if size else ''} from {amount(expected, kind)})"
    if verdicts.few[at]:
        return f"{told} (too few nights: bounds begin with {FEWEST})"
    low, high = float(verdicts.low[at]), float(verdicts.high[at])
    if verdicts.warned[at]:
        return f"{told} (bound {amount(high if value > expected else low, kind)})"
    return f"{told} (bounds {amount(low, kind)} to {amount(high, kind)})"


def seen(verdicts: Verdicts, statistic: int, column: int, name: str, shift: float, chance: float) -> str:
    """The power of a bound, `chance` being of data_bounds.power: `nulls of age: a night with 3.4 % (6 sd) warns with a
    probability of 94 %`."""
    size = amount(float(verdicts.moved_by(shift)[statistic, column]), verdicts.scale.kinds[statistic])
    return f"{name}: a night with {size} ({shift:g} sd) warns with a probability of {100 * chance:.0f} %"


def replay(failed: int, warned: int, nights: int) -> str:
    """`On the last 60 nights: 0 would have failed, 2 warned.`"""
    if not nights:
        return f"No night to look back at: bounds begin with {FEWEST} nights."
    return f"On the last {count(nights, 'night')}: {failed} would have failed, {warned} warned."


def drifted(effect: Effect, column: int, measure: str, name: str, size: float | None = None) -> str:
    """A difference from the training set: `rows of age that moved: 24 % (at least 21 %, at most 27 %; limit 10 %)`.

    Args:
        name: of what is measured: `rows of age that moved`.
        size: the gate's.
    """
    estimate, low, high = (float(each[column]) for each in (effect.estimate, effect.low, effect.high))
    if math.isnan(estimate):
        return f"{name}: not defined (no values, or all of the training set's are equal)"

    def told(value: float) -> str:
        return f"{signed(round(value, 4))} standard deviations" if measure == MEAN_MOVED else amount(value, SHARE)

    limit = "" if size is None else f"; limit {told(size).removeprefix('+')}"
    return f"{name}: {told(estimate)} (at least {told(low)}, at most {told(high)}{limit})"


def amount(value: float, kind: str) -> str:
    """A value of a statistic: `1.1 %`, `12,034`, `0.25`."""
    if not math.isfinite(value):
        return "unknown"
    if kind == SHARE:
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if kind == COUNT else number(value)


def _before(nights: int) -> str:
    return "the night before" if nights == 1 else f"the last {nights:,} nights"
