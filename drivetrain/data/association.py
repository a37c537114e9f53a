"""How the columns go together: with the label, and in being empty.

With the label by Pearson's correlation: with its sign, so that swapped labels show, and about normal where a column
says nothing of the label, as the share of variance between classes is not. Texts, and classes that are texts, count as
a number between 0 and 1 that their hash gives: a projection that sees most changes of how they go together. Of many
rows up to 4,096 are looked at, spread over each row group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.data.arrow import Array, Batch, Schema, arrow, numpy
from drivetrain.data.shapes import is_number
from drivetrain.data.sketches import as_integers, mixed, packed, unpacked

_MAX_ROWS, _MAX_CELLS = 1 << 12, 1 << 19

Moments = dict[str, Any]
"""Moments of each column: `n` rows, the means `x` of the column and `y` of the label, and the sums `xx`, `yy` and `xy`
of products of the distances from them; all float64 [columns]."""


class LabelMoments:
    """Gathers moments of the columns, in the order of the schema, with the label."""

    def __init__(self, schema: Schema, label: str) -> None:
        self._label = label
        self._names = [field.name for field in schema]
        self.moments = empty(len(self._names))

    def add(self, table: Batch) -> None:
        """Take in the next row group."""
        np, pa = numpy(), arrow()
        rows = min(_MAX_ROWS, max(512, _MAX_CELLS // len(self._names)))
        stride = -(-table.num_rows // rows)
        sample = table if stride == 1 else table.take(pa.array(np.arange(0, table.num_rows, stride)))
        with np.errstate(all="ignore"):
            label = _numbers(sample.column(self._label))
            later = _of_rows(np.stack([_numbers(sample.column(name)) for name in self._names]), label)
        self.moments = merged(self.moments, later)

    def merge(self, later: LabelMoments) -> None:
        """Take in what was gathered of other rows."""
        self.moments = merged(self.moments, later.moments)

    def state(self) -> dict[str, Any]:
        return {name: packed(values) for name, values in self.moments.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.moments = {name: unpacked(text) for name, text in state.items()}


class NullsTogether:
    """Finds columns that are empty in the very same rows: each has the sum of a hash of those rows."""

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self.sums = numpy().zeros(columns, "<u8")

    def add(self, table: Batch) -> None:
        np = numpy()
        hashes = None
        for place, column in enumerate(table.columns):
            if column.null_count:
                empty_rows = ~np.asarray(column.is_valid())
                if hashes is None:
                    hashes = mixed(np.arange(self.rows, self.rows + table.num_rows, dtype="<u8"))
                self.sums[place : place + 1] += hashes[empty_rows].sum(dtype="<u8")  # (arrays wrap around)
        self.rows += table.num_rows

    def merge(self, later: NullsTogether) -> None:
        self.rows += later.rows
        self.sums = joined_sums(self.sums, later.sums)

    def state(self) -> list[Any]:
        return [self.rows, packed(self.sums.view("<f8"))]

    def restore(self, state: Sequence[Any]) -> None:
        self.rows = state[0]
        self.sums = unpacked(state[1]).view("<u8").copy()


def joined_sums(first: Any, later: Any) -> Any:
    """The sums of NullsTogether for the rows of two sets: equal for columns that were equal in both."""
    return first * numpy().uint64(0x9E3779B97F4A7C15) + later


def empty(columns: int) -> Moments:
    """The moments of no rows."""
    return {name: numpy().zeros(columns) for name in ("n", "x", "y", "xx", "yy", "xy")}


def merged(first: Moments, later: Moments) -> Moments:
    """The moments of the rows of both (Chan, Golub and LeVeque 1979, as in columns.py)."""
    np = numpy()
    n = first["n"] + later["n"]
    with np.errstate(all="ignore"):
        share = np.where(n > 0, later["n"] / n, 0.0)
        apart = {name: later[name] - first[name] for name in ("x", "y")}
        found = {"n": n} | {name: first[name] + apart[name] * share for name in apart}
        for name in ("xx", "yy", "xy"):
            found[name] = first[name] + later[name] + apart[name[0]] * apart[name[1]] * first["n"] * share
    return found


def correlation(moments: Moments) -> Any:
    """Pearson's correlation of each column with the label, float64 [columns]; NaN where one of them is constant."""
    np = numpy()
    with np.errstate(all="ignore"):
        varies = _varies(moments, "x") & _varies(moments, "y")
        return np.where(varies, moments["xy"] / np.sqrt(moments["xx"] * moments["yy"]), np.nan)


def _varies(moments: Moments, name: str) -> Any:
    """True for the columns whose values (or label) differ by more than rounding."""
    return (moments["n"] > 2) & (moments[name + name] > 1e-26 * moments["n"] * moments[name] ** 2)


def _of_rows(columns: Any, label: Any) -> Moments:
    """The moments of rows: `columns` float64 [columns, rows], NaN for no value."""
    np = numpy()
    there = np.isfinite(columns) & np.isfinite(label)
    weights = there.astype("float64")
    label = np.where(np.isfinite(label), label, 0.0)
    middle = label.mean() if len(label) else 0.0
    label = label - middle
    n = weights.sum(axis=1)
    x = np.where(there, columns, 0.0).sum(axis=1) / np.maximum(n, 1)
    apart = np.where(there, columns - x[:, None], 0.0)
    y = weights @ label / np.maximum(n, 1)
    found = {"n": n, "x": x, "y": np.where(n > 0, y + middle, 0.0), "xx": np.einsum("cr,cr->c", apart, apart)}
    found |= {"yy": np.maximum(weights @ (label * label) - n * y * y, 0.0), "xy": apart @ label}
    return found


def _numbers(column: Array) -> Any:
    """A column as float64, NaN for no value; texts by their hash, lists and the like as NaN."""
    np, pa = numpy(), arrow()
    kinds = pa.types
    if is_number(column.type):
        if kinds.is_float16(column.type):
            column = column.cast(pa.float32())
        found = column.cast(pa.float64(), safe=False).to_numpy()
        return np.where(np.isfinite(found), found, np.nan)
    found = np.full(len(column), np.nan)
    if kinds.is_temporal(column.type) or kinds.is_string(column.type):
        if kinds.is_time(column.type) or kinds.is_duration(column.type) or kinds.is_interval(column.type):
            return found
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        there = np.asarray(column.is_valid())
        whole = as_integers(column.drop_null())
        found[there] = mixed(whole) * 2.0**-64 if kinds.is_string(column.type) else whole.view("<i8")
    return found
