"""Batches that wait to be counted together: numpy takes for one of 16,000 samples hardly longer than for one of 256."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.metric import Ints, Samples

MOST_SAMPLES, MOST_BYTES = 1 << 16, 1 << 21
"""That wait: as much as stays in a processor's cache while it is counted."""
_FIELDS = ("losses", "weights", "targets", "scores", "predicted", "margins")

Columns = Mapping[str, NDArray[Any]]
_Arrays = dict[tuple[str, str], NDArray[Any]]


class Batch(NamedTuple):
    """Row numbers, shape [n], their samples, and the values of columns of the data, shape [n] each."""

    rows: Ints
    samples: Samples
    columns: Columns


class Waiting:
    """Batches, copied one behind the other, so that the caller may reuse their memory."""

    def __init__(self) -> None:
        self._arrays: _Arrays = {}
        self._shape: list[Any] = []
        self._room = 0
        self._ends = [0]

    def take(self, batch: Batch) -> bool:
        """True where there was room, and the batch is of the kind of those that wait.

        Samples with texts never wait: a recipe makes them from the model's outputs, which would have to be kept.
        """
        if batch.samples.texts is not None:
            return False
        given = _arrays(batch)
        shape = [(name, values.dtype, values.shape[1:]) for name, values in given.items()]
        start, end = self._ends[-1], self._ends[-1] + len(batch.rows)
        if not start:
            each = sum(values.nbytes for values in given.values()) // max(1, len(batch.rows))
            self._room, self._shape = min(MOST_SAMPLES, MOST_BYTES // max(1, each)), shape
            if 2 * end > self._room or any(len(values) != end for values in given.values()):
                return False  # to copy it would cost more than it saves; or a metric is to say what is wrong with it
            self._arrays = {name: np.empty((self._room, *of.shape[1:]), of.dtype) for name, of in given.items()}
        elif shape != self._shape or end > self._room:
            return False
        if any(len(values) != len(batch.rows) for values in given.values()):
            return False
        for name, values in given.items():
            self._arrays[name][start:end] = values
        self._ends.append(end)
        return True

    def together(self) -> Batch:
        """All that wait, as one batch."""
        return _batch(self._arrays, 0, self._ends[-1])

    def each(self) -> Iterator[Batch]:
        """One by one, as they came."""
        for start, end in zip(self._ends, self._ends[1:], strict=False):
            yield _batch(self._arrays, start, end)

    def __bool__(self) -> bool:
        return len(self._ends) > 1


def _arrays(batch: Batch) -> _Arrays:
    found: _Arrays = {("rows", ""): batch.rows}
    for name in _FIELDS:
        values = getattr(batch.samples, name)
        if values is not None:
            found["samples", name] = values
    found |= {("values", name): values for name, values in batch.samples.values.items()}
    return found | {("columns", name): np.asarray(values) for name, values in batch.columns.items()}


def _batch(arrays: _Arrays, start: int, end: int) -> Batch:
    kinds: dict[str, dict[str, Any]] = {"rows": {}, "samples": {}, "values": {}, "columns": {}}
    for (kind, name), values in arrays.items():
        kinds[kind][name] = values[start:end]
    return Batch(kinds["rows"][""], Samples(**kinds["samples"], values=kinds["values"]), kinds["columns"])
