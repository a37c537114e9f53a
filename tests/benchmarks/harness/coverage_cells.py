"""What the coverage bench simulates: test sets of models whose truth is known, and the product's intervals on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from zlib import crc32

import numpy as np

from drivetrain.base.order_statistics import enclosing
from drivetrain.decision.absolute_errors import QUANTILES, absolute_errors
from drivetrain.decision.differences import evidence
from drivetrain.decision.evaluation import Evaluation, Group, Measured
from drivetrain.decision.intervals import of_share
from drivetrain.decision.row_forms import Average, Is, Mean, Ranking, Share
from drivetrain.decision.rows import Rows

CONFIDENCE = 0.95
SIZES = (50, 357, 2000)
REPLICATES = 200
TRUTH_SIZE = 1_000_000
# (won, lost): shares of the rows on which one model alone is right.
RATES = tuple((won / 400, lost / 200) for lost in range(7) for won in range(25))
SHARES = (0.5, 0.7, 0.9, 0.95, 0.99, 0.995, 0.999)
VALUES = (
    "accuracy, balanced_accuracy, precision, recall, specificity, f1(average='macro'), mcc, cohen_kappa, "
    "auroc(resolution=12), average_precision(resolution=12)"
)


@dataclass(frozen=True)
class Cell:
    """What is simulated, on how many rows."""

    what: str
    """`difference of f1`: the rows of the table of records."""
    model: str
    size: int
    held: bool = True
    """It must hold; of tails that no interval of a mean can know the figure is told."""
    printed: bool = False
    """It must be there, too."""


@dataclass(frozen=True)
class Found:
    cell: Cell
    draws: int
    printed: float
    """Share of the draws that have an interval,"""
    holds: float
    """and of those the share whose interval holds the truth."""
    width: float

    @property
    def at_most(self) -> float:
        """The upper end of the coverage's 99 % interval; of what was enumerated the coverage itself."""
        count = round(self.printed * self.draws)
        if not self.draws or not count:
            return self.holds
        from drivetrain.training.metric_states.uncertainty.intervals import clopper_pearson

        return clopper_pearson(round(self.holds * count), count, 0.99)[1]


@dataclass(frozen=True)
class Models:
    """Two models of two classes: which share of the rows is of class 1, how far apart their scores lie, and how closely
    the two models' scores go together."""

    prevalence: float
    distance: float
    correlation: float

    @property
    def name(self) -> str:
        return f"{self.prevalence:g} of class 1, {self.distance:g} apart, scores correlate by {self.correlation:g}"

    def draw(self, size: int, random: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
        """Targets, and the score (a logit) of each model."""
        targets = random.random(size) < self.prevalence
        shared = random.standard_normal(size)
        scores: list[np.ndarray] = []
        for distance in (self.distance, 0.95 * self.distance):
            own = random.standard_normal(size)
            x = distance * targets + self.correlation * shared + math.sqrt(1 - self.correlation**2) * own
            scores.append(distance * (x - distance / 2) + math.log(self.prevalence / (1 - self.prevalence)))
        return targets, scores


MODELS = (
    Models(0.5, 1.05, 0.9),
    Models(0.5, 2.56, 0.9),
    Models(0.5, 2.56, 0.99),
    Models(0.5, 4.65, 0.9),
    Models(0.1, 2.5, 0.9),
    Models(0.1, 2.5, 0.99),
    Models(0.02, 3.0, 0.9),
)
_LIGHT = ("normal", "laplace", "t5")
TAILS: dict[str, tuple[Callable[[int, np.random.Generator], np.ndarray], float, float]] = {
    "normal": (lambda size, random: random.standard_normal(size), 0.0, 1.0),
    "laplace": (lambda size, random: random.laplace(size=size), 0.0, 2.0),
    "t5": (lambda size, random: random.standard_t(5, size), 0.0, 5 / 3),
    "t3": (lambda size, random: random.standard_t(3, size), 0.0, 3.0),
    "lognormal": (lambda size, random: np.exp(random.standard_normal(size)), math.exp(0.5), math.exp(2)),
    "1 in 200 thirty times larger": (
        lambda size, random: random.standard_normal(size) * np.where(random.random(size) < 1 / 200, 30, 1),
        0.0,
        1 + 899 / 200,
    ),
}
"""Errors, their mean, and that of their squares."""


class Counter:
    """Counts, cell by cell, what is printed and what holds."""

    def __init__(self, draws: int) -> None:
        self._draws = draws
        self._found: dict[Cell, list[float]] = {}

    def add(self, cell: Cell, limits: tuple[float, float] | None, truth: float) -> None:
        counts = self._found.setdefault(cell, [0, 0, 0.0])
        if limits is not None:
            counts[0] += 1
            counts[1] += limits[0] <= truth <= limits[1]
            counts[2] += limits[1] - limits[0]

    def found(self) -> list[Found]:
        return [
            Found(cell, self._draws, printed / self._draws, holds / max(1, printed), width / max(1, printed))
            for cell, (printed, holds, width) in self._found.items()
        ]


def of_pairs(size: int) -> list[Found]:
    """Differences of shares of the same rows: all counts of rows won and lost."""
    found: list[Found] = []
    limits = cache(lambda won, lost: (of_share(won, lost, size).low(0.025), of_share(won, lost, size).high(0.025)))
    for won, lost in RATES:
        holds = width = 0.0
        for (wins, p), (losses, q) in (
            (one, other) for one in _binomial(size, won) for other in _binomial(size - one[0], lost / (1 - won))
        ):
            low, high = limits(wins, losses)
            width += p * q * (high - low)
            holds += p * q * (low <= won - lost <= high)
        cell = Cell("difference of a share", f"won {won:.1%}, lost {lost:.1%}", size, printed=size == SIZES[-1])
        found.append(Found(cell, 0, 1.0, holds, width))
    return found


def of_shares(size: int) -> list[Found]:
    """Values of shares: all counts of right rows."""
    from drivetrain.training.metric_states.uncertainty.intervals import clopper_pearson

    found: list[Found] = []
    for share in SHARES:
        holds = width = 0.0
        for right, p in _binomial(size, share):
            low, high = clopper_pearson(right, size, CONFIDENCE)
            holds, width = holds + p * (low <= share <= high), width + p * (high - low)
        cell = Cell("value of a share", f"{share:g}", size, printed=size == SIZES[-1])
        found.append(Found(cell, 0, 1.0, holds, width))
    return found


@cache
def _binomial(trials: int, share: float) -> list[tuple[int, float]]:
    """Counts and their probabilities, but for those that make up less than 1e-12."""
    if not 0 < share < 1:
        return [(round(trials * share), 1.0)]
    counts = np.arange(trials + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    p = np.exp(logs[-1] - logs[counts] - logs[::-1] + counts * math.log(share) + (trials - counts) * math.log1p(-share))
    return [(int(count), float(p[count])) for count in np.flatnonzero(p > 1e-12 / (trials + 1))]


# Differences and values of two classes.


def of_models(models: Models, size: int, draws: int) -> list[Found]:
    random = np.random.default_rng([1, size, crc32(models.name.encode())])
    targets, scores = models.draw(TRUTH_SIZE, np.random.default_rng([2, crc32(models.name.encode())]))
    truths = {name: one[0] - one[1] for name, one in _values([_rows(targets, each) for each in scores]).items()}
    areas = [NormalDist().cdf(distance / math.sqrt(2)) for distance in (models.distance, 0.95 * models.distance)]
    truths["auroc"] = areas[0] - areas[1]
    counter, last = Counter(draws), size == SIZES[-1]
    for _ in range(draws):
        targets, scores = models.draw(size, random)
        pair = [_rows(targets, each) for each in scores]
        for metric, truth in truths.items():
            must = last and metric in ("accuracy", "auroc", "log_loss")
            cell = Cell(f"difference of {metric}", models.name, size, held=True, printed=must)
            counter.add(cell, _difference(pair, metric), truth)
    return counter.found() + of_values(models, size, draws)


def _rows(targets: np.ndarray, scores: np.ndarray) -> Rows:
    predicted = scores >= 0
    losses = np.logaddexp(0, np.where(targets, -scores, scores))
    columns = [targets.astype(np.uint8), predicted.astype(np.uint8), (targets == predicted).astype(np.uint8)]
    one = Share((Is(0), Is(1)), (Is(0), Is(1)), "twice")
    other = Share((Is(0, 0), Is(1, 0)), (Is(0, 0), Is(1, 0)), "twice")
    return Rows(
        keys=np.arange(len(targets), dtype=np.uint64),
        keyed=False,
        columns=[*columns, scores, losses],
        forms={
            "accuracy": Share((Is(2),)),
            "precision": Share((Is(0), Is(1)), (Is(1),)),
            "recall": Share((Is(0), Is(1)), (Is(0),)),
            "f1": one,
            "f1_macro": Average((one, other), ((), ())),
            "auroc": Ranking(3, Is(0)),
            "log_loss": Mean(4),
        },
    )


def _values(pair: list[Rows]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for rows in pair:
        for metric in rows.forms:
            values = rows.values(metric)
            assert values is not None
            found.setdefault(metric, []).append(float(values.mean()))
    return found


def _difference(pair: list[Rows], metric: str) -> tuple[float, float] | None:
    """compare's interval."""
    estimate = evidence(_report(pair[0], metric), _report(pair[1], metric), metric, "").estimate
    tail = (1 - CONFIDENCE) / 2
    return None if estimate is None else (estimate.low(tail), estimate.high(tail))


def _report(rows: Rows, metric: str) -> Evaluation:
    return Evaluation(
        source="",
        groups={"": Group(num_samples=rows.num_rows, metrics={metric: Measured(value=0.0)})},
        data_hash="",
        rows=rows.num_rows,
        key=None,
        model_hash="",
        settings={},
        resampling=None,
        evidence=rows,
    )


def of_values(models: Models, size: int, draws: int) -> list[Found]:
    """evaluate's closed forms."""
    from drivetrain.training.metric import Samples, UndefinedError, load_metrics
    from drivetrain.training.metric_states.table import Table, add
    from drivetrain.training.metric_states.tally_set import TallySet
    from drivetrain.training.metric_states.uncertainty.intervals import interval
    from drivetrain.training.task import Task

    task = Task("binary", 2)
    tallies = TallySet(task, load_metrics(VALUES, task))
    random = np.random.default_rng([3, size, crc32(models.name.encode())])

    def values(size: int, random: np.random.Generator) -> dict[str, tuple[float, tuple[float, float] | None]]:
        targets, (scores, _) = models.draw(size, random)
        shares = 1 / (1 + np.exp(-scores))
        samples = Samples(
            losses=np.zeros(size), targets=targets.astype(np.int64), scores=shares, predicted=(scores >= 0) * 1
        )
        tables = [Table(tally, np.zeros((1, tally.size), np.int64)) for tally in tallies.tallies]
        for table in tables:
            add(table, table.tally.count(samples), 2**62)
        found: dict[str, tuple[float, tuple[float, float] | None]] = {}
        for name in tallies.metrics:
            try:
                results = tallies.compute(name, [table.cells[0] for table in tables])
            except UndefinedError:
                continue
            for result, value in results.items():
                if math.isfinite(value.value):
                    found[result] = value.value, interval(value, (), CONFIDENCE, num_samples=size).limits
        return found

    truths = {name: one[0] for name, one in values(TRUTH_SIZE, np.random.default_rng(4)).items()}
    counter, last = Counter(draws), size == SIZES[-1]
    for _ in range(draws):
        found = values(size, random)
        for metric, truth in truths.items():
            must = last and metric in ("accuracy", "auroc")
            cell = Cell(f"value of {metric}", models.name, size, printed=must)
            counter.add(cell, found[metric][1] if metric in found else None, truth)
    return counter.found()


# Means of squared errors, and shares over keys.


def of_tails(tail: str, size: int, draws: int) -> list[Found]:
    """The mean squared error: its value, and the difference to that of a model whose errors are much alike."""
    from drivetrain.training.metric import Value
    from drivetrain.training.metric_states.uncertainty.intervals import interval

    draw, mean, squared = TAILS[tail]
    own, other = 0.95 * 0.9, 0.95 * math.sqrt(1 - 0.81)
    gap = (own**2 + other**2 - 1) * squared + 2 * own * other * mean**2
    random = np.random.default_rng([5, size, crc32(tail.encode())])
    light = tail in _LIGHT
    held = tail == "normal" or (tail == "laplace" and size >= 357) or (light and size == SIZES[-1])
    of_value, of_gap = (
        Cell(f"{what} of mse", tail, size, held=held, printed=light and size == SIZES[-1])
        for what in ("value", "difference")
    )
    counter = Counter(draws)
    for _ in range(draws):
        theirs = draw(size, random)
        ours = own * theirs + other * draw(size, random)
        weights = random.poisson(1.0, (REPLICATES, size)).astype(np.float32)
        replicates = (weights @ np.square(theirs).astype(np.float32) / weights.sum(axis=1)).tolist()
        value = Value(float(np.square(theirs).mean()))
        counter.add(of_value, interval(value, replicates, CONFIDENCE, num_samples=size).limits, squared)
        pair = [Rows.of({}, means={"mse": np.square(errors)}) for errors in (ours, theirs)]
        counter.add(of_gap, _difference(pair, "mse"), gap)
    return counter.found()


def of_keys(size: int, draws: int) -> list[Found]:
    """The difference of a share of rows of which one to five share a key, and are won or lost together or half."""
    random = np.random.default_rng([6, size])
    counter = Counter(draws)
    for won, lost in ((0.0, 0.0), (0.01, 0.0), (0.02, 0.02), (0.06, 0.03)):
        for together in (1.0, 0.5):
            cell = Cell("difference of a share, over keys", f"won {won:.0%}, lost {lost:.0%}, {together:.0%}", size)
            for _ in range(draws):
                keys = np.repeat(np.arange(size, dtype=np.uint64), random.integers(1, 6, size))
                drawn = random.random(size)[keys.astype(int)]
                part = random.random(len(keys)) < together
                both = random.random(len(keys)) < 0.9
                wins, losses = part & (drawn < won), part & (drawn >= won) & (drawn < won + lost)
                pair = [
                    Rows.of({"accuracy": (right, None)}, keys=keys)
                    for right in ((both | wins) & ~losses, (both | losses) & ~wins)
                ]
                counter.add(cell, _difference(pair, "accuracy"), (won - lost) * together)
    return counter.found()


def of_quantiles(size: int, draws: int) -> list[Found]:
    """Quantiles of the absolute error: values by enumeration, for any distribution; and differences."""
    found: list[Found] = []
    for name, share in QUANTILES.items():
        ends = enclosing(size, share, CONFIDENCE)
        holds = sum(p for below, p in _binomial(size, share) if ends and ends[0] < below <= ends[1])
        found.append(Found(Cell(f"value of {name}", "any", size), 0, float(ends is not None), holds, 0.0))
    counter = Counter(draws)
    for tail in ("normal", "t3"):
        random = np.random.default_rng([7, size, crc32(tail.encode())])
        many = [np.abs(errors) for errors in _pair(tail, TRUTH_SIZE, random)]
        truths = {
            name: float(np.quantile(many[0], share) - np.quantile(many[1], share)) for name, share in QUANTILES.items()
        }
        for _ in range(draws):
            pair = [Rows.of({}, means={"mae": np.abs(errors)}) for errors in _pair(tail, size, random)]
            for one in absolute_errors(_report(pair[0], "mae"), _report(pair[1], "mae"), CONFIDENCE):
                limits = None if one.low is None or one.high is None else (one.low, one.high)
                counter.add(Cell(f"difference of {one.name}", tail, size), limits, truths[one.name])
    return found + counter.found()


def _pair(tail: str, size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The errors of two models that err much alike."""
    draw = TAILS[tail][0]
    theirs = draw(size, random)
    return 0.95 * (0.9 * theirs + math.sqrt(1 - 0.81) * draw(size, random)), theirs
