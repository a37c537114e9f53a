"""The interval of a metric: what another test set of the same size might have said.

A metric whose value has a known distribution gives its interval by `Value.limits`: shares of independent samples have
the exact interval of C. Clopper and E. Pearson ("The Use of Confidence or Fiducial Limits Illustrated in the Case of
the Binomial", 1934), and values computed from shares follow from theirs. The percentile interval of the bootstrap's
replicates alone is far too narrow for a share near 0 or 1 and for rare classes: no replicate has an error where the
samples have none. It widens the exact one where samples that share a key vary together.

Samples that share a key vary together, so the keys count, not the samples: every interval is then as wide as Student's
t for so many keys, and there is none for few keys. The replicates are useless for rare events, which their skewness
shows: then closed forms take each key for one sample.

All others are means, or nearly: Student's t by the deviation of the replicates, or where these are skewed its
transformation (P. Hall, "On the Removal of Skewness by Transformation", 1992), whichever reaches further on a side. It
holds as often as a bootstrap-t of 1,000 replicates, which needs a standard error in each. Neither can know of what did
not occur (`UNLESS`): a mean over few samples, or of losses that are large only where the model is wrong while it hardly
ever was, has no interval, and says so.

`make bench` simulates how often intervals hold the truth (tests/benchmarks/coverage.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from drivetrain.training.metric import ANY, Range, Value

Limits = tuple[float, float]

UNLESS = "if no rarer, larger errors exist than these samples show"
FEWEST_SAMPLES = 200
"""Without a closed form an interval needs so many samples,"""
FEWEST_OUTCOMES = 10
"""and of a classification so many that are wrong, and so many that are right."""
_SKEWED = 0.3
"""Replicates of something that occurs in fewer than ten keys or so have a larger skewness than this."""
FEWEST_KEYS = 15
"""The least number of keys for an interval, if samples share keys: see `keys_of_equal_size`."""


_worth = ContextVar("how many independent samples a sample is worth", default=1.0)


def worth() -> float:
    """As how many independent samples each counts in the closed form that is being asked for: 1, or fewer where samples
    share keys. Who counts samples in a closed form of its own multiplies by it."""
    return _worth.get()


class Interval(NamedTuple):
    """Both ends, or the reason that they are missing, as a clause."""

    limits: Limits | None
    why_none: str = ""
    unless: str = ""
    """The condition of the interval, as a clause: for a mean, what its samples show."""


def interval(
    value: Value,
    replicates: Sequence[float | None],
    confidence: float,
    *,
    num_samples: int,
    num_right: int | None = None,
    num_keys: float | None = None,
    bound: float = 0.0,
    value_range: Range = ANY,
) -> Interval:
    """The interval of a value.

    Args:
        replicates: the metric's value in each replicate; None where it is undefined.
        num_samples: the samples of the value.
        num_right: of a classification, samples whose prediction is right; None where that is not known.
        num_keys: as how many keys of equal size the samples vary; None where each varies by itself.
        bound: the largest distance of a replicate's value from the true one. Both ends are moved outwards by it.
        value_range: where the value can lie: the interval ends there.
    """
    least, most = value_range
    num_samples = num_samples if value.num_samples is None else value.num_samples
    if num_keys is not None and num_keys < FEWEST_KEYS:
        return Interval(None, f"too few keys: the samples vary as {num_keys:.0f} would, and {FEWEST_KEYS} are needed")
    defined = np.array([each for each in replicates if each is not None])
    each = 1.0 if num_keys is None else min(1.0, num_keys / num_samples)
    known = value.limits(confidence) if value.limits else None
    if known and value.limits and each < 1 and abs(_skewness(defined)) > _SKEWED:
        known = _widest(known, _as_keys(value.limits, confidence, each))
    if known:
        known = known[0] - value.bound, known[1] + value.bound
    if known is None:
        if num_samples < FEWEST_SAMPLES:
            return Interval(None, f"too few samples: {num_samples}, and {FEWEST_SAMPLES} are needed")
        if num_right is not None and (rarer := min(num_right, num_samples - num_right)) * each < FEWEST_OUTCOMES:
            of = "wrong" if rarer == num_samples - num_right else "right"
            rarer = math.floor(rarer * each)
            return Interval(None, f"too few samples: {rarer} with a {of} prediction, and {FEWEST_OUTCOMES} are needed")
    if len(defined) < 2 or (value.limits_suffice and num_keys is None):
        if known:
            return Interval((max(known[0], least), min(known[1], most)))
        return Interval(None, "too few replicates define it")
    if known is None and np.ptp(defined) == 0:
        return Interval(None, "too few samples: they do not vary")
    ends: list[float] = [value.value]
    if known:
        ends += [*known, *np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()]
    if known is None or num_keys is not None:
        units = num_samples if num_keys is None else min(num_samples, int(num_keys))
        ends += _of_mean(value, defined, confidence, units)
    low, high = min(ends), max(ends)
    if bound:
        low, high = math.nextafter(low - bound, -math.inf), math.nextafter(high + bound, math.inf)
    return Interval((max(low, least), min(high, most)), unless="" if known else UNLESS)


def keys_of_equal_size(num_samples: int, replicates: Sequence[int]) -> float | None:
    """As how many keys of equal size the samples vary, or None where that is as many as there are samples.

    The number of samples that Poisson draws by key give varies by the sum of the squares of the keys' sizes, so it is
    num_samples^2 over its variance (L. Kish, "Survey Sampling", 1965): 20 keys, one of them with half the samples, are
    worth 4. It is estimated from the replicates; None if it may be chance.

    Args:
        replicates: the number of samples in each.
    """
    variance = float(np.var(replicates, ddof=1)) if len(replicates) > 1 else 0.0
    if not variance:
        return None
    keys = num_samples**2 / variance
    return keys if keys * (1 + 4 * math.sqrt(2 / (len(replicates) - 1))) < num_samples else None


def _of_mean(value: Value, replicates: np.ndarray, confidence: float, num_samples: int) -> Limits:
    """`skewed`, on the scale on which the value is a mean."""
    number = float(value.value)
    if value.scale is not None:
        to, back = value.scale
        with np.errstate(over="ignore"):
            low, high = (back(end) for end in skewed(float(to(number)), to(replicates), confidence, num_samples))
        if math.isfinite(low) and math.isfinite(high):
            return low, high
    return skewed(number, replicates, confidence, num_samples)


def _as_keys(limits: Callable[[float], Limits], confidence: float, each: float) -> Limits:
    token = _worth.set(each)
    try:
        return limits(confidence)
    finally:
        _worth.reset(token)


def _widest(one: Limits, other: Limits) -> Limits:
    return min(one[0], other[0]), max(one[1], other[1])


def _skewness(values: np.ndarray) -> float:
    """The third standardized moment; infinite of values that do not vary."""
    deviation = float(values.std()) if len(values) else 0.0
    return float(((values - values.mean()) ** 3).mean()) / deviation**3 if deviation else math.inf


def skewed(value: float, replicates: np.ndarray, confidence: float, num_samples: int) -> Limits:
    """Around a value, by the standard deviation of its replicates: Student's t, or what it becomes by their skewness
    (Hall 1992), on each side whichever reaches further."""
    deviation = float(replicates.std(ddof=1))
    if not deviation:
        return value, value
    skewness = _skewness(replicates)
    reach = student((1 + confidence) / 2, min(num_samples, len(replicates)) - 1)
    below, above = (deviation * max(reach, side * _straightened(reach * side, skewness)) for side in (1, -1))
    return value - below, value + above


def _straightened(x: float, skewness: float) -> float:
    """The t whose transformation t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 is x."""
    x -= skewness / 6
    if abs(skewness) < 1e-6:
        return x
    return 3 * (math.cbrt(1 + skewness * x) - 1) / skewness


@lru_cache(maxsize=4096)
def student(share: float, degrees: int) -> float:
    """The quantile of Student's t, to 1e-4 from 10 degrees on (R. Fisher and E. Cornish, 1960)."""
    z, n = NormalDist().inv_cdf(share), float(degrees)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n**power for power, term in enumerate(terms, 1))


def share(successes: float, trials: float) -> Callable[[float], Limits]:
    """Limits of successes / trials."""
    return lambda confidence: clopper_pearson(successes * worth(), trials * worth(), confidence)


@lru_cache(maxsize=65536)
def clopper_pearson(successes: float, trials: float, confidence: float) -> Limits:
    """The exact interval of a share: it holds the true one at least as often as `confidence`."""
    tail = (1 - confidence) / 2
    low = beta_quantile(tail, successes, trials - successes + 1) if successes else 0.0
    high = 1 - beta_quantile(tail, trials - successes, successes + 1) if successes < trials else 1.0
    return low, high


def beta_quantile(share: float, a: float, b: float) -> float:
    """The quantile `share` of Beta(a, b), to 1e-12, by Newton's steps in a bracket."""
    low, high = 0.0, 1.0
    x = a / (a + b)
    for _ in range(200):
        error = beta_share(x, a, b) - share
        low, high = (low, x) if error > 0 else (x, high)
        density = math.exp(_log_front(x, a, b)) / (x * (1 - x))
        step = x - error / density if density else low
        before, x = x, step if low < step < high else (low + high) / 2
        if abs(x - before) <= 1e-12 * x:
            return x
    return x


def beta_share(x: float, a: float, b: float) -> float:
    """The distribution function of Beta(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_share(1 - x, b, a)
    # Lentz's method.
    fraction = d = 1 / (1 - (a + b) * x / (a + 1))
    c = 1.0
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            d, c = 1 / (1 + term * d), 1 + term / c
            change *= d * c
            fraction *= d * c
        if abs(change - 1) < 1e-14:
            break
    return math.exp(_log_front(x, a, b)) * fraction / a


def _log_front(x: float, a: float, b: float) -> float:
    """The logarithm of x^a (1 - x)^b / B(a, b)."""
    return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)


def mean_of(
    values: Sequence[float],
    each: Sequence[Callable[[float], Limits]],
    weights: Sequence[float],
    *,
    stretch: float = 1.0,
) -> Callable[[float], Limits]:
    """Limits of a weighted mean of independent values, from the limits of each: distances add as squares (G. Zou and
    A. Donner, "Construction of confidence limits about effect measures: A general approach", 2008).

    Args:
        weights: that add up to 1.
        stretch: the root of how many of the values a sample changes: they do not vary independently then. The interval
            is never wider than that of values which all move together.
    """

    def limits(confidence: float) -> Limits:
        mean = math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
        ends = [one(confidence) for one in each]
        reach: list[float] = []
        for side in (0, 1):
            gaps = [w * abs(v - end[side]) for w, v, end in zip(weights, values, ends, strict=True)]
            reach.append(min(math.fsum(gaps), stretch * math.sqrt(math.fsum(gap * gap for gap in gaps))))
        return mean - reach[0], mean + reach[1]

    return limits


def with_absent(value: float, limits: Callable[[float], Limits], there: int, classes: int) -> Callable[[float], Limits]:
    """Limits of a mean over `there` classes, where the truth is one over all `classes`: of those that do not occur
    among the samples anything between 0 and 1 may be true."""
    if there == classes:
        return limits

    def widened(confidence: float) -> Limits:
        low, high = limits(confidence)
        return min(value, low * there / classes), max(value, (high * there + classes - there) / classes)

    return widened


def area(value: float, positives: int, negatives: int) -> Callable[[float], Limits]:
    """Limits of an AUROC: where it is as far from the value as its standard error there allows (R. Newcombe,
    "Confidence intervals for an effect size measure based on the Mann-Whitney statistic. Part 2", 2006, method 5)."""

    def limits(confidence: float) -> Limits:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        ones, zeros = max(1.0, positives * worth()), max(1.0, negatives * worth())
        balanced = (ones + zeros) / 2 - 1

        def beyond(x: float) -> bool:
            spread = x * (1 - x) * (1 + balanced * (1 - x) / (2 - x) + balanced * x / (1 + x))
            return (value - x) ** 2 > z * z * spread / (ones * zeros)

        return _edge(0.0, value, beyond), _edge(1.0, value, beyond)

    return limits


def _edge(far: float, near: float, beyond: Callable[[float], bool]) -> float:
    """The point between two others at which `beyond` ends, taken on the far side."""
    for _ in range(60):
        middle = (far + near) / 2
        far, near = (middle, near) if beyond(middle) else (far, middle)
    return near if near != far else far
