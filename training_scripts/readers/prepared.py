"""Read the output of prepare_data: Parquet shards and the manifest that vouches for them."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.data import fitted as _fitted
from drivetrain.data.fitted import identity
from drivetrain.training import reader
from drivetrain.training.input_pipeline import prepared as _prepared
from drivetrain.training.input_pipeline.decoded import kept_arrays, origin
from drivetrain.training.input_pipeline.host_memory import HostArrays
from drivetrain.training.input_pipeline.prepared import MANIFEST_FILE, PreparedData, Shard, is_list
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices, Rows


def recognises(folder: Path) -> bool:
    return (folder / MANIFEST_FILE).is_file()


@dataclass(frozen=True, kw_only=True)
class Options:
    label: str = ""
    """The column to predict; empty: the label that the data was prepared with."""
    unlabelled: bool = False
    """Read data that has no label column."""
    shuffle_window: Annotated[int, Bounds(0)] = 0
    """0 keeps every row at hand (decoded once a host). Otherwise rows are read as they come, in windows of as many
    rows: memory is that of a window and two row groups. The training's own field `shuffle_window` sets it."""

    missing: tuple[str, ...] = ()
    """Columns that may have empty cells: they are NaN, in a column of float64, or None in one of texts."""
    fitted: Mapping[str, Any] | None = None
    """Fitted transforms of the data that a model was trained on; those of this data unless given."""


class Reader(reader.Reader):
    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        self.data = PreparedData(folder)
        self.column_names = tuple(self.data.column_names)
        self.statistics = self.data.statistics
        self.content_hash = self.data.content_hash
        if options.fitted is not None:
            self.data.fitted = dict(options.fitted)
        self.fitted = self.data.fitted
        self.data.missing = frozenset(options.missing)
        self.label = options.label or self.data.label
        self.key = self.data.key
        if self.label is None and not options.unlabelled:
            raise InputError(f"{folder} has no label column. Prepare it with the label named.")
        self.streaming = options.shuffle_window > 0
        self._rows: Table | _Window

    def __len__(self) -> int:
        return self.data.rows

    @property
    def shards(self) -> Sequence[int]:
        return [shard.rows for shard in self.data.shards]

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        process = self.process
        self.data.verify(self.data.shards[process.local_rank :: process.local_world_size])
        process.barrier()
        if self.streaming:
            self._rows = _Window(self.data, names, self.options.shuffle_window)
        else:
            self._rows = _decoded(self.data, names, process)

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        return self._rows.take(indices, names)

    def locate(self, row: int) -> str:
        return self.data.locate(row)


def _decoded(data: PreparedData, names: Sequence[str], process: Process) -> Table:
    """All rows of the named columns: one copy a host of what numpy has a type for, one a process of the rest."""
    plain = {name: kind for name, kind in _kinds(data, names).items() if kind[0].kind != "O"}
    layout = Layout.of(plain)

    def fill(filling: HostArrays) -> None:
        table = Table(layout, [filling[name] for name in filling.arrays])
        start = 0
        for number, shard in enumerate(data.shards):
            if number % filling.count == filling.number and plain:
                _fill(table, data, shard, start, list(plain))
            start += shard.rows

    shards = [shard.sha256 for shard in data.shards]
    missing = sorted(data.missing.intersection(plain))
    modules = (sys.modules[__name__], _prepared, _fitted)
    made_of = origin(
        data.content_hash,
        {"shards": shards, "columns": list(plain), "fitted": identity(data.fitted), "missing": missing},
        *modules,
    )
    filled = kept_arrays(process, layout.of_rows(data.rows), made_of, fill).arrays
    _give_back_memory()
    other = [name for name in names if name not in plain]
    kept = data.read(other) if other else {}
    places = layout.places | {name: (len(layout.shapes) + number, None) for number, name in enumerate(kept)}
    shapes = layout.shapes + [((), np.dtype(object))] * len(kept)
    return Table(Layout(places, shapes), [*filled.values(), *kept.values()])


def _give_back_memory() -> None:
    """Free the memory that Arrow keeps for a next decoding, which does not come."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _kinds(data: PreparedData, names: Sequence[str]) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """The dtype of each column and the shape of a row. Lists have no length in the schema: it takes one to know it."""
    import pyarrow.parquet as parquet

    shard = next(shard for shard in data.shards if shard.rows)
    empty = parquet.read_schema(data.folder / shard.file).empty_table()
    lists = [name for name in names if is_list(empty.schema.field(name).type)]
    head = next(data.row_groups(shard, lists, [0])).slice(0, 1) if lists else empty
    values = {name: data.values(head if name in lists else empty, name, shard) for name in names}
    return {name: (array.dtype, array.shape[1:]) for name, array in values.items()}


def _fill(table: Table, data: PreparedData, shard: Shard, start: int, names: Sequence[str]) -> None:
    for piece in data.row_groups(shard, names):
        for name in names:
            table.set(name, start, _like(table.column(name), data, piece, name, shard))
        start += piece.num_rows


def _like(first: NDArray[Any], data: PreparedData, piece: Any, name: str, shard: Shard) -> NDArray[Any]:
    """A column of a row group, with rows of the shape that the first ones had."""
    values = data.values(piece, name, shard)
    if values.shape[1:] != first.shape[1:]:
        raise InputError(
            f"column {name!r} of shard {data.folder / shard.file} has lists of {values.shape[1]} values; those before "
            f"have {first.shape[1]}. Allowed are lists of one length."
        )
    return values


class _Window:
    """Rows through the row groups that hold them; those used last stay decoded, up to a window and two of them."""

    def __init__(self, data: PreparedData, names: Sequence[str], window: int) -> None:
        self._data = data
        self._names = list(names)
        self._groups = list(_all_row_groups(data))
        self._starts = np.cumsum([0, *(rows for _, _, rows in self._groups)])
        self._room = window + 2 * max(rows for _, _, rows in self._groups)
        self._held: OrderedDict[int, Table] = OrderedDict()
        self._kinds = {name: np.empty((0, *shape), dtype) for name, (dtype, shape) in _kinds(data, names).items()}

    def take(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(self._data.rows), dtype=np.int64)
        groups = np.searchsorted(self._starts, indices, side="right") - 1
        found, first = np.unique(groups, return_index=True)
        result = {
            name: np.empty((len(indices), *self._kinds[name].shape[1:]), self._kinds[name].dtype) for name in names
        }
        # In the order of the requests: a window that begins pushes out the window that ends.
        for group in found[np.argsort(first)].tolist():
            table = self._decoded(group)
            chosen = np.flatnonzero(groups == group)
            rows = table.take(indices[chosen] - self._starts[group], names)
            for name in names:
                result[name][chosen] = rows[name]
        return result

    def _decoded(self, group: int) -> Table:
        if group in self._held:
            self._held.move_to_end(group)
            return self._held[group]
        shard, number, rows = self._groups[group]
        while self._held and rows + sum(map(len, self._held.values())) > self._room:
            self._held.popitem(last=False)
        piece = next(self._data.row_groups(shard, self._names, [number]))
        values = {name: _like(self._kinds[name], self._data, piece, name, shard) for name in self._names}
        places: dict[str, tuple[int, int | None]] = {name: (number, None) for number, name in enumerate(values)}
        shapes = [(array.shape[1:], array.dtype) for array in values.values()]
        self._held[group] = Table(Layout(places, shapes), list(values.values()))
        return self._held[group]


def _all_row_groups(data: PreparedData) -> Iterator[tuple[Shard, int, int]]:
    """Every row group with rows in it: its shard, its number there and its rows."""
    import pyarrow.parquet as parquet

    for shard in data.shards:
        metadata = parquet.read_metadata(data.folder / shard.file)
        for number in range(metadata.num_row_groups):
            if rows := metadata.row_group(number).num_rows:
                yield shard, number, rows


# Column -> its dtype and the shape of one row.
Fields = Mapping[str, tuple[DTypeLike, tuple[int, ...]]]


@dataclass(frozen=True)
class Layout:
    """The array of each column. Scalar columns of one dtype share an array of shape [rows, columns], so that a batch is
    one gather and not one a column."""

    places: dict[str, tuple[int, int | None]]
    shapes: list[tuple[tuple[int, ...], np.dtype[Any]]]
    """The shape and dtype of one row of each array."""

    @classmethod
    def of(cls, fields: Fields) -> Layout:
        groups: dict[np.dtype[Any], list[str]] = {}
        for name, (dtype, shape) in fields.items():
            if not shape:
                groups.setdefault(np.dtype(dtype), []).append(name)
        places: dict[str, tuple[int, int | None]] = {}
        shapes: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        for dtype, names in groups.items():
            if len(names) == 1:
                places[names[0]] = (len(shapes), None)
                shapes.append(((), dtype))
            else:
                places |= {name: (len(shapes), number) for number, name in enumerate(names)}
                shapes.append(((len(names),), dtype))
        for name, (dtype, shape) in fields.items():
            if shape:
                places[name] = (len(shapes), None)
                shapes.append((shape, np.dtype(dtype)))
        return cls(places, shapes)

    def of_rows(self, num_rows: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each array for that many rows, by its number."""
        return {str(number): ((num_rows, *shape), dtype) for number, (shape, dtype) in enumerate(self.shapes)}


class Table:
    """Rows in the arrays of a layout."""

    def __init__(self, layout: Layout, arrays: Sequence[NDArray[Any]]) -> None:
        self.layout = layout
        self.arrays = list(arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def set(self, name: str, start: int, values: NDArray[Any]) -> None:
        """Fill the rows from `start` of a column."""
        array, column = self.layout.places[name]
        target = self.arrays[array][start : start + len(values)]
        if column is None:
            target[...] = values
        else:
            target[:, column] = values

    def column(self, name: str) -> NDArray[Any]:
        """All rows of a column, as a view."""
        array, column = self.layout.places[name]
        return self.arrays[array] if column is None else self.arrays[array][:, column]

    def take(self, indices: Indices | slice, names: Sequence[str]) -> Rows:
        """Copies of the rows at `indices`, or views of those in a slice.

        Raises:
            IndexError: a row that is not there.
        """
        places = self.layout.places
        needed = {places[name][0] for name in names}
        if isinstance(indices, slice):
            cut = [array[indices] if number in needed else array for number, array in enumerate(self.arrays)]
        else:
            cut = [
                array.take(indices, axis=0) if number in needed else array for number, array in enumerate(self.arrays)
            ]
        return Rows({name: places[name] for name in names}, cut)
