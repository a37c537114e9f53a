"""The predictions on served rows beside those on the test set by which the version was approved.

The report of an evaluation has how often each class was predicted (its confusion matrix); predicted numbers it has only
where it keeps all predictions. Both sides are counted in the same bins: classes, or deciles of the test set's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from drivetrain.base.formatting import number
from drivetrain.base.json_text import list_in, object_in
from drivetrain.data.arrow import Array, arrow, numpy
from drivetrain.decision.data_baseline import BINS, OTHERS, Aligned
from drivetrain.decision.data_drift import SHARE_MOVED, Effect, Side, drift

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

PREDICTED = "predicted"


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Classes by name, or intervals between `edges`. The outer intervals have no end."""

    names: tuple[str, ...]
    edges: tuple[float, ...] = ()

    def count(self, values: Array) -> Floats:
        """Rows by bin, float64 [bins]; the last one of classes takes all that have another name."""
        np = numpy()
        if self.edges:
            found = np.searchsorted(np.asarray(self.edges[1:-1]), values.to_numpy(), side="right")
        else:
            places = {name: place for place, name in enumerate(self.names)}
            found = [places.get(name, len(places) - 1) for name in values.cast("string").to_pylist()]
        return np.bincount(np.asarray(found, "int64"), minlength=len(self.names)).astype("float64")


def is_answer(name: str) -> bool:
    """Return True for a column of a table of answers."""
    return name in (PREDICTED, "score", "margin", "text") or name.startswith(("score_", "margin_"))


def as_predicted(values: Array, task: Mapping[str, Any]) -> Array | None:
    """The predictions of a table: numbers as doubles, and classes by their names; None where they are lists.

    Args:
        task: of the evaluation: `kind` and `class_names`.
    """
    pa, names = arrow(), list_in(task, "class_names")
    if pa.types.is_nested(values.type):
        return None
    if task.get("kind") == "regression":
        return values.cast("float64")
    if names and pa.types.is_integer(values.type):
        return pa.array([str(names[place]) for place in values.to_pylist()])
    return values.cast("string")


def promised_classes(evaluation: Mapping[str, Any], curves: Mapping[str, Any]) -> tuple[Bins, Floats] | str:
    """The rows of the test set by the class that was predicted; or why that is not known, as a clause."""
    matrix, task = object_in(curves, "confusion_matrix"), object_in(evaluation, "task")
    names = tuple(map(str, list_in(matrix, "columns")))
    if task.get("kind") not in ("binary", "multiclass"):
        return f"the predictions are of the task {task.get('kind')}"
    if not names or len(names) != task.get("num_classes"):
        return "its report has no confusion matrix of all classes"
    cells = numpy().asarray(list_in(matrix, "cells"), "float64")
    return Bins(names=(*names, OTHERS)), numpy().append(cells.sum(axis=0), 0.0)


def deciles(values: Array) -> Bins:
    """The bins of numbers."""
    np = numpy()
    edges = np.unique(np.quantile(values.to_numpy(), np.linspace(0, 1, BINS + 1)))
    edges = edges if len(edges) > 1 else np.array([edges[0], edges[0]])
    return Bins(names=tuple(f"{number(a)} to {number(b)}" for a, b in pairwise(edges)), edges=tuple(edges.tolist()))


def with_predictions(sides: Aligned | None, bins: Bins, ours: Floats, theirs: Floats) -> Aligned:
    """The columns of both sides, and the predictions as one more of them."""
    np = numpy()
    columns, none = () if sides is None else sides.columns, np.empty(0)
    width = max(len(bins.names), 1 if sides is None else sides.batch.counts.shape[1])

    def more(side: Side | None, counts: Floats) -> Side:
        own = np.zeros((len(columns) + 1, width))
        if side is not None:
            own[:-1, : side.counts.shape[1]] = side.counts
        own[-1, : len(counts)] = counts
        before = side or Side(counts=own[:0], means=none, stds=none, nulls=none, rows=float(counts.sum()))
        return Side(
            counts=own,
            means=np.append(before.means, np.nan),
            stds=np.append(before.stds, np.nan),
            nulls=np.append(before.nulls, 0.0),
            rows=before.rows,
        )

    return Aligned(
        columns=(*columns, PREDICTED),
        bins={**({} if sides is None else sides.bins), PREDICTED: bins.names},
        batch=more(sides and sides.batch, ours),
        baseline=more(sides and sides.baseline, theirs),
        missing=() if sides is None else sides.missing,
        added=() if sides is None else sides.added,
        empty=() if sides is None else sides.empty,
    )


def moved(one: Floats, other: Floats) -> Effect:
    """The share of the rows of a part that would have to move for its predictions to be those of all.

    Args:
        one: rows of the part by bin, float64 [bins].
        other: those of the rest.
    """
    np = numpy()
    none = np.full(1, np.nan)
    part, rest = (
        Side(counts=each[None], means=none, stds=none, nulls=none, rows=float(each.sum())) for each in (one, other)
    )
    found, share = drift(part, rest)[SHARE_MOVED], rest.rows / max(part.rows + rest.rows, 1.0)
    return Effect(estimate=found.estimate * share, low=found.low * share, high=found.high * share)
