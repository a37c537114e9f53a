"""Fairness by group: how far groups of a column lie apart in what a binary model does to them at its threshold.

    demographic_parity_<column>   the largest less the least share of a group that is taken for class 1
    equalized_odds_<column>       the larger of two such differences: of the true and of the false positive rates

Both are fairlearn's demographic_parity_difference and equalized_odds_difference (M. Hardt, E. Price, N. Srebro,
"Equality of Opportunity in Supervised Learning", 2016). They are made of the slices' rates (metrics/rates.py), in each
replicate, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from drivetrain.training.metric import SHARE, Value
from drivetrain.training.metric_states.result import Evaluation, Measured, Slice
from drivetrain.training.metric_states.uncertainty.intervals import interval

PARITY, ODDS = "demographic_parity", "equalized_odds"
RATES: Mapping[str, tuple[str, ...]] = {
    PARITY: ("rates_selected",),
    ODDS: ("rates_true_positive", "rates_false_positive"),
}
FEWEST = 50
"""The least samples of a group for an interval; twice as many where classes are looked at apart."""
_RATES_IN_WORDS = {
    "rates_selected": "taken for class 1",
    "rates_true_positive": "right of class 1",
    "rates_false_positive": "wrong of class 0",
}


def with_fairness(result: Evaluation, columns: Sequence[str]) -> tuple[Evaluation, list[str]]:
    """Add the differences of each column to the metrics of all samples; and sentences about them.

    Args:
        columns: some of those that are sliced by.
    """
    metrics, undefined = dict(result.whole.metrics), dict(result.whole.undefined)
    replicates, said = dict(result.whole.replicates), list[str]()
    for column in columns:
        groups = [each for each in result.slices if each.column == column and each.num_samples]
        for kind, rates in RATES.items():
            name = f"{kind}_{column}"
            lacking = [each for each in groups if any(rate not in each.metrics for rate in rates)]
            if len(groups) < 2 or lacking:
                why = f"{column}={lacking[0].value} has samples of one class only" if lacking else "there is one group"
                undefined[name] = why
                continue
            value = max(_gap([each.metrics[rate].value for each in groups]) for rate in rates)
            drawn = [_drawn(groups, rates, number) for number in range(_replicates(groups, rates))]
            metrics[name] = measured(
                value,
                drawn,
                result.bootstrap.confidence if result.bootstrap else None,
                result.num_samples,
                result.whole.num_keys,
            )
            smallest, needed = min(each.num_samples for each in groups), FEWEST * len(rates)
            if result.bootstrap and smallest < needed:
                why = f"too few samples: {smallest} in a group, and {needed} are needed"
                metrics[name] = replace(metrics[name], low=None, high=None, no_interval=why, unless="")
            if drawn:
                replicates[name] = tuple(drawn)
            said.append(_sentence(name, metrics[name], groups, rates))
    whole = replace(result.whole, metrics=metrics, undefined=undefined, replicates=replicates)
    return replace(result, whole=whole), said


def measured(
    value: float, drawn: Sequence[float | None], confidence: float | None, num_samples: int, num_keys: float | None
) -> Measured:
    """A difference with its interval, whose lower end reaches further by what chance adds to the value: the largest of
    some shares is too large, and the least too small. Of equal groups the value is all chance; replicates then vary by
    theirs and by that of the samples, sqrt(2) times as much, and their mean exceeds the value by sqrt(2) - 1 of it.

    Args:
        drawn: the difference in each replicate.
        confidence: of the interval; None for none.
    """
    if confidence is None:
        return Measured(value=value, higher_is_better=False)
    found = interval(Value(value), drawn, confidence, num_samples=num_samples, num_keys=num_keys, value_range=SHARE)
    low, high = found.limits or (None, None)
    defined = [each for each in drawn if each is not None]
    if low is not None:
        low = max(0.0, low - max(0.0, sum(defined) / len(defined) - value) / (math.sqrt(2) - 1))
    return Measured(
        value=value, low=low, high=high, no_interval=found.why_none, unless=found.unless, higher_is_better=False
    )


def _gap(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _replicates(groups: Sequence[Slice], rates: Sequence[str]) -> int:
    return min(len(each.replicates.get(rate, ())) for each in groups for rate in rates)


def _drawn(groups: Sequence[Slice], rates: Sequence[str], number: int) -> float | None:
    found: list[float] = []
    for rate in rates:
        values = [each.replicates[rate][number] for each in groups]
        there = [each for each in values if each is not None]
        if len(there) < len(values):
            return None
        found.append(_gap(there))
    return max(found)


def _sentence(name: str, found: Measured, groups: Sequence[Slice], rates: Sequence[str]) -> str:
    parts: list[str] = []
    for rate in rates:
        ranked = sorted(groups, key=lambda each, rate=rate: each.metrics[rate].value)
        ends = (f"{each.metrics[rate].value:.1%} of {each.column}={each.value}" for each in (ranked[0], ranked[-1]))
        parts.append(f"{_RATES_IN_WORDS[rate]} are {' to '.join(ends)}")
    between = "" if found.low is None else f" ({found.low:.3g} to {found.high:.3g})"
    return f"{name.replace('_', ' ')}: {'; '.join(parts)}. The difference is {found.value:.3g}{between}; 0 is equal."
