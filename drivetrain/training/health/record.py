"""Records for the rules: sums over all ranks of the steps since the previous record."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Of each tensor that is trained. Gradients are summed over all elements; weights and updates over the sampled ones.
TENSOR_COLUMNS = (
    "size",  # elements
    "grad_sq",  # sum of the squared gradient, before clipping
    "sampled",  # elements of the sample
    "weight_sum",
    "weight_sq",
    "update_sq",  # of what the step added to the weights
    "with_grad",  # sampled elements whose gradient is not 0
    "changed",  # of these, the elements that the step changed
)
# Of each layer's outputs, over all samples of the global batch.
LAYER_COLUMNS = ("size", "sq", "zeros")
# The phases of a step [s], in the order in which they are timed.
# `compute` is what nobody tells apart (forward, backward and optimizer of a GPU, of a pipeline, of TensorFlow).
PHASES = ("data", "communication", "forward", "backward", "optimizer", "compute", "validation", "save", "other")
# Of each rank, since the record before.
RANK_COLUMNS = (
    *PHASES,
    "steps",
    # The shortest step's data and forward time [s], without waiting for a CPU: what the rank does before it waits for
    # others; 0: unknown.
    "own",
    "memory",  # resident memory [bytes]
    "nonfinite",  # the step in which the rank first met a number that is not finite; 0: none
    "saves",  # checkpoints begun
    "accelerator",  # utilisation of the GPU, 0 to 1; -1: no GPU, or unknown
    "queued",  # of the seconds of data and forward, those in which the rank was ready and waited for a CPU
    "starved",  # of all its seconds, those in which its thread was ready and waited for a CPU
)
# Weights and updates are summed over so many elements of a tensor: a copy of all weights, to tell what a step has
# changed, would take their memory once more.
_SAMPLE = 1024
_GOLDEN = (math.sqrt(5) - 1) / 2
_DIGITS = 9  # of what is written down; the rules see the same digits, live and in a replay


@dataclass(frozen=True)
class Table:
    """Named rows; each column is a float64 array of shape [rows]."""

    names: Sequence[str]
    columns: Mapping[str, Floats]

    def __getitem__(self, column: str) -> Floats:
        return self.columns[column]

    def __len__(self) -> int:
        return len(self.names)

    def rms(self, squares: str, count: str) -> Floats:
        """The root of the mean square; 0 where nothing was counted."""
        counted = self.columns[count]
        return np.sqrt(self.columns[squares] / np.where(counted > 0, counted, 1.0))

    def mean(self, column: str, count: str) -> Floats:
        counted = self.columns[count]
        return self.columns[column] / np.where(counted > 0, counted, 1.0)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table, as a trained model goes by them on some rows.

    Attributes:
        moves: the mean distance by which each column moves the answers.
        loss: of the model on held-out rows; None where it cannot be compared with `guess`.
        guess: the loss of the answer that is best for all rows alike.
    """

    moves: Mapping[str, float]
    loss: float | None = None
    guess: float | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """The knowledge after `step`.

    Attributes:
        step: steps taken.
        steps: how many of them since the record before.
        time: seconds since the epoch, on rank 0.
        loss: the mean a sample of these steps, over all ranks; NaN where it is not finite, None where nothing is known.
        factor: the learning rate of the step as a share of the highest one, by the schedule.
        ranks: a row for each rank; None in a record of a validation.
        tensors, layers: on the steps whose tensors were summed up; else None.
        matrices: which rows of `tensors` have two dimensions or more (weights, and no biases).
        classes: samples of each class in this step; None where the label is no class.
        validation: the metrics of a validation after this step, else None.
        scaled: whether the loss is scaled (fp16), which skips steps whose gradient is not finite.
        columns: of a trained model of a table, else None.
    """

    step: int
    steps: int = 0
    time: float = 0.0
    loss: float | None = None
    factor: float = 1.0
    ranks: Table | None = None
    tensors: Table | None = None
    layers: Table | None = None
    matrices: Sequence[bool] = ()
    classes: Floats | None = None
    validation: Mapping[str, float] | None = None
    scaled: bool = False
    columns: Columns | None = None


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of the rows in the tables of all records of a training."""

    tensors: Sequence[str] = ()
    matrices: Sequence[bool] = ()
    layers: Sequence[str] = ()
    num_classes: int = 0
    num_ranks: int = 1
    scaled: bool = False
    of_table: bool = False
    """True for a training on a table."""


def sampled_places(size: int) -> NDArray[np.int64]:
    """Positions of the sampled elements of a tensor; evenly spread, without a step that could be that of its rows."""
    if size <= _SAMPLE:
        return np.arange(size)
    return (np.mod((np.arange(_SAMPLE) + 0.5) * _GOLDEN, 1.0) * size).astype(np.int64)


def sampled_sums(before: Any, after: Any, moved: Any, of_each: Callable[[Any], Any]) -> dict[str, Any]:
    """The columns of TENSOR_COLUMNS that come of the sampled elements, in a framework's own arrays.

    Args:
        before, after: the elements around the step, float64.
        moved: which of them have a gradient, bool.
        of_each: gives the sums of elements for each tensor.
    """
    updates = after - before
    return {
        "weight_sum": of_each(before),
        "weight_sq": of_each(before**2),
        "update_sq": of_each(updates**2),
        "with_grad": of_each(moved),
        "changed": of_each(moved & (updates != 0)),
    }


def rounded(values: Floats) -> Floats:
    """As many digits as are written down."""
    if not values.size:
        return values
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values.ravel().tolist()]).reshape(values.shape)


def to_line(record: Record) -> str:
    """One line of JSON; what is not finite is null."""
    fields: dict[str, Any] = {"step": record.step, "steps": record.steps, "time": round(record.time, 3)}
    fields |= {"loss": _plain(record.loss), "factor": record.factor}
    for name in ("ranks", "tensors", "layers"):
        table: Table | None = getattr(record, name)
        if table is not None:
            fields[name] = {column: [_plain(v) for v in values.tolist()] for column, values in table.columns.items()}
    if record.classes is not None:
        fields["classes"] = record.classes.tolist()
    if record.validation is not None:
        fields["validation"] = {name: _plain(value) for name, value in record.validation.items()}
    if record.columns is not None:
        fields["columns"] = asdict(record.columns)
    return json.dumps(fields, separators=(",", ":"))


def from_fields(fields: Mapping[str, Any], names: Names) -> Record:
    """Read a record from the fields that `to_line` wrote.

    Raises:
        ValueError, KeyError, TypeError: it is no record.
    """
    rows = {"ranks": [f"rank {n}" for n in range(names.num_ranks)], "tensors": names.tensors, "layers": names.layers}
    tables = {name: _table(rows[name], fields[name]) for name in rows if name in fields}
    validation = fields.get("validation")
    return Record(
        step=int(fields["step"]),
        steps=int(fields.get("steps", 0)),
        time=float(fields.get("time", 0.0)),
        loss=None if "loss" not in fields or validation else _number(fields["loss"]),
        factor=float(fields.get("factor", 1.0)),
        matrices=names.matrices,
        classes=np.array(fields["classes"], dtype=np.float64) if "classes" in fields else None,
        validation={str(n): _number(v) for n, v in validation.items()} if validation is not None else None,
        scaled=names.scaled,
        columns=Columns(**fields["columns"]) if "columns" in fields else None,
        **tables,
    )


def _table(names: Sequence[str], columns: Mapping[str, Any]) -> Table:
    found = {str(name): np.array([_number(v) for v in values]) for name, values in columns.items()}
    if any(len(values) != len(names) for values in found.values()):
        raise ValueError(f"a table has columns of other lengths than its {len(names)} rows")
    return Table(names, found)


def _plain(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def quantile(values: Floats, share: float) -> Floats:
    """Along the first dimension, which `share` of the values lie below; linear between two.

    (numpy's own takes 0.1 ms, and imports masked arrays, 30 ms: too long between two steps.)
    """
    ordered = np.sort(values, axis=0)
    place = (len(ordered) - 1) * share
    below = int(place)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return low + (high - low) * (place - below)
