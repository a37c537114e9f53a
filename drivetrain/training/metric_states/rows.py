"""The evidence of each row on each metric, for comparisons row by row: rows.npz of a report.

A metric says what its values are made of (`HasRows`) in terms of columns: one number a sample, kept as small as it is
(a truth in a bit, one of 256 classes in a byte). Equal columns are kept once: of ten thousand classes' recalls there
are two, targets and predictions. Every rank keeps those of its batches; in the end the first one puts them in the
order of the rows. drivetrain/decision/rows.py reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.metric import Ints, Metric, Samples
from drivetrain.training.metric_states.numbers.hashing import Hashes
from drivetrain.training.metric_states.slices import SliceColumn
from drivetrain.training.process import Process
from drivetrain.training.task import Task

FORMAT = 1
MOST_BYTES = 1 << 28
"""The most bytes of the columns of all rows. Metrics whose columns are beyond it are left out, and named in
evaluation.json."""

Scale = Literal["", "root", "exponential", "twice"]
"""From a share or a mean to the value: itself, its root, its exponential, 2 x / (1 + x)."""


class Column(Protocol):
    """One number a sample. A frozen dataclass: equal columns are kept once."""

    @property
    def levels(self) -> int:
        """How many values there are, whole numbers from 0; 0 for real numbers, which are kept as float32; 1 for such as
        are only ranked."""
        ...

    def numbers(self, samples: Samples) -> NDArray[Any]:
        """Shape [n]. The samples were counted already, so they are what they should be."""
        ...


@dataclass(frozen=True)
class Is:
    """Samples in which a column has the value; with `negated`, another one."""

    column: Column
    value: int = 1
    negated: bool = False


@dataclass(frozen=True)
class Share:
    """The share of samples for which all of `right` hold, among those for which one of `of` holds (without any:
    all)."""

    right: tuple[Is, ...]
    of: tuple[Is, ...] = ()
    scale: Scale = ""


@dataclass(frozen=True)
class Mean:
    """The mean of a column, weighted by another, over the samples for which one of `of` holds (without any: over
    all)."""

    column: Column
    weight: Column | None = None
    of: tuple[Is, ...] = ()
    scale: Scale = ""


@dataclass(frozen=True)
class Ranking:
    """How often a positive sample has a greater score than another one; a tie counts half."""

    score: Column
    positive: Is


@dataclass(frozen=True)
class Average:
    """The average of parts. A part counts if one of its conditions `there` holds for some sample (without any: always),
    as 0 where the samples do not define it. With `by_size` a part weighs as many samples as its conditions hold for."""

    parts: tuple[Form, ...]
    there: tuple[tuple[Is, ...], ...]
    by_size: bool = False


Form = Share | Mean | Ranking | Average


@runtime_checkable
class HasRows(Protocol):
    """A metric that says what its values are made of."""

    def rows(self, task: Task) -> Mapping[str, Form]:
        """Suffix -> what the value of that suffix is made of. Values that are not named say nothing by row: the
        bootstrap's replicates alone decide on them."""
        ...


@dataclass(frozen=True)
class RowTable:
    """The content of rows.npz."""

    arrays: Mapping[str, NDArray[Any]]
    left_out: tuple[str, ...]


class KeptRows:
    """Takes this rank's samples; `gathered` gives all of them to the first rank.

    Args:
        metrics: by the names of the results; where two results have one name, the first has it.
        num_rows: of all ranks.
        keyed: rows have keys; else they are known by their numbers.
    """

    def __init__(
        self, task: Task, metrics: Mapping[str, Metric], slices: Sequence[SliceColumn], *, num_rows: int, keyed: bool
    ) -> None:
        self._num_rows, self._slices, self._keyed = num_rows, slices, keyed
        self._columns: dict[Column, int] = {}
        self._forms: dict[str, dict[str, Any]] = {}
        self._left_out: list[str] = []
        size = num_rows * ((8 if keyed else 0) + sum(_slice_type(column)().itemsize for column in slices))
        for name, metric in metrics.items():
            for suffix, form in metric.rows(task).items() if isinstance(metric, HasRows) else ():
                result = f"{name}_{suffix}" if suffix else name
                if result in self._forms or result in self._left_out:
                    continue
                more = [column for column in dict.fromkeys(_columns(form)) if column not in self._columns]
                needed = sum(_bytes(column, num_rows) for column in more)
                if size + needed > MOST_BYTES:
                    self._left_out.append(result)
                    continue
                size += needed
                self._columns |= {column: len(self._columns) + place for place, column in enumerate(more)}
                self._forms[result] = _described(form, self._columns)
        self._rows: list[Ints] = []
        # Of the arrays that rows.npz holds, but for the description: their types, and the parts of them.
        self._types: dict[str, Any] = {
            **({"keys": np.uint64} if keyed else {}),
            **{f"slice_{place}": _slice_type(column) for place, column in enumerate(slices)},
            **{f"column_{place}": _type(column) for column, place in self._columns.items()},
        }
        self._parts: list[list[NDArray[Any]]] = [[] for _ in self._types]

    def add(self, rows: Ints, samples: Samples, numbers: Sequence[Ints], keys: Hashes) -> None:
        """A batch.

        Args:
            rows: the row number of each sample, shape [n].
            numbers: for each column that is sliced by, which slice each sample is in, shape [n].
            keys: hashes of the samples' keys, shape [n].
        """
        if not self._columns:
            return
        kept: list[NDArray[Any]] = [keys] if self._keyed else []
        kept += [found.astype(_slice_type(column)) for column, found in zip(self._slices, numbers, strict=True)]
        kept += [_kept(column, samples, len(rows)) for column in self._columns]
        self._rows.append(rows.astype(np.int64))
        for part, one in zip(self._parts, kept, strict=True):
            part.append(one)

    def gathered(self, process: Process) -> RowTable | None:
        """All rows in their order, on the first rank; None on the others. Every rank must call it."""
        if not self._columns:  # nothing was kept
            return self._table(0, {}) if process.is_main else None
        rows = np.concatenate([np.zeros(0, np.int64), *self._rows])
        lengths = [len(one) for one in self._rows]
        columns = [None] * (len(self._parts) - len(self._columns)) + list(self._columns)
        every = list(_on_main(process, rows))
        arrays: dict[str, NDArray[Any]] = {}
        for (name, kind), column, parts in zip(self._types.items(), columns, self._parts, strict=True):
            beat()
            own = _joined(parts, lengths, kind, packed=column is not None and column.levels == 2)
            parts.clear()
            found: NDArray[Any] | None = None
            for places, values in zip(every, _on_main(process, own), strict=True):
                if found is None:
                    found = np.zeros(self._num_rows, values.dtype)
                found[places] = values
            if found is not None:
                arrays[name] = _written(column, found)
        return self._table(self._num_rows, arrays) if process.is_main else None

    def _table(self, num_rows: int, arrays: Mapping[str, NDArray[Any]]) -> RowTable:
        about = {
            "format": FORMAT,
            "rows": num_rows,
            "keyed": self._keyed and bool(arrays),
            "slices": [{"column": one.name, "values": list(one.values)} for one in self._slices if arrays],
            "columns": ["bits" if column.levels == 2 else "numbers" for column in self._columns],
            "metrics": self._forms,
            "left_out": self._left_out,
        }
        text = json.dumps(about, ensure_ascii=False, allow_nan=False).encode()
        return RowTable({"about": np.frombuffer(text, np.uint8), **arrays}, tuple(self._left_out))


def _on_main(process: Process, own: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The array of each rank, one after the other, on the first rank; nothing on the others."""
    if not process.is_main:
        process.group.send(own.tobytes())
        return iter(())
    others = (np.frombuffer(process.group.receive(rank), own.dtype) for rank in range(1, process.world_size))
    return chain([own], others)


def _columns(form: Form) -> Iterator[Column]:
    if isinstance(form, Share):
        yield from (one.column for one in (*form.right, *form.of))
    elif isinstance(form, Mean):
        yield form.column
        yield from () if form.weight is None else (form.weight,)
        yield from (one.column for one in form.of)
    elif isinstance(form, Ranking):
        yield from (form.score, form.positive.column)
    else:
        for part in form.parts:
            yield from _columns(part)
        yield from (one.column for conditions in form.there for one in conditions)


def _described(form: Form, places: Mapping[Column, int]) -> dict[str, Any]:
    """As drivetrain/decision/rows.py reads it."""

    def of(one: Is) -> list[Any]:
        return [places[one.column], one.value, one.negated]

    if isinstance(form, Share):
        return {"kind": "share", "right": [*map(of, form.right)], "of": [*map(of, form.of)], "scale": form.scale}
    if isinstance(form, Mean):
        weight = None if form.weight is None else places[form.weight]
        of_what = [*map(of, form.of)]
        return {"kind": "mean", "column": places[form.column], "weight": weight, "of": of_what, "scale": form.scale}
    if isinstance(form, Ranking):
        return {"kind": "ranking", "score": places[form.score], "positive": of(form.positive)}
    there = [[*map(of, conditions)] for conditions in form.there]
    parts = [_described(part, places) for part in form.parts]
    return {"kind": "average", "parts": parts, "there": there, "by_size": form.by_size}


def _slice_type(column: SliceColumn) -> Any:
    return np.min_scalar_type(max(0, len(column.values) - 1)).type


def _type(column: Column) -> Any:
    if column.levels < 2:
        return np.float64 if column.levels else np.float32
    return np.min_scalar_type(column.levels - 1).type


def _bytes(column: Column, num_rows: int) -> int:
    return num_rows // 8 if column.levels == 2 else num_rows * np.dtype(_type(column)).itemsize


def _kept(column: Column, samples: Samples, count: int) -> NDArray[Any]:
    found = np.asarray(column.numbers(samples))
    if found.shape != (count,):
        raise ValueError(f"{column} gives an array of shape {list(found.shape)} for {count} samples")
    if column.levels == 2:
        return np.packbits(found.astype(bool))
    with np.errstate(over="ignore"):  # what is no float32 says nothing, and the reader sees that
        return found.astype(_type(column))


def _joined(parts: Sequence[NDArray[Any]], lengths: Sequence[int], kind: Any, *, packed: bool) -> NDArray[Any]:
    if packed:
        parts = [np.unpackbits(part, count=length) for part, length in zip(parts, lengths, strict=True)]
    return np.concatenate([np.zeros(0, kind), *parts])


def _written(column: Column | None, values: NDArray[Any]) -> NDArray[Any]:
    if column is not None and column.levels == 2:
        return np.packbits(values)
    if column is not None and column.levels == 1:
        ranks = np.unique(values, return_inverse=True)[1].reshape(-1)
        return ranks.astype(np.min_scalar_type(max(0, len(values) - 1)))
    return values
