"""The verbs of a transformation: frozen data; each verb knows the columns of its result.

Rows keep their order through select, rename, cast, filter, derive, window, deduplicate and sample. A join has the order
of its left side, then of its right; an aggregation is sorted by what it groups by; sort puts null last. shuffle
draws an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.transform import types
from drivetrain.data.transform.expressions import Call, Column, Expression
from drivetrain.data.transform.expressions import Literal as Constant
from drivetrain.data.transform.forms import check_distinct, other_how
from drivetrain.data.transform.operations import UNITS

Columns = Mapping[str, str]
"""Name -> type, in order."""
How = Literal["inner", "left", "semi", "anti"]


def result_type(expression: Expression, columns: Columns, where: str) -> str:
    """The type of an expression's values, which engines cast to.

    Raises:
        InputError: it reads a column that is not there, or an operation does not take these types.
    """
    if isinstance(expression, Column):
        return columns[known(expression.name, columns, where)]
    if isinstance(expression, Constant):
        return _constant_type(expression)
    assert isinstance(expression, Call)
    found = expression.operation
    given: list[str] = []
    for place, argument in enumerate(expression.arguments):
        if found.is_constant(place) and not isinstance(argument, Constant):
            raise InputError(f"{where}: argument {place + 1} of {found.name} must be a constant, not an expression.")
        given.append(result_type(argument, columns, where))
    found.check_kinds(given, where)
    _check_constants(expression, given, where)
    return found.result(given, where)


def known(name: str, columns: Columns, where: str) -> str:
    """
    Raises:
        InputError: there is no such column.
    """
    if name not in columns:
        raise InputError(f"{where}: there is no column {name!r}. {did_you_mean(name, columns)}")
    return name


def _known_once(names: tuple[str, ...], columns: Columns, where: str) -> tuple[str, ...]:
    """
    Raises:
        InputError: there is no such column, or one is named twice.
    """
    return tuple(known(name, columns, where) for name in check_distinct(names, where))


@dataclass(frozen=True)
class Select:
    """These columns alone, in this order."""

    names: tuple[str, ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        if not self.names:
            raise InputError("select: it names no column. Name those that remain.")
        return {name: columns[name] for name in _known_once(self.names, columns, "select")}


@dataclass(frozen=True)
class Rename:
    """Other names for columns: pairs of old and new."""

    names: tuple[tuple[str, str], ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        new = {known(old, columns, "rename"): name for old, name in self.names}
        found = [new.get(name, name) for name in columns]
        if repeated := next((name for name in found if found.count(name) > 1), None):
            raise InputError(f"rename: two columns would be called {repeated!r}. Choose another name.")
        return dict(zip(found, columns.values(), strict=True))


@dataclass(frozen=True)
class Cast:
    """Other types for columns: pairs of name and type."""

    types: tuple[tuple[str, str], ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        found = dict(columns)
        for name, kind in self.types:
            check_cast(columns[known(name, columns, "cast")], kind, f"cast: column {name!r}")
            found[name] = kind
        return found


@dataclass(frozen=True)
class Filter:
    """The rows for which the condition is true; null is not."""

    condition: Expression

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        _only_rows(self.condition, "filter")
        kind = result_type(self.condition, columns, "filter")
        if kind != "bool":
            raise InputError(
                f"filter: the condition is of the type {kind}; it must be a bool. Compare it with a value."
            )
        return columns


@dataclass(frozen=True)
class Derive:
    """New columns, or others in place of old ones; all of them read the columns before this verb."""

    values: tuple[tuple[str, Expression], ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        found = dict(columns)
        for name, expression in self.values:
            where = f"derive: {name!r}"
            _only_rows(expression, where)
            found[name] = _not_null(result_type(expression, columns, where), where)
        return found


@dataclass(frozen=True)
class Join:
    """The rows of another table where the keys are equal; a null key is equal to none."""

    table: str
    on: tuple[str, ...]
    how: How

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        where = f"join with {self.table!r}"
        if self.how not in get_args(How):
            raise InputError(
                f"{where}: how is {self.how!r}. {other_how(self.how) or did_you_mean(self.how, get_args(How))}"
            )
        if self.table not in tables:
            raise InputError(f"{where}: there is no such table. {did_you_mean(self.table, tables)}")
        if not self.on:
            raise InputError(f"{where}: it names no column to join on.")
        check_distinct(self.on, where)
        other = tables[self.table]
        for name in self.on:
            left, right = columns[known(name, columns, where)], other[known(name, other, f"{where}: in that table")]
            if left != right:
                raise InputError(f"{where}: {name!r} is {left} on the left and {right} on the right. Cast one of them.")
            if types.is_float(left):
                raise InputError(f"{where}: {name!r} is a float, which is rarely equal. Cast it to an integer or text.")
        if self.how in ("semi", "anti"):
            return columns
        more = {name: kind for name, kind in other.items() if name not in self.on}
        if both := next((name for name in more if name in columns), None):
            raise InputError(f"{where}: both tables have a column {both!r}. Rename one, or leave it out with select.")
        return {**columns, **more}


@dataclass(frozen=True)
class Aggregate:
    """One row a group: what it is grouped by (nothing: one row for all), and aggregates of the rest."""

    by: tuple[str, ...]
    values: tuple[tuple[str, Call], ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        if not self.values and not self.by:
            raise InputError("aggregate: it names no value, and nothing to group by.")
        found = {name: columns[name] for name in _known_once(self.by, columns, "aggregate: by")}
        for name, call in self.values:
            where = f"aggregate: {name!r}"
            if name in found:
                raise InputError(f"{where}: this is the name of a column that is grouped by. Choose another.")
            _one_of(call, ("aggregate",), where)
            found[name] = _not_null(result_type(call, columns, where), where)
        return found


@dataclass(frozen=True)
class Window:
    """New columns that look at the rows of the same partition, in an order; all rows stay as and where they are."""

    by: tuple[str, ...]
    order_by: tuple[str, ...]
    values: tuple[tuple[str, Call], ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        for names in (self.by, self.order_by):
            _known_once(names, columns, "window")
        found = dict(columns)
        for name, call in self.values:
            where = f"window: {name!r}"
            _one_of(call, ("aggregate", "window"), where)
            if call.operation.place == "window" and not self.order_by:
                raise InputError(f"{where}: {call.operation.name} needs an order. Name columns with order_by.")
            found[name] = _not_null(result_type(call, columns, where), where)
        return found


@dataclass(frozen=True)
class Deduplicate:
    """The first row of each group of equal rows: the first in the order of `order_by`, else the first there is."""

    by: tuple[str, ...]
    order_by: tuple[str, ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        if not self.by:
            raise InputError("deduplicate: it names no column that tells rows apart. Name them with by.")
        for names in (self.by, self.order_by):
            _known_once(names, columns, "deduplicate")
        return columns


@dataclass(frozen=True)
class Sort:
    """Rows in the order of these columns, the smallest first and null last; equal ones stay in their order."""

    by: tuple[str, ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        if not self.by:
            raise InputError("sort: it names no column.")
        _known_once(self.by, columns, "sort")
        return columns


@dataclass(frozen=True)
class Sample:
    """The rows whose key hashes into the lowest `percent`: the same rows each time, also when data grows."""

    key: str
    percent: int
    salt: str

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        _check_key(self.key, columns, "sample")
        if not 1 <= self.percent <= 99:
            raise InputError(f"sample: percent is {self.percent}. Allowed: 1 to 99.")
        return columns


@dataclass(frozen=True)
class Shuffle:
    """Rows in an order that is drawn by the hash of their key with the seed: reading from start to end is random."""

    key: str
    seed: int

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        _check_key(self.key, columns, "shuffle")
        return columns


@dataclass(frozen=True)
class MapBatches:
    """A function of the user's: a pyarrow.RecordBatch in, one with these columns out; batches are cut anyhow."""

    function: Callable[[Any], Any] | str
    columns: tuple[tuple[str, str], ...]

    def output(self, columns: Columns, tables: Mapping[str, Columns]) -> Columns:
        if not self.columns:
            raise InputError("map_batches: it says no columns. Name those that the function gives, with their types.")
        return dict(self.columns)


_OfRows = Select | Rename | Cast | Filter | Derive | Sample | Shuffle | MapBatches
Verb = _OfRows | Join | Aggregate | Window | Deduplicate | Sort

# From -> to. A cast that two engines make in two ways (a float's text, a fraction's truncation) is not here.
_CASTS = {
    "integer": ("number", "text", "decimal"),
    "float": ("number",),
    "bool": ("number",),
    "text": ("number", "bool", "date32", "naive", "decimal", "binary"),
    "date32": ("text", "naive"),
    "time": ("date32",),
    "decimal": ("float", "decimal"),
}


def check_cast(given: str, wanted: str, where: str) -> None:
    """
    Raises:
        InputError: values of the one type are not cast to the other.
    """
    if given in (wanted, "null"):
        return
    kinds = [kind for kind in _CASTS if _is(given, kind)]
    allowed = [target for kind in kinds for target in _CASTS[kind]]
    if not any(_is(wanted, target) for target in allowed):
        named = {"naive": "timestamp[us]", "text": "string", "number": "integers, floats"}
        listed = ", ".join(named.get(target, target) for target in dict.fromkeys(allowed)) or "none"
        raise InputError(f"{where}: {given} is not cast to {wanted}. Allowed: {listed}.")


def _is(name: str, kind: str) -> bool:
    if kind == "decimal":
        return types.is_decimal(name)
    if kind == "naive":
        return types.is_timestamp(name) and types.zone_of(name) is None
    if kind in ("date32", "binary"):
        return name == kind
    return name != "null" and types.is_kind(name, kind)


def _check_constants(call: Call, given: list[str], where: str) -> None:
    """Check a constant beyond its type. The constant of cast and to_zone becomes the type that it names."""
    name = call.operation.name
    values = [argument.value for argument in call.arguments if isinstance(argument, Constant)]
    if name == "cast":
        given[1] = types.type_named(str(values[-1]))
        check_cast(given[0], given[1], f"{where}: cast")
    elif name == "to_zone":
        given[1] = f"timestamp[us, tz={types.known_zone(str(values[-1]))}]"
    elif name == "truncate" and values[-1] not in UNITS:
        raise InputError(f"{where}: truncate to {values[-1]!r}. {did_you_mean(str(values[-1]), UNITS)}")
    elif name == "replace" and values[-2] == "":
        raise InputError(f"{where}: replace is given an empty text to look for. Allowed: one character or more.")
    elif name == "quantile" and not 0 <= float(str(values[-1])) <= 1:
        raise InputError(f"{where}: the fraction of quantile is {values[-1]}. Allowed: 0 to 1.")
    elif (name in ("lag", "lead", "round") and int(str(values[-1])) < 0) or (
        name == "bucket" and int(str(values[-2])) < 1
    ):
        raise InputError(f"{where}: {name} is given {values[-1]!r}. Allowed: no negative number, and 1 bucket or more.")
    elif name == "slice" and min(int(str(value)) for value in values[-2:]) < 0:
        raise InputError(f"{where}: slice is given {values[-2:]}. Allowed: a place and a count from 0 on.")


def _constant_type(constant: Constant) -> str:
    value = constant.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float64" if isinstance(value, float) else "string"


def _only_rows(expression: Expression, where: str) -> None:
    if isinstance(expression, Call):
        _one_of(expression, ("row",), where)


def _one_of(call: Call, places: tuple[str, ...], where: str) -> None:
    """The call itself is of one of these places, and all below it work row by row."""
    if call.operation.place not in places:
        use = {"row": "derive", "aggregate": "aggregate or window", "window": "window"}[call.operation.place]
        raise InputError(f"{where}: {call.operation.name} does not belong here. Use it in `{use}`.")
    for argument in call.arguments:
        _only_rows(argument, where)


def _not_null(name: str, where: str) -> str:
    if name == "null":
        raise InputError(f"{where}: a column of nulls has no type. Cast the null to the type that is meant.")
    return name


def _check_key(key: str, columns: Columns, where: str) -> None:
    kind = columns[known(key, columns, where)]
    if not types.is_integer(kind) and kind != "string":
        raise InputError(f"{where}: the key {key!r} is of the type {kind}. Allowed: integers and text.")


def names_of(given: Iterable[str] | str) -> tuple[str, ...]:
    """One name, or several."""
    return (given,) if isinstance(given, str) else tuple(given)
