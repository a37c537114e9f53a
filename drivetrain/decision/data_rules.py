"""The parts of a rules file that are about a night as a whole (docs/data_checks.md):

    nights:
      unanswered: warn after 3
      rows: {fail: "-50 %"}
      columns:
        age: {nulls: {fail: "+5 points"}, mean: {warn: "10 %"}}
        price*: {std: {fail: x3}}
    drift:
      share_moved: {warn: 0.1, fail: 0.3}
    fresh:
      ordered_at: 2

`fresh` has the days that the newest value of a column may lie before the night.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.profile import STATISTICS
from drivetrain.data.row_rules.declared import declared_rules
from drivetrain.decision.data_alarms import warn_after
from drivetrain.decision.data_drift import MEAN_MOVED, MEASURES, Gate
from drivetrain.decision.data_sizes import Limit, size

OF_TABLE = ("rows",)
LEVELS = ("warn", "fail")


@dataclass(frozen=True, kw_only=True)
class NightRules:
    """Limits by (column or pattern, statistic), the column of `rows` being ""; gates by measure."""

    limits: Mapping[tuple[str, str], Limit] = field(default_factory=dict[tuple[str, str], Limit])
    gates: Mapping[str, Gate] = field(default_factory=dict[str, Gate])
    fresh: Mapping[str, float] = field(default_factory=dict[str, float])
    unanswered: int | None = None

    def placed(self, statistics: tuple[str, ...], columns: tuple[str, ...]) -> dict[tuple[int, int], Limit]:
        """The limits by (statistic, column) as places.

        Raises:
            InputError: no column has a name or fits a pattern.
        """
        found: dict[tuple[int, int], Limit] = {}
        for (pattern, statistic), limit in self.limits.items():
            names = [name for name in columns if name == pattern] or fnmatch.filter(filter(None, columns), pattern)
            if not names:
                known = [name for name in columns if name]
                raise InputError(f"rules: nights: no column is called {pattern!r}. {did_you_mean(pattern, known)}")
            found |= {(statistics.index(statistic), columns.index(name)): limit for name in names}
        return found


def night_rules(written: str) -> NightRules:
    """Read them from the JSON of a rules file, and check the rest of it, which is for prepare_data.

    Raises:
        InputError: a part has another form.
    """
    declared_rules(written)
    everything: dict[str, Any] = json.loads(written)
    nights = _mapping(everything.get("nights", {}), "nights")
    limits: dict[tuple[str, str], Limit] = {}
    for name, content in nights.items():
        if name in OF_TABLE:
            limits["", name] = _limit(content, f"nights: {name}")
        elif name == "columns":
            for column, statistics in _mapping(content, "nights: columns").items():
                place = f"nights: columns: {column}"
                for statistic, each in _mapping(statistics, place).items():
                    limits[column, _known(statistic, place)] = _limit(each, f"{place}: {statistic}")
        elif name != "unanswered":
            raise InputError(
                f"rules: nights: {name!r} is not allowed. {did_you_mean(name, (*OF_TABLE, 'columns', 'unanswered'))}"
            )
    gates: dict[str, Gate] = {}
    for measure, content in _mapping(everything.get("drift", {}), "drift").items():
        if measure not in MEASURES:
            raise InputError(f"rules: drift: {measure!r} is no measure. {did_you_mean(measure, MEASURES)}")
        levels = _levels(content, f"drift: {measure}")
        most = float("inf") if measure == MEAN_MOVED else 1.0  # the others are shares
        gates[measure] = Gate(
            **{level: _number(at, f"drift: {measure}: {level}", most) for level, at in levels.items()}
        )
    newest = _mapping(everything.get("fresh", {}), "fresh")
    fresh = {column: _number(days, f"fresh: {column}") for column, days in newest.items()}
    unanswered = nights.get("unanswered")
    return NightRules(
        limits=limits, gates=gates, fresh=fresh, unanswered=None if unanswered is None else warn_after(unanswered)
    )


def _known(statistic: str, place: str) -> str:
    known = [name for name in STATISTICS if name not in OF_TABLE]
    if statistic not in known:
        raise InputError(f"rules: {place}: {statistic!r} is no statistic. {did_you_mean(statistic, known)}")
    return statistic


def _limit(content: object, place: str) -> Limit:
    return Limit(**{level: size(written, f"{place}: {level}") for level, written in _levels(content, place).items()})


def _levels(content: object, place: str) -> dict[str, Any]:
    levels = _mapping(content, place)
    if not levels or not levels.keys() <= {*LEVELS}:
        raise InputError(f"rules: {place}: {sorted(levels)} is not allowed. Give warn, fail, or both.")
    return levels


def _mapping(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"rules: {place}: {value!r} is no mapping.")
    return cast("dict[str, Any]", value)


def _number(value: object, place: str, most: float = float("inf")) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or value == float("inf"):
        bound = "" if most == float("inf") else f" to {most:g}"
        raise InputError(f"rules: {place}: {value!r} is not allowed. Give a number from 0{bound}.")
    return float(value)
