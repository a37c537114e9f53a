"""The check of each rule on a batch: a mask of the rows that break it, or None for none.

The cheap question is asked first: a batch without a violation costs a look at its least and greatest values, no mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch, DataType, arrow, numpy
from drivetrain.data.convert import described
from drivetrain.data.leakage import value_hashes
from drivetrain.data.row_rules.declared import Rule

Check = Callable[[Batch], Array]
# A column whose first values repeat is looked at by its different values.
_FIRST_ROWS, _FEW = 1024, 64
NIGHT = "night"
"""A bound of this name is the time of the night, a parameter of the step."""


def check_of(rule: Rule, kind: DataType, night: str | None, references: Mapping[str, Array]) -> Check:
    """The check of one rule on a column of a type.

    Args:
        rule: any rule but `unique` and `unreadable`, which are of more than a batch's values.
        kind: the column's type.
        night: the time of the night, in ISO 8601.
        references: TABLE.COLUMN -> its values.

    Raises:
        InputError: the rule and the type do not go together.
    """
    if rule.name == "sum":
        return _sum(rule)
    of_column = _CHECKS[rule.name](rule, kind) if rule.name in _CHECKS else None
    if rule.name in ("min", "max", "above", "below"):
        of_column = _bound(rule, kind, night)
    elif rule.name == "found_in":
        of_column = _found_in(rule, kind, references[rule.value])
    assert of_column is not None
    check: Callable[[Array], Array] = of_column
    return lambda batch: check(batch.column(rule.column))


def refused(rule: Rule, kind: DataType, wanted: str) -> InputError:
    return InputError(f"rules: column {rule.column!r} is {described(kind)} column; {rule.name} is for {wanted}.")


def _nulls(rule: Rule, kind: DataType) -> Callable[[Array], Array]:
    compute = arrow().compute
    floats = arrow().types.is_floating(kind)

    def check(column: Array) -> Array:
        if not column.null_count and not (floats and compute.any(compute.is_nan(column)).as_py()):
            return None
        return column.is_null(nan_is_null=True)

    return check


def _blanks(rule: Rule, kind: DataType) -> Callable[[Array], Array]:
    compute = arrow().compute
    _check_text(rule, kind)

    def check(column: Array) -> Array:
        empty = compute.equal(compute.binary_length(column), 0)
        return _some(compute.or_(empty, compute.utf8_is_space(column)))

    return check


def _bound(rule: Rule, kind: DataType, night: str | None) -> Callable[[Array], Array]:
    pa = arrow()
    compute, kinds = pa.compute, pa.types
    if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_temporal(kind)):
        raise refused(rule, kind, "numbers, dates and time stamps")
    breaks = {
        "min": compute.less, "max": compute.greater, "above": compute.less_equal, "below": compute.greater_equal
    }[rule.name]  # fmt: skip
    bound = _scalar(rule, kind, night)
    end = "min" if rule.name in ("min", "above") else "max"

    def check(column: Array) -> Array:
        extreme = compute.min_max(column)[end]
        return (
            _some(breaks(column, bound)) if extreme.is_valid and breaks(extreme, bound).as_py() is not False else None
        )

    return check


def _scalar(rule: Rule, kind: DataType, night: str | None) -> Any:
    """The bound in the column's type."""
    pa = arrow()
    value = rule.value
    if value == NIGHT and pa.types.is_temporal(kind):
        if not night:
            raise InputError(f"rules: column {rule.column!r}, {rule.name} is night. Give the step night=2026-11-25.")
        value = night
    if pa.types.is_integer(kind) and isinstance(value, float) and math.isfinite(value):
        value = math.ceil(value) if rule.name in ("min", "below") else math.floor(value)
    try:
        if pa.types.is_decimal(kind) and not isinstance(value, str):
            return pa.scalar(Decimal(str(value)))
        if not isinstance(value, str):
            return pa.scalar(value, kind)
        if pa.types.is_temporal(kind):
            plain = pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
            text = value.removesuffix("Z")
            return pa.scalar(text[:10] if pa.types.is_date(kind) else text).cast(plain).cast(kind)
    except (pa.ArrowException, OverflowError, TypeError):
        pass
    raise InputError(
        f"rules: column {rule.column!r}, {rule.name} is {value!r}, which is not {described(kind)}, as the column is."
    )


def _values(rule: Rule, kind: DataType) -> Callable[[Array], Array]:
    pa = arrow()
    try:
        allowed = pa.array(rule.value, pa.string() if isinstance(rule.value[0], str) else None).cast(kind)
    except (pa.ArrowException, TypeError):
        raise InputError(
            f"rules: column {rule.column!r} is {described(kind)} column; one of its values is not."
        ) from None
    return _of_few(lambda column: pa.compute.is_in(column, value_set=allowed))


def _pattern(rule: Rule, kind: DataType) -> Callable[[Array], Array]:
    pa = arrow()
    _check_text(rule, kind)
    whole = rf"\A(?:{rule.value})\z"
    try:
        pa.compute.match_substring_regex(pa.array([""]), pattern=whole)
    except pa.ArrowInvalid as error:
        raise InputError(f"rules: column {rule.column!r}, pattern is {rule.value!r}: {error}.") from None
    return _of_few(lambda column: pa.compute.match_substring_regex(column, pattern=whole))


def _of_few(holds: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The check for a question that is asked of each value, and of each different value where there are few."""
    compute = arrow().compute

    def check(column: Array) -> Array:
        if len(column) > 4 * _FIRST_ROWS and len(column.slice(0, _FIRST_ROWS).unique()) <= _FEW:
            values = column.unique().drop_null()
            if compute.all(holds(values), min_count=0).as_py():
                return None
        right = holds(column)
        if compute.all(compute.or_kleene(right, column.is_null()), min_count=0).as_py():
            return None
        return _some(compute.and_(compute.invert(right.fill_null(True)), column.is_valid()))

    return check


def _min_length(rule: Rule, kind: DataType) -> Callable[[Array], Array]:
    return _length(rule, kind, lambda ends: ends["min"] >= 4 * rule.value, arrow().compute.less)


def _max_length(rule: Rule, kind: DataType) -> Callable[[Array], Array]:
    return _length(rule, kind, lambda ends: ends["max"] <= rule.value, arrow().compute.greater)


def _length(
    rule: Rule, kind: DataType, surely: Callable[[Any], bool], breaks: Callable[..., Array]
) -> Callable[[Array], Array]:
    """Characters take one to four bytes, whose number is known without a look at them."""
    compute = arrow().compute
    _check_text(rule, kind)

    def check(column: Array) -> Array:
        ends = compute.min_max(compute.binary_length(column)).as_py()
        if ends["min"] is None or surely(ends):
            return None
        return _some(breaks(compute.utf8_length(column), rule.value))

    return check


def _found_in(rule: Rule, kind: DataType, values: Array) -> Callable[[Array], Array]:
    np, pa = numpy(), arrow()
    try:
        known = np.unique(value_hashes(values.drop_null().cast(kind)))
    except pa.ArrowException:
        raise refused(rule, kind, f"columns of the type of {rule.value}, which is {described(values.type)}") from None

    def check(column: Array) -> Array:
        hashes = value_hashes(column)
        if not len(known):
            return _some(column.is_valid())
        order = np.argsort(hashes)  # (sorted hashes are found several times faster)
        found = np.empty(len(hashes), bool)
        found[order] = known[np.minimum(np.searchsorted(known, hashes[order]), len(known) - 1)] == hashes[order]
        return None if found.all() else _some(pa.compute.and_(pa.array(~found), column.is_valid()))

    return check


def _sum(rule: Rule) -> Check:
    """Parts without a value leave nothing to compare."""
    pa, np = arrow(), numpy()

    def numbers(batch: Batch, name: str) -> Any:
        if name not in batch.schema.names or not _is_number(batch.schema.field(name).type):
            raise InputError(f"rules: sums, {rule.column!r}: there is no column {name!r} of numbers.")
        return batch.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    def check(batch: Batch) -> Array:
        total = numbers(batch, rule.column)
        off = total - sum(numbers(batch, name) for name in rule.value)
        # A tolerance of 0 allows the last digits of sums of fractions.
        wrong = np.abs(off) > rule.tolerance + 1e-9 * np.abs(total)
        return pa.array(wrong) if wrong.any() else None

    return check


def _is_number(kind: DataType) -> bool:
    kinds = arrow().types
    return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)


def _check_text(rule: Rule, kind: DataType) -> None:
    if not arrow().types.is_string(kind):
        raise refused(rule, kind, "text")


def _some(mask: Array) -> Array:
    """A mask without nulls; None where nothing is in it."""
    return mask.fill_null(False) if arrow().compute.any(mask).as_py() else None


_CHECKS: Mapping[str, Callable[[Rule, DataType], Callable[[Array], Array]]] = {
    "nulls": _nulls,
    "blanks": _blanks,
    "values": _values,
    "pattern": _pattern,
    "min_length": _min_length,
    "max_length": _max_length,
}
