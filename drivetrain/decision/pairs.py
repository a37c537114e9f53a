"""The paired bootstrap: what replicates of two models on one test set say of their difference, and how sure that is.

Each replicate weighs the samples alike for both models, so that what makes a test set easy or hard falls out of the
difference. The interval is the percentile interval (B. Efron, R. Tibshirani: An Introduction to the Bootstrap, 1993,
chapter 13), quantiles interpolated linearly (type 7 of R. Hyndman, Y. Fan: Sample Quantiles, 1996).

A decision asks at levels that no 200 replicates reach. There Student's t with their standard deviation decides, after
a first-order term for their skewness (N. Johnson: Modified t Tests and Confidence Intervals for Asymmetrical
Populations, 1978): where a candidate that is mostly a little better is now and then much worse, its mean looks better
more often than t allows. Of shares of samples (accuracy) the exact sign test decides, of those on which one model is
right alone (Q. McNemar: Note on the Sampling Error of the Difference Between Correlated Proportions, 1947), where they
are few as where they are many.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where the difference candidate - champion lies.

    `share_greater` is the share of the replicates in which the candidate's value is the greater one, `share_less` that
    in which it is less: surely so, by more than `bound` (those that leave it open make up the rest). `left_out`
    replicates do not define the metric for one of the models. `bound` is how far at most a replicate's difference may
    lie from the true one; both ends have been moved outwards by it. `deviation` and `skewness` are the replicates'.
    """

    low: float
    high: float
    confidence: float
    replicates: int
    left_out: int
    share_greater: float
    share_less: float
    deviation: float
    skewness: float = 0.0
    bound: float = 0.0


FEW = 10
"""Samples on which two models differ: of fewer the bootstrap's deviation says too little."""
SKEWED = 0.3
"""Replicates of what fewer than ten keys or so decide have a larger skewness than this."""


def fewest(confidence: float) -> int:
    """Replicates without which an interval's ends would be its extremes: two beyond each end."""
    return math.ceil(4 / (1 - confidence) - 1e-9)


def paired(
    candidate: Sequence[float | None], champion: Sequence[float | None], confidence: float, bound: float = 0.0
) -> tuple[Interval | None, int]:
    """The interval of the difference, or None where too few replicates define it; and how many do.

    Args:
        candidate, champion: one value a replicate, in one order; None where it is undefined. A difference that is no
            64-bit number is left out, too.
        bound: how far at most a replicate's difference may lie from the true one.
    """
    differences = sorted(
        difference
        for ours, theirs in zip(candidate, champion, strict=True)
        if ours is not None and theirs is not None and math.isfinite(difference := ours - theirs)
    )
    used = len(differences)
    if used < fewest(confidence):
        return None, used
    tail = (1 - confidence) / 2
    # By a power of two, which rounds nothing: squares of very large differences are no 64-bit numbers.
    scale = math.ldexp(1.0, math.frexp(max(map(abs, differences)))[1] - 1)
    deviation = statistics.stdev([difference / scale for difference in differences]) * scale
    interval = Interval(
        low=quantile(differences, tail) - bound,
        high=quantile(differences, 1 - tail) + bound,
        confidence=confidence,
        replicates=used,
        left_out=len(candidate) - used,
        share_greater=sum(difference > bound for difference in differences) / used,
        share_less=sum(difference < -bound for difference in differences) / used,
        deviation=deviation,
        skewness=skewness(differences, deviation),
        bound=bound,
    )
    return interval, used


def skewness(values: Sequence[float], deviation: float) -> float:
    """The third standardized moment; 0 of values that do not vary."""
    if not deviation:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.fsum(((value - mean) / deviation) ** 3 for value in values) / len(values)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of ordered values, interpolated between neighbours; never outside of them."""
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    if len(ordered) == 1:
        return ordered[0]
    left, right = ordered[below], ordered[below + 1]
    return min(max(left + (place - below) * (right - left), left), right)


def reach(level: float, replicates: int) -> float:
    """How many standard deviations a difference must lie from 0 for chance to give that in one direction no more often
    than `level`: Student's t, for the deviation is itself known from so many replicates only; infinite where these are
    too few. (M. Abramowitz, I. Stegun: Handbook of Mathematical Functions, 1964, 26.7.8.)"""
    if replicates < 2:
        return math.inf
    z, degrees = NormalDist().inv_cdf(1 - level), replicates - 1
    left = (1 - 1 / (4 * degrees)) ** 2 - z * z / (2 * degrees)
    return math.copysign(math.sqrt(z * z / left), z) if left > 0 else math.inf


def skewed_reach(level: float, replicates: int, samples: int, skew: float) -> float:
    """As `reach`, for a mean over `samples` whose replicates have the skewness `skew` in the direction of the gain.

    A negative one asks for more; a positive one, which would ask for less, is taken for none. So many replicates say
    the skewness to within sqrt(6 / replicates): half of that is taken off, so that more of them ask for less.
    """
    found = reach(level, min(replicates, samples))
    skew = min(skew, 0.0) - math.sqrt(6 / replicates) / 2
    return found - skew * (2 * found**2 + 1) / 6


def chance(gain: float, deviation: float, replicates: int) -> float:
    """How often chance alone gives at least such a gain: the level at which `reach` is gain / deviation. Fewer than two
    replicates tell nothing from chance."""
    if replicates < 2:
        return 1.0
    if not deviation:
        return 0.0 if gain > 0 else 1.0
    t, degrees = gain / deviation, replicates - 1
    return NormalDist().cdf(-t * (1 - 1 / (4 * degrees)) / math.sqrt(1 + t * t / (2 * degrees)))


def discordant(
    ours: float, theirs: float, samples: int, deviation: float, units: int | None = None
) -> tuple[int, int] | None:
    """On how many samples only our model is right, and on how many only theirs; None where the values are no shares of
    the samples. With `units`: on how many of so many keys of equal size, whose samples are right or wrong together.

    Both follow from the difference, which is (wins - losses) / samples, and from the variance of its replicates, which
    is nearly (wins + losses) / samples^2.
    """
    counts = ours * samples, theirs * samples
    if samples < 1 or any(abs(count - round(count)) > 1e-6 for count in counts):
        return None
    units = units or samples
    net = round((round(counts[0]) - round(counts[1])) * units / samples)
    total = (units * deviation) ** 2 + net * net / units
    losses = max(0, round((total - abs(net)) / 2))
    return (losses + net, losses) if net >= 0 else (losses, losses - net)


def sign_test(wins: int, losses: int) -> float:
    """How often chance alone gives at least so many wins among them, where a win is as likely as a loss."""
    n = wins + losses
    if wins <= losses:
        return 1.0
    if n > 1000:  # with half a sample taken off, as exact as need be
        return NormalDist().cdf(-(wins - losses - 1) / math.sqrt(n))
    return sum(math.comb(n, most) for most in range(wins, n + 1)) / 2**n


def most_losses(losses: int, level: float) -> float:
    """How many losses are to be expected at most on such a test set, where `losses` were seen: more would give so few
    with a probability below `level` (Poisson's distribution)."""
    low, high = float(losses), losses + 50.0
    for _ in range(60):
        mean = (low + high) / 2
        so_few = math.exp(-mean) * sum(mean**k / math.factorial(k) for k in range(losses + 1))
        low, high = (mean, high) if so_few > level else (low, mean)
    return high


def rejected(chances: Sequence[float], level: float) -> list[bool]:
    """Which of several are more than chance, when all of them are looked at (S. Holm: A Simple Sequentially Rejective
    Multiple Test Procedure, 1979)."""
    found = [False] * len(chances)
    for number, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[place] > level / (len(chances) - number):
            break
        found[place] = True
    return found
