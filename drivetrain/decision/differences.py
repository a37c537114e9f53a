"""How far a candidate's numbers lie from the champion's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drivetrain.base.errors import InputError
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.pairs import (
    FEW,
    SKEWED,
    Interval,
    chance,
    discordant,
    fewest,
    most_losses,
    paired,
    reach,
    sign_test,
    skewed_reach,
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A metric's difference candidate - champion. `bound` is how far the true one may lie beside it for the errors of
    both values.

    `defined` is the number of replicates that define it, None where there are no replicates; `interval` is None where
    there are none, or too few.
    """

    metric: str
    slice: str
    candidate: float
    champion: float
    value: float
    bound: float
    samples: int
    independent: int
    """As many samples that vary by themselves tell as much: fewer where samples share keys."""
    higher_is_better: bool | None
    defined: int | None
    interval: Interval | None

    @property
    def gain(self) -> float:
        """The difference in the direction in which the metric is better; of one without a direction, 0."""
        return 0.0 if self.higher_is_better is None else self._oriented(self.value)

    def surest_gain(self, level: float) -> float | None:
        """What is gained at least, where that may be wrong with a probability of `level`; the errors of both values are
        taken off. Without replicates, of the value itself; None where too few replicates define it."""
        interval = self.interval
        if interval is None:
            return self.gain - self.bound if self.defined is None else None
        least = self.gain - interval.bound
        if interval.deviation:
            least -= self._reach(level, interval) * interval.deviation
        if level >= (1 - interval.confidence) / 2:
            least = min(least, self._oriented(interval.low if self.higher_is_better else interval.high))
        return least - self.bound

    def _reach(self, level: float, interval: Interval) -> float:
        """In deviations. Of a share of samples the sign test takes care of what is skewed."""
        if self.discordant is not None:
            return reach(level, min(interval.replicates, self.independent))
        return skewed_reach(level, interval.replicates, self.independent, self._oriented(interval.skewness))

    def surest_loss(self, level: float) -> float | None:
        """What is lost at most, as `surest_gain`. Where the models differ on few samples of a share, or on none, it
        is as many losses as chance allows."""
        gained = self.surest_gain(level)
        found = self._discordant(self.samples)
        if gained is None or self.interval is None or found is None:
            return None if gained is None else -gained
        if self.independent < self.samples and (not self.interval.deviation or abs(self.interval.skewness) > SKEWED):
            # Few keys decide, and each has many samples.
            found = self._discordant(self.independent)
            assert found is not None  # as in samples
        if sum(found) >= FEW:
            return -gained
        return max(-gained, most_losses(found[1], level) / self.independent)

    def chance(self, allowed: float = 0.0) -> float | None:
        """How often chance alone makes the candidate look so much worse, where it is worse by `allowed`; None without
        replicates."""
        if self.interval is None:
            return None
        loss = self.bound - self.gain - allowed
        found = chance(loss, self.interval.deviation, min(self.interval.replicates, self.independent))
        return found if self.discordant is None else max(found, sign_test(*reversed(self.discordant)))

    @property
    def discordant(self) -> tuple[int, int] | None:
        """Samples on which only the candidate is right, and on which only the champion; None where the metric is no
        share of samples."""
        return self._discordant(self.samples)

    def _discordant(self, units: int) -> tuple[int, int] | None:
        """As `discordant`, counted in `units` of equal size that the samples are made of."""
        if self.interval is None or self.higher_is_better is None:
            return None
        if not all(0 <= value <= 1 for value in (self.candidate, self.champion)):
            return None
        found = discordant(self.candidate, self.champion, self.samples, self.interval.deviation, units)
        return found if found is None or self.higher_is_better else (found[1], found[0])

    @property
    def share_better(self) -> float | None:
        """The share of the replicates in which the candidate is surely the better one."""
        if self.interval is None or self.higher_is_better is None:
            return None
        return self.interval.share_greater if self.higher_is_better else self.interval.share_less

    def _oriented(self, difference: float) -> float:
        return difference if self.higher_is_better else -difference


def differences(candidate: Evaluation, champion: Evaluation, confidence: float) -> Iterator[Difference]:
    """Of every metric that both have: on the whole test set first, then on each slice."""
    for name, ours in candidate.groups.items():
        theirs = champion.groups[name]
        for metric, value in ours.metrics.items():
            if metric in theirs.metrics:
                replicates = (ours.replicates.get(metric), theirs.replicates.get(metric))
                bound = ours.bounds.get(metric, 0.0) + theirs.bounds.get(metric, 0.0)
                values = (value, theirs.metrics[metric])
                yield _difference(metric, name, values, ours, replicates, confidence, bound)


def _difference(
    metric: str,
    name: str,
    values: tuple[Measured, Measured],
    group: Group,
    replicates: tuple[Sequence[float | None] | None, Sequence[float | None] | None],
    confidence: float,
    bound_of_replicates: float,
) -> Difference:
    ours, theirs = values
    interval: Interval | None = None
    defined: int | None = None
    if replicates[0] is not None and replicates[1] is not None:
        interval, defined = paired(replicates[0], replicates[1], confidence, bound_of_replicates)
    return Difference(
        metric=metric,
        slice=name,
        candidate=ours.value,
        champion=theirs.value,
        value=ours.value - theirs.value,
        bound=ours.bound + theirs.bound,
        samples=group.num_samples,
        independent=group.num_samples if group.num_keys is None else int(group.num_keys),
        higher_is_better=ours.higher_is_better,
        defined=defined,
        interval=interval,
    )


def check_comparable(candidate: Evaluation, champion: Evaluation, confidence: float) -> None:
    """Refuse to compare what was not measured on the same samples, slices and replicates.

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
    if candidate.resampling is not None and candidate.resampling.replicates < fewest(confidence):
        raise InputError(
            f"{candidate.resampling.replicates} bootstrap replicates are too few for an interval at confidence "
            f"{confidence:g}: it needs {fewest(confidence)}. Evaluate with bootstrap={fewest(confidence)} or more, or "
            "with bootstrap=0 to decide on the values alone."
        )


def _slices(evaluation: Evaluation) -> str:
    return ", ".join(sorted(name for name in evaluation.groups if name))


def _bootstrap(evaluation: Evaluation) -> str:
    drawn = evaluation.resampling
    return "" if drawn is None else f"{drawn.replicates} replicates of seed {drawn.seed} by {drawn.by}"
