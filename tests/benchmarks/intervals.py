"""Intervals: how often that of a metric holds the truth, by simulated test sets of models whose truth is known.

A simulated model gives a binary task the score sigmoid(sharpness * logit), where the logit is that of two normal
distributions `distance` apart: with sharpness 1 it is calibrated, with 2 too sure of itself. Its truths are those of
two million samples. A model of a number has normal errors, alike everywhere or larger where the target is far from 0.
Every test set is counted and its intervals are drawn as `evaluate` does (200 replicates, 95 %).

The rows give for each metric the lowest coverage over all models and sizes; the whole table goes to
build/intervals.txt, with the mean width and how many of the test sets had an interval at all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from zlib import crc32

import numpy as np

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record

TABLE = ROOT / "build" / "intervals.txt"
CONFIDENCE, LEAST, REPLICATES = 0.95, 0.93, 200
SIZES = (50, 357, 2000)
TRIALS, QUICK_TRIALS = 400, 20
METRICS = (
    "accuracy, balanced_accuracy, precision, recall, specificity, f1(average='macro'), mcc, cohen_kappa, "
    "auroc(resolution=10), average_precision(resolution=10), log_loss, brier, calibration_error"
)
REGRESSION_METRICS = "mse, rmse, mae, r2"
# Of so few test sets no coverage is told.
FEWEST_WITH_INTERVAL = 0.1


@dataclass(frozen=True)
class Model:
    """How the scores of a model come about."""

    name: str
    prevalence: float
    distance: float
    sharpness: float = 1.0

    def draw(self, size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Targets and scores, shape [size] each."""
        targets = random.random(size) < self.prevalence
        x = random.standard_normal(size) + self.distance * targets
        logit = self.distance * (x - self.distance / 2) + math.log(self.prevalence / (1 - self.prevalence))
        return targets.astype(np.int64), 1 / (1 + np.exp(-self.sharpness * logit))


@dataclass(frozen=True)
class Regression:
    """A model of a number, whose errors have the deviation `error + spread * |prediction|`."""

    name: str
    error: float
    spread: float = 0.0

    def draw(self, size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Targets and predictions, shape [size, 1] each."""
        predicted = random.standard_normal((size, 1))
        errors = random.standard_normal((size, 1)) * (self.error + self.spread * abs(predicted))
        return predicted + errors, predicted


MODELS: tuple[Model | Regression, ...] = (
    Model("accuracy 0.7", 0.5, 1.05),
    Model("accuracy 0.9", 0.5, 2.56),
    Model("accuracy 0.99", 0.5, 4.65),
    Model("accuracy 0.999", 0.5, 6.18),
    Model("accuracy 0.99, too sure", 0.5, 4.65, 2.0),
    Model("1 in 10", 0.1, 2.5),
    Model("1 in 50", 0.02, 3.0),
    Model("1 in 50, too sure", 0.02, 3.0, 2.0),
    Regression("errors alike", 0.5),
    Regression("errors that grow", 0.2, 0.6),
)

# Metric -> value, low, high (NaN: no interval).
Found = dict[str, tuple[float, float, float]]


def records(bench: Bench) -> Iterator[Record]:
    trials = QUICK_TRIALS if bench.quick else TRIALS
    models = MODELS[2:7:4] if bench.quick else MODELS
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        truths = dict(zip(models, pool.map(truth, models), strict=True))
        cells = list(product(models, SIZES[:1] if bench.quick else SIZES))
        found: dict[tuple[Model | Regression, int], list[Found]] = {cell: [] for cell in cells}
        parts = [(model, size, part) for model, size in cells for part in range(trials // 20)]
        for number, (part, results) in enumerate(zip(parts, pool.map(simulated, parts), strict=True)):
            found[part[:2]] += results
            if number % 50 == 0:
                bench.progress(f"intervals: {number * 20:,} of {len(parts) * 20:,} test sets")
    lines: list[str] = []
    lowest: dict[str, tuple[float, str]] = {}
    for (model, size), results in found.items():
        for metric, true in truths[model].items():
            told = [one[metric] for one in results if metric in one and not math.isnan(one[metric][1])]
            share = len(told) / len(results)
            if share < FEWEST_WITH_INTERVAL:
                lines.append(f"{model.name:24} {size:5} {metric:18} {true:7.4f}  too few samples")
                continue
            holds = sum(low <= true <= high for _, low, high in told) / len(told)
            outside = sum(not low <= value <= high for value, low, high in told)
            width = sum(high - low for _, low, high in told) / len(told)
            lines.append(
                f"{model.name:24} {size:5} {metric:18} {true:7.4f}  {holds:.3f}  {width:.4f}  {share:4.0%}  {outside}"
            )
            lowest[metric] = min(lowest.get(metric, (2.0, "")), (holds, f"{model.name}, n={size}"))
    TABLE.parent.mkdir(exist_ok=True)
    head = f"{'MODEL':24} {'N':>5} {'METRIC':18} {'TRUTH':>7}  HOLDS  WIDTH   WITH ONE  VALUE OUTSIDE\n"
    TABLE.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    for metric, (holds, where) in sorted(lowest.items()):
        yield Record(
            name=f"intervals: {metric}, lowest coverage of {CONFIDENCE:.0%} intervals",
            unit="share",
            ours=holds,
            target=None if bench.quick else LEAST,
            better="higher",
            note=f"{where}; {trials} test sets each; all in {TABLE.relative_to(ROOT)}",
        )


def truth(model: Model | Regression) -> dict[str, float]:
    """What each metric is of very many samples; of a calibrated model the calibration error is 0."""
    found = {name: value for name, (value, _, _) in measured(model, 2_000_000, 0, replicates=0).items()}
    return found | ({"calibration_error": 0.0} if isinstance(model, Model) and model.sharpness == 1 else {})


def simulated(part: tuple[Model | Regression, int, int]) -> list[Found]:
    model, size, number = part
    return [measured(model, size, 1 + 20 * number + each, replicates=REPLICATES) for each in range(20)]


def measured(model: Model | Regression, size: int, seed: int, *, replicates: int) -> Found:
    import torch

    from drivetrain.training.metric import Samples, Task, load_metrics
    from drivetrain.training.metric_states.accumulator import Accumulator
    from drivetrain.training.metric_states.result import Bootstrap
    from drivetrain.training.process import Process

    torch.set_num_threads(1)
    task, asked = (
        (Task("binary", 2), METRICS) if isinstance(model, Model) else (Task("regression", 1), REGRESSION_METRICS)
    )
    targets, answers = model.draw(size, np.random.default_rng([seed, size, crc32(model.name.encode())]))
    drawn = Bootstrap(replicates=replicates, seed=seed, confidence=CONFIDENCE) if replicates else None
    alone = Process(0, 1, 0, 1, torch.device("cpu"))
    counting = Accumulator(alone, task, load_metrics(asked, task), num_rows=size, bootstrap=drawn)
    if isinstance(model, Model):
        right = np.where(targets == 1, answers, 1 - answers)
        losses, predicted = -np.log(np.clip(right, 1e-12, 1)), (answers >= 0.5).astype(np.int64)
        samples = Samples(losses=losses, targets=targets, scores=answers, predicted=predicted)
    else:
        samples = Samples(losses=((targets - answers) ** 2)[:, 0], targets=targets, predicted=answers)
    counting.update(np.arange(size), samples)
    whole = counting.finish().whole
    nothing = math.nan
    return {
        name: (one.value, nothing if one.low is None else one.low, nothing if one.high is None else one.high)
        for name, one in whole.metrics.items()
    }
