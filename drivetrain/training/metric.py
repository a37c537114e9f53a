"""The contract of a metric: one file that says what is counted, and what is made of the counts.

A file `metrics/<name>.py`, or a module of the user's own, has a class `Metric`: a frozen dataclass whose fields are the
metric's options, with the members below. What is counted are whole numbers: their sum over the samples does not depend
on the order, on batches or on the number of ranks, so that any number of ranks prints the digits that one would. Sums
of real values are made of whole numbers too (numbers/exact_sum.py).

    batch -> model -> Samples -> each Tally: which cells grow by how much -> one vector of int64 a rank
          -> one all_reduce -> Metric.compute -> values       (replicates of a bootstrap: a second all_reduce)

Equal tallies of several metrics are counted once: accuracy, F1 and kappa all come from one confusion matrix.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.options import build_options
from drivetrain.training.task import Kind, Task

Amount = Literal["bool", "float"]
"""The values of a mean: truths, which are counted, or real numbers."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


Range = tuple[float, float]
"""The least and the greatest that a value can be."""
SHARE: Range = (0.0, 1.0)
CORRELATION: Range = (-1.0, 1.0)
FROM_ZERO: Range = (0.0, math.inf)
ANY: Range = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The n samples of a batch, as metrics see them: arrays on the CPU.

    kind          targets                scores                            predicted
    multiclass    int64 [n]              probabilities, float64 [n, C]     int64 [n]: the likeliest class
    binary        int64 [n], 0 or 1      of class 1, float64 [n]           int64 [n]: score >= Task.threshold
    multilabel    int64 [n, C], 0 or 1   float64 [n, C]                    int64 [n, C]: score >= 0.5
    regression    float64 [n, outputs]   None                              float64 [n, outputs]
    tokens        int64 [n, positions]   None                              int64 [n, positions], or None
    segmentation  int64 [n, pixels]      None                              int64 [n, pixels]

    (float32 scores are taken too. A target of -100 in tokens and segmentation counts for nothing.)
    """

    losses: Floats | None = None
    """One loss a sample, shape [n]."""
    weights: Floats | None = None
    """The weight of each sample's loss, shape [n]; None for 1 each."""
    targets: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None
    predicted: NDArray[Any] | None = None
    margins: Floats | None = None
    """The numbers by which samples are ranked if `Task.ranked_by` says so, float64 in the shape of `scores`: log-odds,
    which for class k of several are z_k - logsumexp of the other logits, or raw scores."""
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """The recipe's own metrics: one value a sample, float64 or bool, shape [n] each."""
    texts: Callable[[], tuple[Sequence[str], Sequence[str]]] | None = field(default=None, repr=False, compare=False)
    """Gives what the model says and what is right, a text a sample each; None where the recipe makes no texts."""
    checked: set[Any] = field(default_factory=set, init=False, repr=False, compare=False)
    """Checks that passed already (metric_states/checks.py): several metrics ask for the same."""


class Counts(NamedTuple):
    """The contribution of samples to a tally.

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


@runtime_checkable
class HasCarry(Protocol):
    """A tally whose cells would overflow after some 2**31 samples, and that can make room: an exact sum."""

    def settle(self, cells: Ints) -> None:
        """Carry from cell to cell, in place, so that every magnitude but that of a last one is at most 2**32. What is
        counted stays the same. `cells` has shape [..., size]; it is asked long before 2**62 is reached."""
        ...


@dataclass(frozen=True)
class Value:
    """A number, and how far at most the true one may lie from it (0 where it is exact)."""

    value: float
    bound: float = 0.0
    advice: str = ""
    """Advice on a wide bound, for people."""
    limits: Callable[[float], tuple[float, float]] | None = field(default=None, compare=False, repr=False)
    """Confidence -> the interval of the value for samples that are independent, where there is a closed form
    (uncertainty/intervals.py has some, and `worth` for those of one's own). The bootstrap's then only widens it;
    without one it stands alone, and needs more samples."""
    limits_suffice: bool = field(default=False, compare=False, repr=False)
    """The bootstrap widens `limits` only where samples share keys: its replicates are of something else."""
    num_samples: int | None = field(default=None, compare=False, repr=False)
    """The number of samples of the value, if not all (those of a class)."""
    scale: tuple[Callable[[Any], Any], Callable[[float], float]] | None = field(default=None, compare=False, repr=False)
    """To the scale on which the value is a mean (of a numpy array, element by element; it grows with the value), and
    back: the interval is that of the mean, taken back."""
    better: Literal["as the metric", "higher", "lower", "neither"] = field(
        default="as the metric", compare=False, repr=False
    )
    """The better direction."""
    value_range: Range | None = field(default=None, compare=False, repr=False)
    """The range of the value; None if the metric's `value_range` says it. Its interval ends there."""


class UndefinedError(ValueError):
    """The samples do not define the metric (one class only, no sample at all). The message says why, as a clause."""


@runtime_checkable
class Metric(Protocol):
    """The protocol of a metric."""

    kinds: ClassVar[tuple[Kind, ...]]
    """The kinds of tasks for which it is defined."""
    higher_is_better: ClassVar[bool | None]
    """The better direction; None without one (a confusion matrix)."""

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        """The tallies to count, under names of the metric's own."""
        ...

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        """The values: suffix -> value. "" is the metric itself (`f1`), "macro" becomes `f1_macro`.

        One of several that the samples do not define may be NaN, with the reason as its advice.

        Args:
            counted: the sums under the names of `tallies`, shape [size] each.

        Raises:
            UndefinedError: the samples do not define it.
        """
        ...


@runtime_checkable
class HasRange(Protocol):
    """A metric that says where its values can lie: no interval goes beyond. One that does not may be anything."""

    value_range: ClassVar[Range]


@runtime_checkable
class HasCurves(Protocol):
    """A metric with something to draw or to tabulate."""

    def curves(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Mapping[str, Any]]:
        """Suffix -> plain JSON: {"kind": "roc", "x": [...], "y": [...], "x_label": ..., "y_label": ...}; a table is
        {"kind": "matrix", "rows": [...], "columns": [...], "cells": [[...]]}. At most 1,000 points a curve."""
        ...


@runtime_checkable
class HasResolution(Protocol):
    """A metric whose state can be made smaller, at the cost of a wider bound or of optional results: for slices and the
    bootstrap."""

    def coarser(self, task: Task, cells: int) -> Metric:
        """The same metric with tallies of at most `cells` cells in all, or the smallest that there is."""
        ...


class Ranking(NamedTuple):
    """Samples that are ranked by score: `scores` float64 [n], `positive` bool [n]."""

    scores: Floats
    positive: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """The result of an exact ranking of all samples of all ranks (ranking/ranking.py)."""

    num_positives: int
    num_negatives: int
    twice_wins: int
    """Over all pairs of a positive and a negative: 2 where the positive scores higher, 1 where they tie."""
    precision_sum: float
    """Over all positives: the precision at their score; the exact sum, correctly rounded."""
    curve: tuple[tuple[float, int, int], ...] = ()
    """Some of the scores that there are, falling, and how many positives and negatives score as high or higher: of a
    curve's points, at most 1,000 (ranking.py says which). Empty unless a metric draws them."""
    scores: tuple[float, ...] | None = None
    """All the scores that there are, rising, where they are few (ranking.py says how many)."""


@runtime_checkable
class HasExact(Protocol):
    """A metric that has an exact mode: ranks exchange scores instead of adding up a histogram."""

    def rankings(self, task: Task, samples: Samples) -> Mapping[str, Ranking]:
        """The rankings to make: the same names for every batch. Metrics that rank the same give it the same name
        ("class_3"), and it is exchanged once."""
        ...

    def compute_exact(self, task: Task, ranked: Mapping[str, Ranked]) -> Mapping[str, Value]:
        """As `compute`."""
        ...


@runtime_checkable
class HasTies(Protocol):
    """A metric with an exact mode. Its slices and replicates are counted in bins, with smaller bounds if the scores are
    known."""

    def compute_of_some(
        self, task: Task, counted: Mapping[str, Ints], ranked: Mapping[str, Ranked]
    ) -> Mapping[str, Value]:
        """As `compute`, of a slice or a replicate; `ranked` is of all samples (`Ranked.scores`)."""
        ...


@runtime_checkable
class HasExactCurves(Protocol):
    """A metric that draws its curves, in an exact mode, from the scores themselves instead of bins."""

    def rankings(self, task: Task, samples: Samples) -> Mapping[str, Ranking]:
        """As that of `HasExact`."""
        ...

    def curves_exact(self, task: Task, ranked: Mapping[str, Ranked]) -> Mapping[str, Mapping[str, Any]]:
        """As `curves`, from `Ranked.curve`."""
        ...


_DEFAULTS: Mapping[Kind, str] = {
    "multiclass": "accuracy balanced_accuracy f1 mcc auroc log_loss calibration_error confusion_matrix",
    "binary": "accuracy precision recall f1 mcc auroc average_precision roc_curve pr_curve threshold log_loss brier "
    "calibration_error confusion_matrix",
    "multilabel": "accuracy precision recall f1 auroc average_precision",
    "regression": "mae mse rmse r2",
    "tokens": "perplexity",
    "segmentation": "accuracy iou dice confusion_matrix",
    "values": "",
}
DEFAULTS: Mapping[Kind, tuple[str, ...]] = {kind: tuple(names.split()) for kind, names in _DEFAULTS.items()}
"""The metrics by default, besides the loss and the recipe's own."""
# Those that are not defined for raw scores, which only rank.
_OF_PROBABILITIES = ("threshold", "log_loss", "brier", "calibration_error")


def usual_metrics(task: Task) -> list[str]:
    """The metrics of a task where none are named."""
    ranks_only = task.ranked_by == "raw scores"
    return [name for name in DEFAULTS[task.kind] if not (ranks_only and name in _OF_PROBABILITIES)]


def load_metrics(text: str, task: Task, defaults: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Metric]:
    """Metrics by the names of their results, from a list such as "accuracy, top_k(k=5), my_module".

    Values of options are written as in JSON or Python. The result of a metric is called after its file (a module of the
    user's own: after its last part); where the list has one several times, its options are added: `top_k_k_5`.

    Args:
        text: the list; "" for the task's usual metrics.
        defaults: metric -> options that apply where the list does not give them.

    Raises:
        InputError: text that is no such list, no such metric or option (with the closest match), a file that is no
            metric, or a metric that is not defined for the task.
    """
    text = text if text.strip() else ", ".join(usual_metrics(task))
    known = defaults or {}
    named = [
        (name, options, _load_metric(name, {**known.get(name, {}), **options}, task)) for name, options in _parse(text)
    ]
    found: dict[str, Metric] = {}
    for name, options, metric in named:
        result = name.rsplit(".", 1)[-1]
        if sum(other.rsplit(".", 1)[-1] == result for other, _, _ in named) > 1:
            result = "_".join([result, *(f"{option}_{value}" for option, value in options.items())])
        if found.get(result, metric) != metric:
            raise InputError(f"metrics {text!r}: two different metrics would be called {result!r}. Rename one of them.")
        found[result] = metric
    return found


def _load_metric(name: str, options: dict[str, Any], task: Task) -> Metric:
    module = plugins.load("metrics", name, kind="metric", own_modules=True)
    kind = getattr(module, "Metric", None)
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise InputError(f"metric {name!r} ({module.__file__}) has no dataclass named Metric.")
    metric: Any = build_options(kind, options, f"metric {name!r}")
    if not isinstance(metric, Metric):
        members = ("kinds", "higher_is_better", "tallies", "compute")
        missing = [member for member in members if not hasattr(metric, member)]
        raise InputError(f"metric {name!r} ({module.__file__}) lacks {', '.join(missing)}.")
    if task.kind not in metric.kinds:
        raise InputError(
            f"metric {name!r} is for {' and '.join(metric.kinds)} tasks, and the recipe's is {task.kind}. Leave the "
            "metric out, or correct the recipe's task."
        )
    return metric


def _parse(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Names and options."""
    wrong = InputError(
        f"metrics {text!r} is no list of metrics. Allowed are names with options, such as: accuracy, top_k(k=5)"
    )
    try:
        parsed = ast.parse(f"[{text}]".replace("\n", " "), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise wrong from None
    if not isinstance(parsed, ast.List):
        raise wrong
    found: list[tuple[str, dict[str, Any]]] = []
    for entry in parsed.elts:
        call = isinstance(entry, ast.Call)
        if call and (entry.args or any(keyword.arg is None for keyword in entry.keywords)):
            raise wrong
        options = {str(keyword.arg): _literal(keyword.value, wrong) for keyword in entry.keywords} if call else {}
        found.append((_dotted(entry.func if call else entry, wrong), options))
    return found


def _dotted(node: ast.expr, wrong: InputError) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, wrong)}.{node.attr}"
    raise wrong


def _literal(node: ast.expr, wrong: InputError) -> Any:
    words = {"true": True, "false": False, "null": None}
    if isinstance(node, ast.Name) and node.id in words:
        return words[node.id]
    try:
        value = ast.literal_eval(node)
        json.dumps(value)  # plain values only
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise wrong from None
    return value
