"""Fairness by group: how far groups of a column lie apart in what a binary model does to them at its threshold.

    demographic_parity_<column>   the largest less the least share of a group that is taken for class 1
    equalized_odds_<column>       the larger of two such differences: of the true and of the false positive rates

Both are fairlearn's demographic_parity_difference and equalized_odds_difference (M. Hardt, E. Price, N. Srebro,
"Equality of Opportunity in Supervised Learning", 2016). They are made of the slices' rates (metrics/rates.py), in each
replicate, too, by which models are compared.

The interval is that of all groups at once: the exact ones of the rates (Clopper and Pearson), each for its part of the
chance to err, hold the true rates together (Bonferroni), and so the differences that these allow hold the true one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drivetrain.training.metric_states.result import Evaluation, Measured, Slice
from drivetrain.training.metric_states.uncertainty.intervals import clopper_pearson

PARITY, ODDS = "demographic_parity", "equalized_odds"
RATES: Mapping[str, tuple[str, ...]] = {
    PARITY: ("rates_selected",),
    ODDS: ("rates_true_positive", "rates_false_positive"),
}
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
            metrics[name] = measured(groups, rates, result.bootstrap.confidence if result.bootstrap else None)
            drawn = [_drawn(groups, rates, number) for number in range(_replicates(groups, rates))]
            if drawn:
                replicates[name] = tuple(drawn)
            said.append(_sentence(name, metrics[name], groups, rates))
    whole = replace(result.whole, metrics=metrics, undefined=undefined, replicates=replicates)
    return replace(result, whole=whole), said


def measured(groups: Sequence[Slice], rates: Sequence[str], confidence: float | None) -> Measured:
    """The largest difference of one of the rates between two groups, with its interval. Samples that share keys count
    as many as there are keys.

    Args:
        confidence: of the interval; None for none.
    """
    value = max(_gap([each.metrics[rate].value for each in groups]) for rate in rates)
    if confidence is None:
        return Measured(value=value, higher_is_better=False)
    each_one = 1 - (1 - confidence) / (len(groups) * len(rates))
    low = high = 0.0
    for rate in rates:
        ends: list[tuple[float, float]] = []
        for group in groups:
            found = group.metrics[rate]
            worth = 1.0 if group.num_keys is None else min(1.0, group.num_keys / group.num_samples)
            trials = (group.num_samples if found.num_samples is None else found.num_samples) * worth
            ends.append(clopper_pearson(found.value * trials, trials, each_one))
        lows, highs = zip(*ends, strict=True)
        low, high = max(low, max(lows) - min(highs)), max(high, max(highs) - min(lows))
    return Measured(value=value, low=low, high=high, higher_is_better=False)


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
