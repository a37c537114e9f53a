"""Fitting transforms on the rows of the training side, as they are written; fitted.py says what comes of it.

A step's parameter declares them, the changes of a column in their order:

    [{"impute": {"columns": ["age", "x*"], "with": "median"}},          mean, median, most_frequent or {"value": 0}
     {"scale": {"columns": ["age"], "method": "standard"}},             or min_max; of lists with "each": "position"
     {"categories": {"columns": ["city"], "min_rows": 2, "max": 100}},  both may be left out
     {"vocabulary": {"columns": ["note"], "size": 20000, "length": 128}}]

Each is fitted on the values that are there: what is imputed does not count for a scale.
"""

from __future__ import annotations

import fnmatch
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.arrow import Array, DataType, Schema, arrow, numpy
from drivetrain.data.convert import described
from drivetrain.data.exact_sums import deviation, mean, packed, sums_and_squares, unpacked
from drivetrain.data.fitted import TEXT
from drivetrain.data.shapes import is_number
from drivetrain.data.sketches import Quantiles
from drivetrain.data.tokens import words_of

CHANGES = ("impute", "scale", "categories", "vocabulary")
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "impute": {"with": None},
    "scale": {"method": "standard", "each": "column"},
    "categories": {"min_rows": 1, "max": 10_000},
    "vocabulary": {"size": 20_000, "length": 128},
}
# Different values, or words, of a column that are counted.
MAX_COUNTED = 1_000_000
# Values that the sketch of a median takes at a time.
_PIECE = 1 << 14


@dataclass(frozen=True)
class Fit:
    """One change of one column."""

    change: str
    column: str
    options: Mapping[str, Any]


def declared_fits(text: str | None, schema: Schema, *, key: str, label: str | None) -> tuple[Fit, ...]:
    """The fits that a step's parameter declares, each of one column.

    Raises:
        InputError: the text declares none, or a change does not go with a column.
    """
    if not text:
        return ()
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"fit is not JSON ({error}).") from None
    example = '[{"scale": {"columns": ["age"], "method": "standard"}}]'
    if not isinstance(content, list) or not content:
        raise InputError(f"fit is not a list of changes. Example: {example}.")
    found: list[Fit] = []
    for number, entry in enumerate(cast("list[object]", content), start=1):
        where = f"fit, change {number}"
        items = list(cast("Mapping[str, object]", entry).items()) if isinstance(entry, Mapping) else []
        if len(items) != 1 or not isinstance(items[0][1], Mapping):
            raise InputError(f"{where} is {entry!r:.80}. Example: {example}.")
        change, options = items[0][0], dict(cast("Mapping[str, Any]", items[0][1]))
        if change not in CHANGES:
            raise InputError(f"{where}: there is no change {change!r}. {did_you_mean(change, CHANGES)}")
        columns = options.pop("columns", None)
        if not isinstance(columns, list) or not columns:
            raise InputError(f"{where}: {change} names no columns. Example: {example}.")
        for name in options:
            if name not in _OPTIONS[change]:
                raise InputError(f"{where}: {change} has no option {name!r}. {did_you_mean(name, _OPTIONS[change])}")
        for column in _matching(cast("list[Any]", columns), schema.names, where):
            if column in (key, label):
                raise InputError(f"{where}: column {column!r} is the key or the label, which stay as they are.")
            fit = Fit(change, column, {**_OPTIONS[change], **options})
            _check(fit, schema.field(column).type, [each.change for each in found if each.column == column], where)
            found.append(fit)
    return tuple(found)


class Fitting:
    """Gathers what the fits need, row group by row group."""

    def __init__(self, fits: Sequence[Fit], schema: Schema) -> None:
        self._fits = fits
        self._types = {fit.column: schema.field(fit.column).type for fit in fits}
        self._gatherers = [_gatherer(fit) for fit in fits]

    def add(self, table: Any) -> None:
        """Take in the next rows of the training side."""
        pa = arrow()
        for fit, gatherer in zip(self._fits, self._gatherers, strict=True):
            column = table.column(fit.column)
            values = (column.combine_chunks() if hasattr(column, "chunks") else column).drop_null()
            if pa.types.is_string(values.type):  # an empty text is missing, too (fitted.py)
                values = values.filter(pa.compute.not_equal(values, ""))
            gatherer.add(values)

    def result(self) -> dict[str, Any]:
        """The state that fitted.py applies; empty without fits.

        Raises:
            InputError: a column of the training side has no value.
        """
        columns: dict[str, Any] = {}
        for fit, gatherer in zip(self._fits, self._gatherers, strict=True):
            if not gatherer.is_fitted:
                raise InputError(f"fit: column {fit.column!r} has no value in train, so that nothing can be learnt.")
            entry = columns.setdefault(fit.column, {"type": _plain(self._types[fit.column]), "changes": []})
            entry["changes"].append({fit.change: gatherer.learnt()})
        return {"columns": columns} if columns else {}

    def state(self) -> list[Any]:
        return [gatherer.state() for gatherer in self._gatherers]

    def restore(self, state: Sequence[Any]) -> None:
        for gatherer, each in zip(self._gatherers, state, strict=True):
            gatherer.restore(each)


class _Moments:
    """Count, exact sums, least and greatest of the numbers of a column, or of each position of its lists."""

    def __init__(self, learnt: Callable[[_Moments], Any], *, positions: bool) -> None:
        self._learnt = learnt
        self._positions = positions
        self.count = 0
        self._sums: list[int] = []
        self._squares: list[int] = []
        self.low: Any = None
        self.high: Any = None

    def add(self, column: Array) -> None:
        np, pa = numpy(), arrow()
        if pa.types.is_nested(column.type):
            lengths = pa.compute.list_value_length(column).unique()
            values = np.asarray(column.flatten().cast(pa.float64()))
            if self._positions and len(lengths):
                if len(lengths) > 1 or (self.count and lengths[0].as_py() != len(self._sums)):
                    raise InputError(
                        "fit: lists of different lengths are not scaled by their positions. Leave out each."
                    )
                values = values.reshape(len(column), lengths[0].as_py())
        else:
            values = np.asarray(column.cast(pa.float64(), safe=False))
        table = values if values.ndim > 1 else values[:, np.newaxis]
        finite = np.isfinite(table).all(axis=1)
        table = table if finite.all() else table[finite]
        if not len(table):
            return
        # A zero may have a sign, by which the least of equal ones would depend on their order.
        low, high = table.min(axis=0) + 0.0, table.max(axis=0) + 0.0
        found = sums_and_squares(table)
        if self.count:
            low, high = np.minimum(self.low, low), np.maximum(self.high, high)
            earlier = self._sums, self._squares
            found = ([a + b for a, b in zip(*pair, strict=True)] for pair in zip(earlier, found, strict=True))
        self._sums, self._squares = found
        self.low, self.high = low, high
        self.count += len(table)

    @property
    def is_fitted(self) -> bool:
        return self.count > 0

    @property
    def means(self) -> list[float]:
        return [mean(total, self.count) for total in self._sums]

    @property
    def deviations(self) -> list[float]:
        return [deviation(*each, self.count) for each in zip(self._sums, self._squares, strict=True)]

    def plain(self, values: Sequence[float]) -> Any:
        """One number for a column, a list for the positions of lists."""
        return list(values) if self._positions else values[0]

    def learnt(self) -> Any:
        return self._learnt(self)

    def state(self) -> Any:
        if not self.count:
            return [0]
        return [self.count, packed(self._sums), packed(self._squares), self.low.tolist(), self.high.tolist()]

    def restore(self, state: Any) -> None:
        self.count = state[0]
        if self.count:
            self._sums, self._squares = unpacked(state[1]), unpacked(state[2])
            self.low, self.high = (numpy().asarray(each) for each in state[3:])


class _Median:
    """By the sketch of the statistics: exact up to 2,048 values, beyond within 0.5 % of the ranks.

    The sketch takes pieces of one size, however the values come: it is that of a run over everything.
    """

    def __init__(self) -> None:
        self._quantiles = Quantiles()
        self._rest = numpy().empty(0)

    def add(self, column: Array) -> None:
        np, pa = numpy(), arrow()
        numbers = column.cast(pa.float64(), safe=False)
        found = numbers.filter(pa.compute.is_finite(numbers)).to_numpy(zero_copy_only=False)
        found = np.concatenate([self._rest, found])
        while len(found) >= _PIECE:
            self._quantiles.add(pa.array(found[:_PIECE]))
            found = found[_PIECE:]
        self._rest = found

    @property
    def is_fitted(self) -> bool:
        return self._quantiles.count + len(self._rest) > 0

    def learnt(self) -> Any:
        whole = Quantiles.restored(self._quantiles.state())
        whole.add(arrow().array(self._rest))
        return whole.at([0.5])[0]

    def state(self) -> Any:
        return [self._quantiles.state(), self._rest.tolist()]

    def restore(self, state: Any) -> None:
        self._quantiles, self._rest = Quantiles.restored(state[0]), numpy().array(state[1], "float64")


class _Counts:
    """How often each value occurs, or each word."""

    def __init__(self, fit: Fit, learnt: Callable[[Sequence[tuple[Any, int]]], Any]) -> None:
        self._fit = fit
        self._learnt = learnt
        self._rows: Counter[Any] = Counter()

    def add(self, column: Array) -> None:
        if self._fit.change == "vocabulary":
            for text in column.to_pylist():
                self._rows.update(words_of(text))
        else:
            for count in column.value_counts().to_pylist():
                self._rows[count["values"]] += count["counts"]
        if len(self._rows) > MAX_COUNTED:
            raise InputError(
                f"fit: column {self._fit.column!r} has more than {MAX_COUNTED:,} different values. Leave it out of "
                f"{self._fit.change}, or make fewer of them with transform_data."
            )

    @property
    def is_fitted(self) -> bool:
        return bool(self._rows)

    def learnt(self) -> Any:
        """The most frequent first; of equally frequent ones the smallest."""
        return self._learnt(sorted(self._rows.items(), key=lambda item: (-item[1], item[0])))

    def state(self) -> Any:
        return list(self._rows.items())

    def restore(self, state: Any) -> None:
        self._rows = Counter(dict(state))


class _Given:
    """A constant."""

    is_fitted = True

    def __init__(self, value: Any) -> None:
        self._value = value

    def add(self, column: Array) -> None:
        """Nothing is learnt."""

    def learnt(self) -> Any:
        return self._value

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        """There is nothing."""


def _gatherer(fit: Fit) -> Any:
    options = fit.options
    if fit.change == "vocabulary":
        size, length = options["size"], options["length"]
        return _Counts(fit, lambda ranked: {"words": [word for word, _ in ranked[:size]], "length": length})
    if fit.change == "categories":
        least, most = options["min_rows"], options["max"]
        return _Counts(fit, lambda ranked: [value for value, rows in ranked[:most] if rows >= least])
    if fit.change == "scale":
        learnt = _standard if options["method"] == "standard" else _min_max
        return _Moments(learnt, positions=options["each"] == "position")
    how = options["with"]
    if isinstance(how, Mapping):
        return _Given(cast("Mapping[str, Any]", how)["value"])
    if how == "most_frequent":
        return _Counts(fit, lambda ranked: ranked[0][0])
    return _Median() if how == "median" else _Moments(lambda moments: moments.means[0], positions=False)


def _standard(moments: _Moments) -> dict[str, Any]:
    widths = [width if width > 0 else 1.0 for width in moments.deviations]
    return {"center": moments.plain(moments.means), "width": moments.plain(widths)}


def _min_max(moments: _Moments) -> dict[str, Any]:
    np = numpy()
    with np.errstate(over="ignore"):  # of the largest floats the width is infinite
        width = moments.high - moments.low
    widths = np.where(width > 0, width, 1.0).tolist()
    return {"center": moments.plain(moments.low.tolist()), "width": moments.plain(widths)}


def _plain(data_type: DataType) -> str:
    """The type of a column's values as numpy names it, or "text"."""
    kinds = arrow().types
    if kinds.is_string(data_type):
        return TEXT
    if kinds.is_nested(data_type):
        data_type = data_type.value_type
    return {"float": "float32", "double": "float64", "halffloat": "float16"}.get(str(data_type), str(data_type))


def _matching(columns: Sequence[Any], names: Sequence[str], where: str) -> list[str]:
    found: list[str] = []
    for pattern in columns:
        fitting = [name for name in names if name == pattern or fnmatch.fnmatchcase(name, str(pattern))]
        if not fitting:
            raise InputError(f"{where}: there is no column {pattern!r}. {did_you_mean(str(pattern), names)}")
        found += [name for name in fitting if name not in found]
    return found


def _check(fit: Fit, data_type: DataType, before: Sequence[str], where: str) -> None:
    """
    Raises:
        InputError: the change does not fit the column, has invalid options, or comes after a change that must be last.
    """
    kinds, options = arrow().types, fit.options
    where = f"{where}: {fit.change} of column {fit.column!r}"
    listed = kinds.is_list(data_type) or kinds.is_fixed_size_list(data_type)
    number = is_number(data_type) and not kinds.is_decimal(data_type)
    text, flat = kinds.is_string(data_type), kinds.is_integer(data_type) or kinds.is_boolean(data_type)
    if ended := next((name for name in before if name != "impute"), None):
        raise InputError(f"{where} comes after {ended}, which is a column's last change.")
    if fit.change == "impute":
        how = options["with"]
        constant = isinstance(how, Mapping) and set(cast("Mapping[str, Any]", how)) == {"value"}
        if not constant and how not in ("mean", "median", "most_frequent"):
            raise InputError(f'{where}: with is {how!r}. Allowed: "mean", "median", "most_frequent", {{"value": 0}}.')
        if constant:
            value = cast("Mapping[str, Any]", how)["value"]
            fits = isinstance(value, str) if text else isinstance(value, int | float) and number
        else:
            fits = (text or flat) if how == "most_frequent" else number
    elif fit.change == "scale":
        if options["method"] not in ("standard", "min_max") or options["each"] not in ("column", "position"):
            raise InputError(f"{where}: method is one of standard and min_max, each one of column and position.")
        fits = number or (listed and is_number(data_type.value_type))
    else:
        if any(not isinstance(value, int) or isinstance(value, bool) or value < 1 for value in options.values()):
            raise InputError(f"{where}: {', '.join(options)} are whole numbers from 1 on.")
        fits = text or (flat and fit.change == "categories")
    if not fits:
        raise InputError(f"{where}, which is {described(data_type)} column: the change does not go with this type.")
