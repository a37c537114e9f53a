"""The contract of a metric: one file that says what is counted, and what is made of the counts.

A file `metrics/<name>.py`, or a module of the user's own, has a class `Metric`: a frozen dataclass whose fields are the
metric's options, with the members below. What is counted are whole numbers: their sum over the samples does not depend
on the order, on batches or on the number of ranks, so that any number of ranks prints the digits that one would. Sums
of real values are made of whole numbers too (counting/exact_sum.py).

    batch -> model -> Samples -> each Tally: which cells grow by how much -> one vector of int64 a rank
          -> one all_reduce -> Metric.compute -> values

Equal tallies of several metrics are counted once: accuracy, F1 and kappa all come from one confusion matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Kind = Literal["multiclass", "binary", "multilabel", "regression", "tokens", "segmentation", "values"]
"""What a model's outputs are. `values`: nothing is known but losses and the recipe's own values a sample."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """What is predicted. `num_classes` counts the classes of multiclass (binary: 2), tokens and segmentation, the
    labels of multilabel, and the outputs of regression; 0 for `values`."""

    kind: Kind
    num_classes: int = 0
    class_names: tuple[str, ...] = ()
    """Names for people, in the order of the classes; empty where there are none."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The n samples of a batch, as metrics see them: arrays on the CPU.

    kind          targets                scores                            predicted
    multiclass    int64 [n]              probabilities, float64 [n, C]     int64 [n]: the likeliest class
    binary        int64 [n], 0 or 1      of class 1, float64 [n]           int64 [n]: score >= 0.5
    multilabel    int64 [n, C], 0 or 1   float64 [n, C]                    int64 [n, C]: score >= 0.5
    regression    float64 [n, outputs]   None                              float64 [n, outputs]
    tokens        int64 [n, positions]   None                              None
    segmentation  int64 [n, pixels]      None                              int64 [n, pixels]

    (float32 scores are taken too. A target of -100 in tokens and segmentation counts for nothing.)
    """

    losses: Floats | None = None
    """One loss a sample, shape [n]."""
    targets: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None
    predicted: NDArray[Any] | None = None
    values: Mapping[str, Floats] = field(default_factory=dict)
    """The recipe's own metrics: one value a sample, shape [n] each."""


class Counts(NamedTuple):
    """What samples add to a tally.

    `cells` has shape [n] or [n, k], with values in [0, size): the k cells of the tally that a sample adds to.
    `amounts`, of the same shape, says how much, with |amount| <= 2**32; None for 1 each.
    """

    cells: Ints
    amounts: Ints | None = None


class Tally(Protocol):
    """`size` whole numbers, each of them a sum over samples. A frozen dataclass: equal tallies are counted once."""

    @property
    def size(self) -> int: ...

    def count(self, samples: Samples) -> Counts:
        """
        Raises:
            InputError: samples that it cannot count (a score that is NaN), saying what is wrong with which value.
        """
        ...


@dataclass(frozen=True)
class Value:
    """A number, and how far at most the true one may lie from it (0 where it is exact)."""

    value: float
    bound: float = 0.0
    advice: str = ""
    """What to do about a wide bound, for people."""


class UndefinedError(ValueError):
    """The samples do not define the metric (one class only, no sample at all). The message says why, as a clause."""


@runtime_checkable
class Metric(Protocol):
    """What a metric provides."""

    kinds: ClassVar[tuple[Kind, ...]]
    """For which tasks it is defined."""
    higher_is_better: ClassVar[bool | None]
    """Which way is better; None where neither is (a confusion matrix)."""

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        """What has to be counted, under names of the metric's own."""
        ...

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        """The values: suffix -> value. "" is the metric itself (`f1`), "macro" becomes `f1_macro`.

        Args:
            counted: the sums under the names of `tallies`, shape [size] each.

        Raises:
            UndefinedError: the samples do not define it.
        """
        ...


@runtime_checkable
class HasCurves(Protocol):
    """A metric with something to draw or to tabulate."""

    def curves(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Mapping[str, Any]]:
        """Suffix -> plain JSON: {"kind": "roc", "x": [...], "y": [...], "x_label": ..., "y_label": ...}; a table is
        {"kind": "matrix", "rows": [...], "columns": [...], "cells": [[...]]}. At most 1,000 points a curve."""
        ...


@runtime_checkable
class HasResolution(Protocol):
    """A metric whose state can be made smaller, at the cost of a wider bound: for slices and the bootstrap."""

    def coarser(self, task: Task, cells: int) -> Metric:
        """The same metric with tallies of at most `cells` cells in all, or the smallest that there is."""
        ...


class Ranking(NamedTuple):
    """Samples that are ranked by score: `scores` float64 [n], `positive` bool [n]."""

    scores: Floats
    positive: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """What an exact ranking of all samples of all ranks comes to (counting/ranking.py)."""

    num_positives: int
    num_negatives: int
    twice_wins: int
    """Over all pairs of a positive and a negative: 2 where the positive scores higher, 1 where they tie."""
    precision_sum: float
    """Over all positives: the precision at their score; the exact sum, correctly rounded."""


@runtime_checkable
class HasExact(Protocol):
    """A metric that has an exact mode: ranks exchange scores instead of adding up a histogram."""

    def rankings(self, task: Task, samples: Samples) -> Mapping[str, Ranking]:
        """What is to be ranked, under names of the metric's own (one a class, perhaps): the same for every batch."""
        ...

    def compute_exact(self, task: Task, ranked: Mapping[str, Ranked]) -> Mapping[str, Value]:
        """As `compute`."""
        ...
