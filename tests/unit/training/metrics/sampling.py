"""Samples of each kind of task, and what a metric makes of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from drivetrain.training.metric import Ints, Metric, Samples
from drivetrain.training.task import Kind, Task


def metric(name: str, **options: Any) -> Any:
    """The metric of a file."""
    return importlib.import_module(f"drivetrain.training.metrics.{name}").Metric(**options)


def counted(metric: Metric, task: Task, samples: Samples) -> dict[str, Ints]:
    """What the tallies come to, sample by sample."""
    found: dict[str, Ints] = {}
    for name, tally in metric.tallies(task).items():
        cells, amounts = tally.count(samples)
        sums = np.zeros(tally.size, np.int64)
        np.add.at(sums, cells, 1 if amounts is None else amounts)
        found[name] = sums
    return found


def values(metric: Metric, task: Task, samples: Samples) -> dict[str, float]:
    """The values alone."""
    return {name: value.value for name, value in metric.compute(task, counted(metric, task, samples)).items()}


def take(samples: Samples, rows: Any) -> Samples:
    """Some of the samples."""
    arrays: Mapping[str, Any] = {
        name: None if array is None else array[rows]
        for name, array in (
            ("losses", samples.losses),
            ("targets", samples.targets),
            ("scores", samples.scores),
            ("predicted", samples.predicted),
        )
    }
    texts = None
    if samples.texts is not None:
        said, right = (np.array(each, dtype=object)[rows].tolist() for each in samples.texts())
        texts = lambda: (said, right)  # noqa: E731
    return Samples(**arrays, values={name: array[rows] for name, array in samples.values.items()}, texts=texts)


def samples_of(kind: Kind, seed: int, num_samples: int, num_classes: int, *, occur: int = 8, step: int = 0) -> Samples:
    """Random samples.

    Args:
        occur: only so many classes are targets.
        step: scores are rounded to multiples of 1 / step, so that many are the same; 0 for all their digits.
    """
    random = np.random.default_rng(seed)
    losses = random.exponential(size=num_samples)
    most = max(1, min(occur, num_classes))
    if kind == "values":
        own, words = random.random(num_samples), random.integers(0, 4, (2, num_samples, 6))
        return Samples(losses=losses, values={"own": own}, texts=lambda: (texts(words[0]), texts(words[1])))
    if kind == "regression":
        targets = random.normal(size=(num_samples, num_classes)) * 10.0 ** random.integers(-3, 4)
        targets = np.round(targets * step) / step if step else targets
        noise = random.normal(size=targets.shape) * random.choice([0, 1e-6, 1])
        return Samples(losses=losses, targets=targets, predicted=targets + noise)
    if kind in ("tokens", "segmentation"):
        shape = (num_samples, int(random.integers(1, 30)))
        targets = np.where(random.random(shape) < 0.2, -100, random.integers(0, most, shape))
        predicted = np.where(random.random(shape) < 0.5, np.maximum(targets, 0), random.integers(0, num_classes, shape))
        if kind == "segmentation":
            return Samples(losses=losses, targets=targets, predicted=predicted)
        both = lambda: (texts(predicted), texts(targets))  # noqa: E731
        return Samples(losses=losses, targets=targets, predicted=predicted, texts=both)
    shape = (num_samples,) if kind == "binary" else (num_samples, num_classes)
    scores = random.random(shape)
    scores = np.round(scores * step) / step if step else scores
    if kind == "multiclass":
        scores = scores + 2.0**-20
        scores /= scores.sum(axis=1, keepdims=True)
        return Samples(
            losses=losses,
            targets=random.integers(0, most, num_samples),
            scores=scores,
            predicted=scores.argmax(axis=1) if num_classes else None,
        )
    limit = min(most, 2)
    return Samples(
        losses=losses,
        targets=random.integers(0, limit, shape),
        scores=scores,
        predicted=(scores >= 0.5).astype(np.int64),
    )


def texts(numbers: Ints) -> list[str]:
    """A text a row, of words that are numbers; those below 0 are left out."""
    return [" ".join(f"w{number}" for number in row if number >= 0) for row in numbers.tolist()]


@st.composite
def drawn(draw: st.DrawFn, kind: Kind, *, least: int = 0, classes: tuple[int, int] = (2, 6)) -> tuple[Task, Samples]:
    """A task and `least` to 50 samples of it: with ties and without, of all classes, of some, of one only."""
    num_classes = 2 if kind == "binary" else draw(st.integers(*classes))
    samples = samples_of(
        kind,
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(least, 50)),
        num_classes,
        occur=draw(st.integers(1, num_classes)),
        step=draw(st.sampled_from([0, 2, 8])),
    )
    return Task(kind, num_classes), samples


def off(found: float, true: Fraction | int) -> float:
    """By how much of itself the true value was missed."""
    distance = abs(Fraction(found) - true)
    return float(distance / abs(true)) if true else float(distance)
