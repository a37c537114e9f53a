"""The conditions under which a candidate is registered, as the author of a pipeline writes them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast, get_args

from drivetrain.base.bounds import is_number
from drivetrain.base.errors import InputError

Rule = Literal["better", "not_worse"]
BudgetRule = Literal["significant", "proven"]
Nights = Literal["pooled", "bonferroni"]
MarginFrom = Literal["best", "champion"]
MOST_COMPARISONS, MOST_LINES = 100_000, 365


class Limit(NamedTuple):
    """A number for a metric, on the whole test set (slice "") or on slices: `site=north`, `site=*`, `*` for all."""

    metric: str
    slice: str
    amount: float

    @property
    def name(self) -> str:
        """As it is written: `accuracy@site=north`."""
        return f"{self.metric}@{self.slice}" if self.slice else self.metric


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The conditions, checked: parameters of the component `compare`, by the same names.

    `better`: what is surely gained is above 0 and at least `margin`. `not_worse`: it is at least -`margin`. Differences
    count in the direction in which the metric is better.

    `significant` budgets are exceeded by a loss that is significant, all of them tested together (Holm); `proven` ones
    where a greater loss is not ruled out, each at 1 - `confidence`.

    Raises:
        InputError: no such rule, a number out of range, or floors or budgets that are no such object.
    """

    metric: str = "accuracy"
    rule: Rule = "better"
    margin: float = 0.0
    confidence: float = 0.95
    horizon: int = 365
    """For how many comparisons one test set is used."""
    floors: str = "{}"
    budgets: str = "{}"
    budget_rule: BudgetRule = "significant"
    margin_from: MarginFrom = "best"
    """The models that `not_worse` compares with: the best approved version and the champion, or the champion alone."""
    nights: Nights = "pooled"
    """How the error rate is shared: `pooled` among the lines of a year (each line is tested on all its nights
    together), `bonferroni` among `horizon` comparisons."""
    lines: int = 4
    """How many lines a year are allowed."""

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("rule", self.rule, get_args(Rule)),
            ("budget_rule", self.budget_rule, get_args(BudgetRule)),
            ("margin_from", self.margin_from, get_args(MarginFrom)),
            ("nights", self.nights, get_args(Nights)),
        ):
            if value not in allowed:
                raise InputError(f"{name}={value!r}. Allowed: {', '.join(allowed)}.")
        if not self.metric or "@" in self.metric:
            raise InputError(
                f"metric={self.metric!r}. Give the name of one metric of the whole test set, such as accuracy."
            )
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise InputError(f"margin={self.margin}. Allowed: a difference of the metric, 0 or more.")
        if not 0.5 <= self.confidence < 1:
            raise InputError(f"confidence={self.confidence}. Allowed: from 0.5 to less than 1, such as 0.95.")
        if not 1 <= self.horizon <= MOST_COMPARISONS:
            raise InputError(
                f"horizon={self.horizon}. Allowed: the number of comparisons that a test set is used for, 1 to "
                f"{MOST_COMPARISONS:,}; 1 corrects for nothing."
            )
        if not 1 <= self.lines <= MOST_LINES:
            raise InputError(
                f"lines={self.lines}. Allowed: how many lines of candidates a year are compared, 1 to {MOST_LINES}."
            )
        _ = self.floor_limits, self.budget_limits  # refused here, not where they are first asked for

    @cached_property
    def floor_limits(self) -> tuple[Limit, ...]:
        """The value that each metric must reach at least; if less is better, at most."""
        return _limits("floors", self.floors, '{"accuracy": 0.97, "accuracy@site=north": 0.9}')

    @cached_property
    def budget_limits(self) -> tuple[Limit, ...]:
        """By how much each metric may be worse than the champion's."""
        return _limits("budgets", self.budgets, '{"f1_macro": 0.01, "accuracy@site=*": 0.02}', least=0.0)

    @property
    def pools(self) -> bool:
        """True where nights are pooled. Those of `not_worse` are not: a mean says little of the last one."""
        return self.nights == "pooled" and self.rule == "better" and self.horizon > 1

    def test_of(self, candidate: str, champion: str) -> str:
        """The text that identifies a test of a candidate against a champion."""
        budgets = sorted(f"{limit.name}={limit.amount}" for limit in self.budget_limits)
        return json.dumps([candidate, champion, self.metric, self.rule, self.margin, self.budget_rule, budgets])

    @property
    def level(self) -> float:
        """The probability with which a candidate that is no better may be taken for a better one.

        Over all comparisons on one test set it is 1 - confidence: each gets its share (Bonferroni). Candidates that
        are all equal to the champion would else be promoted by chance, some night. A single comparison has that of
        one end of the interval.
        """
        return (1 - self.confidence) / max(self.horizon, 2)


def _limits(name: str, text: str, example: str, least: float = -math.inf) -> tuple[Limit, ...]:
    try:
        found: Any = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}={text[:80]!r} is not JSON: {error}. Write it as {example}.") from None
    if not isinstance(found, _Pairs):
        raise InputError(f"{name}={text[:80]!r} is not a JSON object. Write it as {example}.")
    limits: list[Limit] = []
    for key, amount in cast("list[tuple[str, Any]]", found):
        metric, at, where = key.partition("@")
        if not metric or (at and not where) or (where != "*" and at and "=" not in where):
            raise InputError(
                f"{name}: {key[:80]!r}. Allowed: metric, metric@column=value, metric@column=*, or metric@* for all "
                "slices."
            )
        if not is_number(amount):
            raise InputError(f"{name}: {key[:80]!r} is {amount!r:.40}. Allowed: a finite number.")
        if amount < least:
            raise InputError(f"{name}: {key[:80]!r} is {amount}. Allowed: {least:g} or more.")
        limit = Limit(metric, where, float(amount))
        if any(limit.name == other.name for other in limits):
            raise InputError(f"{name} names {limit.name!r} twice.")
        limits.append(limit)
    return tuple(limits)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, names given twice included."""
