"""The conditions under which a candidate is registered, as the author of a pipeline writes them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

from drivetrain.base.bounds import is_number
from drivetrain.base.errors import InputError

Rule = Literal["better", "not_worse"]
BudgetRule = Literal["significant", "proven"]
Nights = Literal["pooled", "bonferroni"]
MarginFrom = Literal["best", "champion"]
HORIZON, MOST_COMPARISONS = 365, 100_000
LINES, MOST_LINES = 4, 365


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
    """The conditions, checked.

    `better`: what is surely gained is above 0 and at least `margin`. `not_worse`: it is at least -`margin`. Differences
    count in the direction in which the metric is better.

    `significant` budgets are exceeded by a loss that is significant, all of them tested together (Holm); `proven` ones
    where a greater loss is not ruled out, each at 1 - `confidence`.
    """

    metric: str
    rule: Rule
    margin: float
    confidence: float
    horizon: int
    """For how many comparisons one test set is used."""
    floors: tuple[Limit, ...]
    """The value that each metric must reach at least; if less is better, at most."""
    budgets: tuple[Limit, ...]
    """By how much each metric may be worse than the champion's."""
    budget_rule: BudgetRule = "significant"
    margin_from: MarginFrom = "best"
    """The models that `not_worse` compares with: the best approved version and the champion, or the champion alone."""
    nights: Nights = "pooled"
    """How the error rate is shared: `pooled` among the lines of a year, each of which is tested by all its nights
    together; `bonferroni` among `horizon` comparisons."""
    lines: int = LINES
    """How many lines a year are allowed."""

    @property
    def pools(self) -> bool:
        """True where nights are pooled. Those of `not_worse` are not: a mean says little of the last one."""
        return self.nights == "pooled" and self.rule == "better" and self.horizon > 1

    def test_of(self, candidate: str, champion: str) -> str:
        """The text that identifies a test of a candidate against a champion."""
        budgets = sorted(f"{limit.name}={limit.amount}" for limit in self.budgets)
        return json.dumps([candidate, champion, self.metric, self.rule, self.margin, self.budget_rule, budgets])

    @property
    def level(self) -> float:
        """The probability with which a candidate that is no better may be taken for a better one.

        Over all comparisons on one test set it is 1 - confidence: each gets its share (Bonferroni). Candidates that
        are all equal to the champion would else be promoted by chance, some night. A single comparison has that of
        one end of the interval.
        """
        return (1 - self.confidence) / max(self.horizon, 2)


def policy(
    *,
    metric: str = "accuracy",
    rule: str = "better",
    margin: float = 0.0,
    confidence: float = 0.95,
    horizon: int = HORIZON,
    floors: str = "{}",
    budgets: str = "{}",
    budget_rule: str = "significant",
    margin_from: str = "best",
    nights: str = "pooled",
    lines: int = LINES,
) -> Policy:
    """A policy from the texts and numbers that a step is given.

    Args:
        floors: a JSON object: {"accuracy": 0.97, "accuracy@site=north": 0.9, "recall_macro@site=*": 0.8}.
        budgets: the same, of differences >= 0.

    Raises:
        InputError: no such rule, a number out of range, or text that is no such object.
    """
    for name, value, allowed in (
        ("rule", rule, get_args(Rule)),
        ("budget_rule", budget_rule, get_args(BudgetRule)),
        ("margin_from", margin_from, get_args(MarginFrom)),
        ("nights", nights, get_args(Nights)),
    ):
        if value not in allowed:
            raise InputError(f"{name}={value!r}. Allowed: {', '.join(allowed)}.")
    if not metric or "@" in metric:
        raise InputError(f"metric={metric!r}. Give the name of one metric of the whole test set, such as accuracy.")
    if not (math.isfinite(margin) and margin >= 0):
        raise InputError(f"margin={margin}. Allowed: a difference of the metric, 0 or more.")
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence={confidence}. Allowed: from 0.5 to less than 1, such as 0.95.")
    if not 1 <= horizon <= MOST_COMPARISONS:
        raise InputError(
            f"horizon={horizon}. Allowed: the number of comparisons that a test set is used for, 1 to "
            f"{MOST_COMPARISONS:,}; 1 corrects for nothing."
        )
    if not 1 <= lines <= MOST_LINES:
        raise InputError(
            f"lines={lines}. Allowed: how many lines of candidates a year are compared, 1 to {MOST_LINES}."
        )
    return Policy(
        metric=metric,
        rule=cast("Rule", rule),
        margin=margin,
        confidence=confidence,
        horizon=horizon,
        floors=_limits("floors", floors, '{"accuracy": 0.97, "accuracy@site=north": 0.9}'),
        budgets=_limits("budgets", budgets, '{"f1_macro": 0.01, "accuracy@site=*": 0.02}', least=0.0),
        budget_rule=cast("BudgetRule", budget_rule),
        margin_from=cast("MarginFrom", margin_from),
        nights=cast("Nights", nights),
        lines=lines,
    )


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
