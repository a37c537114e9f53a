"""How far a candidate's numbers lie from the champion's, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.evidence import evidence
from drivetrain.decision.intervals import REPLICATES, UNLESS, Estimate
from drivetrain.decision.rows import WonLost, check_same

LOSS = "loss"


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
