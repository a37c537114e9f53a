"""How far the median and the 90 % quantile of a candidate's absolute error lie from the champion's.

Order statistics enclose each quantile, whatever the distribution is. The interval of their difference follows from both
intervals and the correlation between the models of "the row lies below the quantile" (G. Zou, A. Donner: Construction
of Confidence Limits About Effect Measures, 2008). Two rows that lie below for one model alone are added to that count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from drivetrain.base.order_statistics import enclosing
from drivetrain.data.arrow import numpy
from drivetrain.decision.deciding import Decision
from drivetrain.decision.evaluation import ALL, Evaluation
from drivetrain.decision.row_forms import Mean

METRIC = "mae"
QUANTILES = {"median": 0.5, "quantile_90": 0.9}


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """A quantile of both models. `low` and `high` are those of the difference; None where rows are too few, or share
    keys."""

    name: str
    candidate: float
    champion: float
    low: float | None = None
    high: float | None = None


def quantiles_of(decision: Decision) -> tuple[Quantiles, ...]:
    """Quantiles of the absolute errors of a decision's models; empty without a champion that was evaluated."""
    champion = decision.champion and decision.champion.evaluation
    return absolute_errors(decision.candidate, champion, decision.policy.confidence) if champion else ()


def absolute_errors(candidate: Evaluation, champion: Evaluation, confidence: float) -> tuple[Quantiles, ...]:
    """Quantiles on the whole test set; empty if the rows hold no absolute errors."""
    errors: list[Any] = []
    for one in (candidate, champion):
        rows = one.evidence
        form = None if rows is None else rows.forms.get(METRIC)
        # (Of several outputs it is an average.)
        values = rows.values(METRIC) if rows is not None and isinstance(form, Mean) else None
        if values is None or not len(values):
            return ()
        errors.append(values)
    alone = candidate.groups[ALL].num_keys is None
    return tuple(_quantiles(name, share, errors[0], errors[1], confidence, alone) for name, share in QUANTILES.items())


def _quantiles(name: str, share: float, ours: Any, theirs: Any, confidence: float, alone: bool) -> Quantiles:
    np = numpy()
    values = [float(np.quantile(errors, share)) for errors in (ours, theirs)]
    ends = enclosing(len(ours), share, confidence) if alone else None
    if ends is None:
        return Quantiles(name=name, candidate=values[0], champion=values[1])
    (low, high), (other_low, other_high) = ([float(np.sort(each)[rank]) for rank in ends] for each in (ours, theirs))
    both = _correlation(ours <= values[0], theirs <= values[1])
    difference = values[0] - values[1]
    below = _apart(values[0] - low, other_high - values[1], both)
    above = _apart(high - values[0], values[1] - other_low, both)
    return Quantiles(
        name=name, candidate=values[0], champion=values[1], low=difference - below, high=difference + above
    )


def _apart(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one + other * other - 2 * correlation * one * other))


def _correlation(ours: Any, theirs: Any) -> float:
    """The correlation of the two models' rows below their quantiles, at least 0."""
    count, both = len(ours) + 2, int((ours & theirs).sum()) / (len(ours) + 2)
    one, other = (int(each.sum()) + 1 for each in (ours, theirs))
    spread = math.sqrt(one * (count - one) * other * (count - other)) / count**2
    return max(0.0, (both - one * other / count**2) / spread) if spread else 0.0
