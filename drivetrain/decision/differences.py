"""How far a candidate's numbers lie from the champion's, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import numpy
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.intervals import REPLICATES, UNLESS, Estimate, of_mean, of_replicates, of_share
from drivetrain.decision.row_forms import Average, Mean, Ranking, Share
from drivetrain.decision.rows import Paired, Rows, WonLost, check_same, paired, won_lost

LOSS = "loss"
FEWEST_ROWS = 200
"""A mean of losses or errors needs so many rows; so does what rows say nothing of,"""
FEWEST_OUTCOMES = 10
"""a share or a class so many rows that it is measured on, and a mean or a ranking so many on which the models differ: a
ranking of either side."""
FEWEST_KEYS = 15
"""The least number of keys of equal size for an interval, if rows share keys."""


class Interval(NamedTuple):
    """An interval of the difference candidate - champion."""

    low: float
    high: float
    confidence: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A metric's difference candidate - champion. `bound` is how far the true one may lie beside it for the errors of
    both values.

    Without an `estimate` nothing is known of chance. `why_none` says why, as a clause; it is empty where there are
    neither rows nor replicates, and then the values decide.
    """

    metric: str
    slice: str
    candidate: float
    champion: float
    value: float
    bound: float
    higher_is_better: bool | None
    confidence: float
    estimate: Estimate | None
    why_none: str = ""
    counts: WonLost | None = None
    """Samples on which the candidate alone is right, and on which the champion alone is; None where the metric is no
    share of the same samples."""

    @property
    def gain(self) -> float:
        """The difference in the direction in which the metric is better; of one without a direction, 0."""
        return 0.0 if self.higher_is_better is None else self._oriented(self.value)

    @property
    def interval(self) -> Interval | None:
        """At `confidence`, the errors of both values included."""
        if self.estimate is None:
            return None
        tail = (1 - self.confidence) / 2
        low, high = self.estimate.low(tail) - self.bound, self.estimate.high(tail) + self.bound
        return Interval(low, high, self.confidence, self.estimate.method)

    def surest_gain(self, level: float) -> float | None:
        """The smallest gain that holds but for a probability of `level`: the interval's end at that
        level. Where neither rows nor replicates are there it is the value's; None where these are too few."""
        if self.estimate is None:
            return None if self.why_none else self.gain - self.bound
        if self.higher_is_better:
            return self.estimate.low(level) - self.bound
        return -self.estimate.high(level) - self.bound

    def surest_loss(self, level: float) -> float | None:
        """The greatest loss, as `surest_gain`."""
        gained = self.surest_gain(level)
        return None if gained is None else -gained

    def chance(self, allowed: float = 0.0) -> float | None:
        """How often chance alone makes the candidate look so much worse, where it is worse by `allowed`; None without
        an estimate."""
        if self.estimate is None:
            return None
        losses = self.estimate.reversed if self.higher_is_better else self.estimate
        return losses.chance(allowed - self.bound)

    @property
    def unless(self) -> str:
        """The clause that says what the interval holds for: a mean of errors rests on what its rows show."""
        return "" if self.estimate is None or not self.estimate.of_errors else UNLESS

    def _oriented(self, difference: float) -> float:
        return difference if self.higher_is_better else -difference


def differences(candidate: Evaluation, champion: Evaluation, confidence: float) -> Iterator[Difference]:
    """Give the difference of every metric that both have: on the whole test set first, then on each slice."""
    other = {LOSS} if candidate.loss != champion.loss else set[str]()
    for name, group in candidate.groups.items():
        theirs = champion.groups[name].metrics
        for metric, ours in group.metrics.items():
            if metric in theirs and metric not in other:
                known = evidence(candidate, champion, metric, name)
                bounds = (group.bounds.get(metric, 0.0), champion.groups[name].bounds.get(metric, 0.0))
                of_replicates = known.estimate is not None and known.estimate.method == REPLICATES
                yield Difference(
                    metric=metric,
                    slice=name,
                    candidate=ours.value,
                    champion=theirs[metric].value,
                    value=ours.value - theirs[metric].value,
                    bound=ours.bound + theirs[metric].bound + (sum(bounds) if of_replicates else 0.0),
                    higher_is_better=ours.higher_is_better,
                    confidence=confidence,
                    estimate=known.estimate,
                    why_none=known.why_none,
                    counts=known.counts if ours.higher_is_better else _reversed(known.counts),
                )


def _reversed(counts: WonLost | None) -> WonLost | None:
    return None if counts is None else counts._replace(won=counts.lost, lost=counts.won)


def check_comparable(candidate: Evaluation, champion: Evaluation, metrics: Collection[str] = ()) -> None:
    """Refuse to compare what was not measured on the same samples, slices and replicates.

    Args:
        metrics: those that decide; `loss` is among them only if it is the same loss.

    Raises:
        InputError: naming what differs, on both sides.
    """
    for what, ours, theirs in (
        ("test sets", candidate.data_hash, champion.data_hash),
        ("numbers of rows", candidate.rows, champion.rows),
        ("numbers of samples", candidate.whole.num_samples, champion.whole.num_samples),
        ("keys of a sample", candidate.key, champion.key),
        ("slices", _slices(candidate), _slices(champion)),
        ("bootstraps", _bootstrap(candidate), _bootstrap(champion)),
    ):
        if ours != theirs:
            raise InputError(
                f"the candidate ({candidate.source}) and the champion ({champion.source}) were measured on different "
                f"{what}: {ours or 'none'}, and {theirs or 'none'}. Give compare the data on which the candidate was "
                "evaluated."
            )
    if LOSS in metrics and candidate.loss != champion.loss:
        ours, theirs = (one.loss or "the one of its recipe" for one in (candidate, champion))
        raise InputError(
            f"{LOSS} cannot be compared: the candidate's is {ours}, and the champion's is {theirs}. Decide by another "
            "metric, such as log_loss or mse."
        )
    if candidate.evidence is not None and champion.evidence is not None:
        check_same(candidate.evidence, champion.evidence)
    for one in (candidate, champion):
        if one.resampling is not None and one.evidence is None:
            raise InputError(
                f"{one.source} has no rows.npz, the results of each row: an earlier version of "
                "drivetrain wrote it. Evaluate the model again."
            )


def _slices(evaluation: Evaluation) -> str:
    return ", ".join(sorted(name for name in evaluation.groups if name))


def _bootstrap(evaluation: Evaluation) -> str:
    drawn = evaluation.resampling
    return "" if drawn is None else f"{drawn.replicates} replicates of seed {drawn.seed} by {drawn.by}"


class Evidence(NamedTuple):
    """An estimate, or a clause that says why it is missing: "" if there is no data for it."""

    estimate: Estimate | None
    why_none: str = ""
    counts: WonLost | None = None
    """Rows on which the candidate alone is right, and on which the champion alone is, for a share of the same rows."""


def evidence(candidate: Evaluation, champion: Evaluation, metric: str, name: str) -> Evidence:
    """Collect the evidence on the difference of a metric on a slice, "" for all rows."""
    ours, theirs = candidate.evidence, champion.evidence
    if ours is not None and theirs is not None and metric in ours.forms and metric in theirs.forms:
        return _by_rows(ours, theirs, metric, name)
    group, other = candidate.groups[name], champion.groups[name]
    drawn, drawn_too = group.replicates.get(metric), other.replicates.get(metric)
    if drawn is None or drawn_too is None:
        return Evidence(None)
    units = group.num_samples if group.num_keys is None else group.num_keys
    if group.num_keys is not None and units < FEWEST_KEYS:
        return Evidence(None, _few("keys", units, FEWEST_KEYS))
    if group.num_samples < FEWEST_ROWS:
        return Evidence(None, _few("samples", group.num_samples, FEWEST_ROWS))
    value = group.metrics[metric].value - other.metrics[metric].value
    found = of_replicates(value, drawn, drawn_too, units)
    return Evidence(found, "" if found else "too few replicates define it, or they do not vary")


def _by_rows(ours: Rows, theirs: Rows, metric: str, name: str) -> Evidence:
    units = paired(ours, theirs, metric, name, by_keys=ours.keyed)
    if units is None:
        return Evidence(None, "the rows do not define it")
    rows = int(units.sizes.sum())
    shared = len(units.sizes) < rows
    keys = rows**2 / float((units.sizes.astype(float) ** 2).sum()) if rows else 0.0
    counts = won_lost(ours, theirs, metric, name)
    if shared and keys < FEWEST_KEYS:
        return Evidence(None, _few("keys", keys, FEWEST_KEYS), counts)
    form = ours.forms[metric]
    fewest = FEWEST_ROWS if isinstance(form, Mean) else FEWEST_OUTCOMES
    if rows < fewest:
        return Evidence(None, _few("samples", rows, fewest), counts)
    if counts is not None and not shared:
        return Evidence(of_share(*counts), "", counts)
    most = 0.0
    if isinstance(form, Mean | Ranking):
        if few := _few_differ(ours, theirs, metric, name):
            return Evidence(None, few)
    else:
        most = _most(ours, theirs, metric, name, units, counts)
    value = float(units.differences.mean())
    found = of_mean(value, units.differences, most, keys - 1 if shared else None)
    if found is not None and isinstance(form, Mean):
        found = replace(found, of_errors=True)
    return Evidence(found, "" if found else "too few samples: all are right, or all are wrong", counts)


def _few_differ(ours: Rows, theirs: Rows, metric: str, name: str) -> str:
    """Why rows say too little of a mean or a ranking; "" where they say enough."""
    np = numpy()
    inside, positive = ours.members(name), ours.positive(metric, name)
    sides = [inside] if positive is None else [inside & positive, inside & ~positive]
    differ = 0
    for side in sides:
        there = int(side.sum())
        if there < FEWEST_OUTCOMES:
            return _few("samples on one side", there, FEWEST_OUTCOMES)
        own: list[Any] = []
        for rows in (ours, theirs):
            values = rows.values(metric, name)
            assert values is not None, "they are paired"
            # Where a row lies among those of the other side; of a mean, its own value.
            whole = float(values[inside].mean())
            own.append(whole + (values[side] - whole) * (there / int(inside.sum())))
        differ += int((np.abs(own[0] - own[1]) > 1e-12 * np.abs(own[0])).sum())
    return "" if differ >= FEWEST_OUTCOMES else _few("samples on which the models differ", differ, FEWEST_OUTCOMES)


def _most(ours: Rows, theirs: Rows, metric: str, name: str, units: Paired, counts: WonLost | None) -> float:
    """The most that one unit can change a share, or an average of shares: a key changes as many rows as it has."""
    np = numpy()
    inside = int(ours.members(name).sum())
    if counts is not None:
        widest = inside / counts.of
    else:
        both = [said for rows in (ours, theirs) if (said := rows.said(metric, name)) is not None]
        widest = max(float(np.ptp(said.changes)) for said in both)
        form = ours.forms[metric]
        if isinstance(form, Average) and all(isinstance(part, Share | Ranking) for part in form.parts):
            # One more row of a small class, all of whose rows may be right so far.
            parts = [part for said in both for part in said.rests]
            widest = max(widest, *(inside * part.weight / max(len(part.rows), 1) for part in parts))
    usual = math.sqrt(float((units.sizes.astype(float) ** 2).mean()))
    return widest * usual * len(units.sizes) / inside


def _few(things: str, there: float, needed: int) -> str:
    return f"too few {things}: {math.floor(there)}, and {needed} are needed"
