"""How the columns go together: with the label, and in being empty.

With the label by Pearson's correlation, and for up to 20 classes by the correlation ratio (Fisher 1925, "Statistical
Methods for Research Workers", section 44: the share of a column's variance that lies between the classes). Texts, and
classes that are texts, count as a number between 0 and 1 that their hash gives: a projection that sees most changes of
how they go together, such as labels that were shuffled or swapped. Of many rows up to 4,096 are looked at, spread over
each row group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.data.arrow import Array, Batch, Schema, arrow, numpy
from drivetrain.data.shapes import is_number
from drivetrain.data.sketches import as_integers, mixed, packed, unpacked

MAX_CLASSES = 20
_MAX_ROWS, _MAX_CELLS = 1 << 12, 1 << 19

Moments = dict[str, Any]
"""Moments of each column: `n` rows, the means `x` of the column and `y` of the label, and the sums `xx`, `yy` and `xy`
of products of the distances from them; all float64 [columns]. `class_n` and `class_x` have the rows and the mean by
class, [classes, columns]."""


class LabelMoments:
    """Gathers moments of the columns, in the order of the schema, with the label."""

    def __init__(self, schema: Schema, label: str) -> None:
        self._label = label
        self._names = [field.name for field in schema]
        self._is_class = not arrow().types.is_floating(schema.field(label).type)
        self.classes: tuple[Any, ...] = ()
        """The classes in `moments`; none of a quantity, or where there are more than MAX_CLASSES."""
        self.moments = empty(len(self._names))

    def add(self, table: Batch) -> None:
        """Take in the next row group."""
        np, pa = numpy(), arrow()
        rows = min(_MAX_ROWS, max(512, _MAX_CELLS // len(self._names)))
        stride = -(-table.num_rows // rows)
        sample = table if stride == 1 else table.take(pa.array(np.arange(0, table.num_rows, stride)))
        with np.errstate(all="ignore"):
            label = _numbers(sample.column(self._label))
            columns = np.stack([_numbers(sample.column(name)) for name in self._names])
            classes, codes = self._classes(sample.column(self._label))
            later = _of_rows(columns, label, codes, len(classes))
        self._take_in(classes, later)

    def merge(self, later: LabelMoments) -> None:
        """Take in what was gathered of other rows."""
        self._take_in(later.classes, later.moments)

    def state(self) -> dict[str, Any]:
        flat = {name: packed(values.ravel()) for name, values in self.moments.items()}
        return {"classes": list(self.classes), "is_class": self._is_class, "moments": flat}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.classes, self._is_class = tuple(state["classes"]), state["is_class"]
        columns = len(self._names)
        moments = {name: unpacked(text) for name, text in state["moments"].items()}
        self.moments = {name: each.reshape(-1, columns) if "class" in name else each for name, each in moments.items()}

    def _classes(self, label: Array) -> tuple[tuple[Any, ...], Any]:
        """The classes of some rows, and by row which of them it has."""
        if not self._is_class:
            return (), None
        encoded = (label.combine_chunks() if isinstance(label, arrow().ChunkedArray) else label).dictionary_encode()
        if len(encoded.dictionary) > MAX_CLASSES:
            self._is_class = False
            return (), None
        return tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy(zero_copy_only=False)

    def _take_in(self, classes: Sequence[Any], later: Moments) -> None:
        self.classes, self.moments = merged(self.classes, self.moments, classes, later)
        if not self._is_class or len(self.classes) > MAX_CLASSES:
            self._is_class, self.classes = False, ()
            self.moments |= {name: self.moments[name][:0] for name in ("class_n", "class_x")}


class NullsTogether:
    """Finds columns that are empty in the very same rows: each has the sum of a hash of those rows."""

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self.incomplete = 0
        """Rows with an empty cell."""
        self.sums = numpy().zeros(columns, "<u8")

    def add(self, table: Batch) -> None:
        np = numpy()
        hashes, incomplete = None, None
        for place, column in enumerate(table.columns):
            if column.null_count:
                empty_rows = ~np.asarray(column.is_valid())
                if hashes is None:
                    hashes = mixed(np.arange(self.rows, self.rows + table.num_rows, dtype="<u8"))
                    incomplete = np.zeros(table.num_rows, bool)
                self.sums[place : place + 1] += hashes[empty_rows].sum(dtype="<u8")  # (arrays wrap around)
                incomplete |= empty_rows
        self.rows += table.num_rows
        self.incomplete += 0 if incomplete is None else int(np.count_nonzero(incomplete))

    def merge(self, later: NullsTogether) -> None:
        self.rows += later.rows
        self.incomplete += later.incomplete
        self.sums = joined_sums(self.sums, later.sums)

    def state(self) -> list[Any]:
        return [self.rows, self.incomplete, packed(self.sums.view("<f8"))]

    def restore(self, state: Sequence[Any]) -> None:
        self.rows, self.incomplete = state[0], state[1]
        self.sums = unpacked(state[2]).view("<u8").copy()


def joined_sums(first: Any, later: Any) -> Any:
    """The sums of NullsTogether for the rows of two sets: equal for columns that were equal in both."""
    return first * numpy().uint64(0x9E3779B97F4A7C15) + later


def empty(columns: int) -> Moments:
    """The moments of no rows."""
    np = numpy()
    found = {name: np.zeros(columns) for name in ("n", "x", "y", "xx", "yy", "xy")}
    return {**found, **{name: np.zeros((0, columns)) for name in ("class_n", "class_x")}}


def merged(
    first_classes: Sequence[Any], first: Moments, later_classes: Sequence[Any], later: Moments
) -> tuple[tuple[Any, ...], Moments]:
    """The moments of the rows of both (Chan, Golub and LeVeque 1979, as in columns.py), and their classes."""
    np = numpy()
    classes = tuple(dict.fromkeys((*first_classes, *later_classes)))
    n = first["n"] + later["n"]
    with np.errstate(all="ignore"):
        share = np.where(n > 0, later["n"] / n, 0.0)
        apart = {name: later[name] - first[name] for name in ("x", "y")}
        found = {"n": n} | {name: first[name] + apart[name] * share for name in apart}
        for name in ("xx", "yy", "xy"):
            found[name] = first[name] + later[name] + apart[name[0]] * apart[name[1]] * first["n"] * share
        a, b = (_aligned(*each, classes) for each in ((first_classes, first), (later_classes, later)))
        found["class_n"] = a[0] + b[0]
        share = np.where(found["class_n"] > 0, b[0] / found["class_n"], 0.0)
        found["class_x"] = a[1] + (b[1] - a[1]) * share
    return classes, found


def correlation(moments: Moments) -> Any:
    """Pearson's correlation of each column with the label, float64 [columns]; NaN where one of them is constant."""
    np = numpy()
    with np.errstate(all="ignore"):
        varies = _varies(moments, "x") & _varies(moments, "y")
        return np.where(varies, moments["xy"] / np.sqrt(moments["xx"] * moments["yy"]), np.nan)


def correlation_ratio(moments: Moments) -> Any:
    """The share of each column's variance that lies between the classes, less what chance gives (Kelley 1935): about
    0 where the column says nothing of the class. float64 [columns]; NaN without classes."""
    np = numpy()
    n, rows = moments["n"], moments["class_n"]
    count = (rows > 0).sum(axis=0)
    with np.errstate(all="ignore"):
        between = (rows * (moments["class_x"] - moments["x"]) ** 2).sum(axis=0)
        found = 1 - (1 - between / moments["xx"]) * (n - 1) / (n - count)
        return np.where(_varies(moments, "x") & (count > 1) & (n > count), found, np.nan)


def _varies(moments: Moments, name: str) -> Any:
    """True for the columns whose values (or label) differ by more than rounding."""
    return (moments["n"] > 2) & (moments[name + name] > 1e-26 * moments["n"] * moments[name] ** 2)


def _aligned(classes: Sequence[Any], moments: Moments, wanted: Sequence[Any]) -> list[Any]:
    """`class_n` and `class_x` with the classes that are wanted, zeros for those that are not there."""
    np = numpy()
    places = [wanted.index(each) for each in classes]
    found: list[Any] = []
    for name in ("class_n", "class_x"):
        values = np.zeros((len(wanted), len(moments["n"])))
        values[places] = moments[name]
        found.append(values)
    return found


def _of_rows(columns: Any, label: Any, codes: Any, classes: int) -> Moments:
    """The moments of rows: `columns` float64 [columns, rows], NaN for no value; `codes` says which class a row has."""
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
    of_class = np.zeros((len(label), classes))
    if classes:
        of_class[np.arange(len(label)), codes] = 1.0
    class_n = (weights @ of_class).T
    apart_n = (apart @ of_class).T
    return {**found, "class_n": class_n, "class_x": np.where(class_n > 0, x + apart_n / class_n, 0.0)}


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
