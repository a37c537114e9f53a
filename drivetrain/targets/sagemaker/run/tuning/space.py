"""The search space: ranges of hyperparameters, and how their values are drawn and written.

https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-define-ranges.html
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.catalog.quotas import MAX_TUNED_HYPERPARAMETERS
from drivetrain.targets.sagemaker.run.jobs.job_data import entries

Scaling = Literal["Linear", "Logarithmic", "ReverseLogarithmic"]
SCALINGS = ("Auto", "Linear", "Logarithmic", "ReverseLogarithmic")
# From this ratio of the ends on, Auto searches by orders of magnitude.
_WIDE = 100.0


@dataclass(frozen=True)
class Categorical:
    """One of a few values. They are text, JSON in it where the SDK wrote it so, and go to the program as they are."""

    name: str
    values: tuple[str, ...]

    def at(self, unit: float) -> str:
        """The value at a place between 0 (included) and 1."""
        return self.values[min(int(unit * len(self.values)), len(self.values) - 1)]


@dataclass(frozen=True)
class Integer:
    """A whole number, both ends included."""

    name: str
    low: int
    high: int
    scaling: Scaling = "Linear"

    def at(self, unit: float) -> str:
        """The value at a place between 0 (included) and 1: each has an equal share of the scale."""
        # Half a step beyond the ends, so that these are as likely as their neighbours.
        found = _scaled(unit, self.low - 0.5, self.high + 0.5, self.scaling)
        return str(min(max(round(found), self.low), self.high))


@dataclass(frozen=True)
class Continuous:
    """A number, both ends included."""

    name: str
    low: float
    high: float
    scaling: Scaling = "Linear"

    def at(self, unit: float) -> str:
        """The value at a place between 0 and 1 on the scale."""
        return repr(min(max(_scaled(unit, self.low, self.high, self.scaling), self.low), self.high))

    def unit(self, text: str) -> float:
        """The place between 0 and 1 at which a value lies: `at` backwards."""
        if self.high == self.low:
            return 0.0
        value, low, high = (_onto(one, self.scaling) for one in (float(text), self.low, self.high))
        return min(max((value - low) / (high - low), 0.0), 1.0)


Range = Categorical | Integer | Continuous


def read_ranges(given: Mapping[str, Any]) -> tuple[Range, ...]:
    """The ranges of a ParameterRanges object, in its order.

    Raises:
        UserError: bounds that are no numbers or the wrong way round, a scale that they do not allow, a name twice.
    """
    if given.get("AutoParameters"):
        raise UserError(
            "AutoParameters (Autotune) are chosen by the service, by rules that it does not publish. Allowed on this "
            "machine: CategoricalParameterRanges, IntegerParameterRanges, ContinuousParameterRanges."
        )
    found = tuple(_ranges(given))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"hyperparameter {name!r} has two ranges. Give one.")
    if len(found) > MAX_TUNED_HYPERPARAMETERS:
        raise UserError(f"{len(found)} hyperparameters are searched. Allowed: {MAX_TUNED_HYPERPARAMETERS}.")
    return found


def _ranges(given: Mapping[str, Any]) -> Iterator[Range]:
    for entry in entries(given, "CategoricalParameterRanges"):
        name, values = _name(entry), entry.get("Values")
        if not isinstance(values, list) or not values:
            raise UserError(f"range of {name!r}: Values is {values!r:.80}. Allowed: a list of at least one value.")
        yield Categorical(name, tuple(dict.fromkeys(_text(value) for value in cast("list[Any]", values))))
    for entry in entries(given, "IntegerParameterRanges"):
        name, low, high = _bounds(entry)
        if low != int(low) or high != int(high):
            raise UserError(
                f"range of {name!r}: {low:g} to {high:g}. Allowed in IntegerParameterRanges: whole numbers."
            )
        if entry.get("ScalingType") == "ReverseLogarithmic":
            raise UserError(
                f"range of {name!r}: ScalingType 'ReverseLogarithmic' is for ContinuousParameterRanges. Allowed for "
                "whole numbers: Auto, Linear, Logarithmic."
            )
        yield Integer(name, int(low), int(high), _scaling(name, entry, low, high))
    for entry in entries(given, "ContinuousParameterRanges"):
        name, low, high = _bounds(entry)
        yield Continuous(name, low, high, _scaling(name, entry, low, high))


def settings(given: Mapping[str, Any]) -> dict[str, str]:
    """Static hyperparameters as text.

    Raises:
        UserError: StaticHyperParameters is no object of names and values.
    """
    static = given.get("StaticHyperParameters")
    if static is None:
        return {}
    if not isinstance(static, dict):
        raise UserError(f"StaticHyperParameters is {static!r:.80}. Allowed: an object of names and values.")
    return {name: _text(value) for name, value in object_in(given, "StaticHyperParameters").items()}


def _name(entry: Mapping[str, Any]) -> str:
    name = entry.get("Name")
    if not isinstance(name, str) or not name:
        raise UserError(f"a range is named {name!r:.80}. Allowed: the name of a hyperparameter.")
    return name


def _bounds(entry: Mapping[str, Any]) -> tuple[str, float, float]:
    name = _name(entry)
    found: list[float] = []
    for key in ("MinValue", "MaxValue"):
        try:
            value = float(entry.get(key))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value):
            raise UserError(f"range of {name!r}: {key} is {entry.get(key)!r:.80}. Allowed: a number, as text.")
        found.append(value)
    low, high = found
    if low > high:
        raise UserError(f"range of {name!r}: MinValue {low:g} is above MaxValue {high:g}. Swap them.")
    return name, low, high


def _scaling(name: str, entry: Mapping[str, Any], low: float, high: float) -> Scaling:
    given = entry.get("ScalingType", "Auto")
    if given not in SCALINGS:
        raise UserError(f"range of {name!r}: ScalingType is {given!r:.80}. Allowed: {', '.join(SCALINGS)}.")
    if given == "Logarithmic" and low <= 0:
        raise UserError(f"range of {name!r}: Logarithmic needs values above 0, and MinValue is {low:g}.")
    if given == "ReverseLogarithmic" and not (low >= 0 and high < 1):
        raise UserError(
            f"range of {name!r}: ReverseLogarithmic needs 0 <= x < 1, and the range is {low:g} to {high:g}."
        )
    if given == "Auto":
        return "Logarithmic" if low > 0 and high / low >= _WIDE else "Linear"
    return given


def _scaled(unit: float, low: float, high: float, scaling: Scaling) -> float:
    low, high = _onto(low, scaling), _onto(high, scaling)
    place = low + unit * (high - low)
    if scaling == "Logarithmic":
        return math.exp(place)
    return 1.0 - math.exp(-place) if scaling == "ReverseLogarithmic" else place


def _onto(value: float, scaling: Scaling) -> float:
    """A value on its scale; the reverse logarithm is that of the distance from 1."""
    if scaling == "Logarithmic":
        return math.log(value)
    return -math.log1p(-value) if scaling == "ReverseLogarithmic" else value


def _text(value: Any) -> str:
    """A value as hyperparameters hold it; numbers of pipeline parameters become text."""
    import json

    return value if isinstance(value, str) else json.dumps(value)
