"""From the values that a file holds to a column's type, and the place of the first value that does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from drivetrain.data.arrow import Array, Batch, DataType, Schema, arrow
from drivetrain.data.fitted import MISSING

_FIRST_CELLS = 64
# The hints for a whole number in a column whose type was inferred.
WIDE_INTEGER = (
    ": it is a whole number beyond int64, and a float64 does not hold all its digits. Give the column a type: "
    "decimal(38, 0), string, uint64 if no number is negative, or float64 if 16 digits are enough"
)
INEXACT_INTEGER = (
    ": other cells of the column are no int64 (they have fractions, or are larger), and a float64 does not hold all "
    "digits of this whole number. Give the column a type: decimal(38, 6), string, or float64 if 16 digits are enough"
)
INT64 = range(-(1 << 63), 1 << 63)
# Whole numbers up to here are floats of 64 bits, too.
_EXACT = 2.0**53
_WIDE_INTEGER_CELL = r"^\s*[+-]?[0-9]{16,}\s*$"
# Text that Arrow reads as a number, or that becomes one without its sign, and that means something else: identifiers
# with leading zeros, hexadecimal digits, telephone numbers.
_CODE = r"^[+-]?0[0-9]+$|^0[xX][0-9a-fA-F]+$|^\+[0-9]{8,}$"
OVERFLOW = (
    ": it is beyond the range of the type. Correct it, write inf if that is meant, or give the column a wider type"
)
_INFINITY = r"^\s*[+-]?inf(inity)?\s*$"


class BadValueError(ValueError):
    """The value at `row` (an index in the batch) of `column` is not what it must be."""

    def __init__(self, column: str, row: int, shown: str, wanted: str) -> None:
        super().__init__(f"column {column!r}: {shown} is not {wanted}")
        self.row = row


class Unreadable:
    """Cells that are not of their column's type, taken in from one batch after the other in place of an error.

    Args:
        columns: those whose cells are taken in.
    """

    def __init__(self, columns: frozenset[str]) -> None:
        self.columns = columns
        self._cells: dict[str, tuple[list[int], list[str]]] = {}

    def take_in(self, name: str, column: Array, fits: Callable[[Array], bool]) -> Array:
        """The column without the values that do not fit."""
        pa = arrow()
        rows = list(_bad_rows(column, 0, fits))
        self._cells[name] = rows, column.take(pa.array(rows, pa.int64())).to_pylist()
        wrong = pa.compute.is_in(pa.array(range(len(column)), pa.int64()), value_set=pa.array(rows, pa.int64()))
        return pa.compute.if_else(wrong, pa.scalar(None, column.type), column)

    def taken(self) -> dict[str, tuple[list[int], list[str]]]:
        """Column -> rows and cells of the last batch, as they stand in the file."""
        cells, self._cells = self._cells, {}
        return cells


def _bad_rows(column: Array, start: int, fits: Callable[[Array], bool]) -> Iterator[int]:
    """The rows of all values that do not fit, by halving."""
    if fits(column):
        return
    if len(column) == 1:
        yield start
        return
    middle = len(column) // 2
    yield from _bad_rows(column.slice(0, middle), start, fits)
    yield from _bad_rows(column.slice(middle), start + middle, fits)


def described(data_type: DataType) -> str:
    """A type with its article: "an int64", "a bool"; the width of a float is said, as Arrow calls 32 bits float."""
    text = {"float": "float32", "double": "float64", "null": "missing value"}.get(str(data_type), str(data_type))
    return ("an " if text[0] in "aeio" else "a ") + text


def typed(name: str, data_type: str) -> str:
    """The settings that give one column a type, and leave those of the others to be inferred."""
    return f'schema="{name}:{data_type}", extra_columns="keep"'


def converted(
    batch: Batch,
    schema: Schema,
    *,
    text: bool,
    strict: frozenset[str] = frozenset(),
    unreadable: Unreadable | None = None,
) -> Batch:
    """The batch with the schema's columns, order and types.

    Args:
        batch: a batch with at least the schema's columns.
        schema: the wanted columns.
        text: the columns are the cells of a text file, so that MISSING and blanks around numbers are understood.
        strict: columns whose type was inferred. Then a number with leading zeros (a code) is no integer, a whole number
            with more digits than a float64 holds is no float, and a number is no bool.
        unreadable: takes in the values of its columns that do not fit, and they become null.

    Raises:
        BadValueError: the first value that does not fit.
    """
    pa = arrow()
    columns: list[Array] = []
    for field in schema:
        column = batch.column(field.name)
        if column.type != field.type:

            def fitting(part: Array, field: Schema = field) -> Array | None:
                result = parsed(part, field.type, field.name in strict) if text else _cast(part, field.type)
                return None if result is None or _overflows(part, result) else result

            result = fitting(column)
            if result is None and unreadable and field.name in unreadable.columns:
                result = fitting(unreadable.take_in(field.name, column, lambda part: fitting(part) is not None))
            if result is None:
                raise _bad_value(field, column, lambda part: fitting(part) is not None)
            column = result
        columns.append(_without_nan(column) if text and pa.types.is_floating(field.type) else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def parsed(column: Array, data_type: DataType, strict: bool) -> Array | None:
    """Text cells as values of the type, or None where one does not fit."""
    pa = arrow()
    if pa.types.is_string(data_type):
        return column
    result = _cast(column, data_type)
    if result is None:  # the slower way, for cells with blanks, signs or markers of missing values
        column = pa.compute.utf8_trim_whitespace(column)
        if strict and pa.types.is_integer(data_type) and _has_codes(column, "+"):
            return None
        missing = pa.compute.is_in(column, value_set=pa.array(MISSING))
        column = pa.compute.if_else(missing, pa.scalar(None, pa.string()), column)
        if pa.types.is_integer(data_type):
            column = pa.compute.replace_substring_regex(column, pattern=r"^\+([0-9])", replacement=r"\1")
        result = _cast(column, data_type)
    return None if result is None or (strict and _means_something_else(column, result)) else result


def _means_something_else(column: Array, result: Array) -> bool:
    """Return True if a cell's text means another value than the one read, or is just text. It runs for all rows, so the
    cheap checks come before those that look at text."""
    compute, kinds = arrow().compute, arrow().types
    if kinds.is_integer(result.type):
        least = compute.min(result).as_py()
        starts = ("0", "-0") if least is not None and least < 0 else ("0",)
        return _has_codes(column, *starts)
    if kinds.is_boolean(result.type):  # 1 and 0 are numbers, beside true and false they are neither
        shortest = compute.min(compute.binary_length(column)).as_py()
        return shortest is not None and shortest < len("true")
    return kinds.is_floating(result.type) and (has_wide_integers(column) or _has_words_of_nan(column, result))


def inferred_type(column: Array) -> DataType:
    """The narrowest of null, int64, double, bool and string that holds every cell.

    Whole numbers with leading zeros (postal codes, identifiers) are text, and so are hexadecimal ones, and those of 8
    and more digits after a plus sign (telephone numbers). So are dates: give those a type.
    """
    pa = arrow()
    if _has_codes(pa.compute.utf8_trim_whitespace(column), "0", "-0", "+"):
        return pa.string()
    for data_type in (pa.int64(), pa.float64(), pa.bool_()):
        strict = not pa.types.is_floating(data_type)  # digits that a float loses are no reason to take it for text
        # What its first cells are not, the column is not.
        if parsed(column.slice(0, _FIRST_CELLS), data_type, strict) is None:
            continue
        result = parsed(column, data_type, strict)
        if result is not None and not (pa.types.is_floating(data_type) and _has_words_of_nan(column, result)):
            return pa.null() if result.null_count == len(result) else data_type
    return pa.string()


def decimal_point(text: str) -> str:
    """`8,9 has a decimal comma: write 8.9`"""
    return f"{text} has a decimal comma: write {text.replace('.', '').replace(',', '.')}"


def wider_text_type(first: DataType, second: DataType) -> DataType:
    """The type of cells if some infer as `first` and some as `second`."""
    pa = arrow()
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if {str(first), str(second)} == {"int64", "double"}:
        return pa.float64()
    return pa.string()


def may_lose_digits(column: Array) -> bool:
    """Return True if a float is so large that it may stand for another whole number than the text has."""
    ends = arrow().compute.min_max(column).as_py()
    return ends["min"] is not None and max(-ends["min"], ends["max"]) >= _EXACT


def has_infinities(column: Array) -> bool:
    """Return True if a column of floats has inf or -inf: as it was written, or of a number that overflows."""
    ends = arrow().compute.min_max(column).as_py()
    return math.inf in (ends["max"], -(ends["min"] or 0.0))


def _overflows(column: Array, result: Array) -> bool:
    """Return True if a value that is a number became infinite as a float."""
    pa = arrow()
    compute = pa.compute
    if not pa.types.is_floating(result.type) or not has_infinities(result):
        return False
    given = column.filter(compute.is_inf(result))
    if pa.types.is_string(given.type):
        return not compute.all(compute.match_substring_regex(given, pattern=_INFINITY, ignore_case=True)).as_py()
    return not pa.types.is_floating(given.type) or not compute.all(compute.is_inf(given)).as_py()


def lost_digits(number: int) -> str:
    """The reason that a float64 does not hold all digits of a whole number; empty if it does."""
    if number not in INT64:
        return WIDE_INTEGER
    return "" if int(float(number)) == number else INEXACT_INTEGER


def has_wide_integers(column: Array) -> bool:
    """Return True if a cell is a whole number that a float64 does not hold."""
    compute = arrow().compute
    long = column.filter(compute.greater_equal(compute.binary_length(column), len(str(int(_EXACT)))))
    digits = long.filter(compute.match_substring_regex(long, pattern=_WIDE_INTEGER_CELL))
    return any(lost_digits(_whole(cell)) for cell in digits.to_pylist())


def _whole(cell: str) -> int:
    """The number of a cell of digits; of more than 20 digits the first ones, which are beyond int64 themselves."""
    digits = int(cell.strip().lstrip("+-").lstrip("0")[:20] or "0")
    return -digits if "-" in cell else digits


def _without_nan(column: Array) -> Array:
    """Floats of text, in which NaN marks a missing value; Arrow reads it as a number."""
    pa = arrow()
    if pa.types.is_float16(column.type):
        return column
    nan = pa.compute.is_nan(column)
    return pa.compute.if_else(nan, pa.scalar(None, column.type), column) if pa.compute.any(nan).as_py() else column


def _has_words_of_nan(column: Array, result: Array) -> bool:
    """Return True if a cell that was read as NaN is not in MISSING: "Nan" may be a name."""
    pa = arrow()
    if pa.types.is_float16(result.type):
        return False
    cells = pa.compute.utf8_trim_whitespace(column.filter(pa.compute.is_nan(result)))
    return not pa.compute.all(pa.compute.is_in(cells, value_set=pa.array(MISSING))).as_py() if len(cells) else False


def _has_codes(column: Array, *starts: str) -> bool:
    """Return True if a cell with one of these starts is a code."""
    compute = arrow().compute
    for start in starts:
        suspects = column.filter(compute.starts_with(column, pattern=start))
        if len(suspects) and compute.any(compute.match_substring_regex(suspects, pattern=_CODE)).as_py():
            return True
    return False


def _cast(column: Array, data_type: DataType) -> Array | None:
    pa = arrow()
    if pa.types.is_null(data_type):  # a cast that Arrow does not have for every type
        return pa.nulls(len(column)) if column.null_count == len(column) else None
    try:
        if pa.types.is_integer(column.type) and pa.types.is_decimal128(data_type):
            column = column.cast(pa.decimal256(76, data_type.scale))  # Arrow asks whether the type fits, not the number
        return column.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def check_text(batch: Batch) -> None:
    """Look at the text of a file that says itself what it holds: Arrow believes that it is UTF-8.

    Raises:
        BadValueError: the first value that is not.
        ArrowInvalid: something else is wrong, or the text lies within other values.
    """
    pa = arrow()

    def wrong(part: Array) -> Exception | None:
        try:
            part.validate(full=True)
        except pa.ArrowInvalid as error:
            return error
        return None

    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not (error := wrong(column)):
            continue
        if "UTF8" not in str(error):
            raise error
        if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
            # Its other parts are unchecked: nothing of it may be touched to find the row.
            raise pa.ArrowInvalid(f"column {field.name!r} holds text that is not UTF-8")
        row = _first_bad(column, lambda part: wrong(part) is None)
        shown = repr(column.slice(row, 1).cast(pa.large_binary())[0].as_py()[:20])
        hint = "UTF-8. Write it as UTF-8, or the column as binary"
        raise BadValueError(field.name, row, shown, hint)


def _first_bad(column: Array, fits: Callable[[Array], bool]) -> int:
    """The index of the first value that does not fit, by halving."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        if fits(column.slice(start, middle - start)):
            start = middle
        else:
            stop = middle
    return start


def _bad_value(field: Schema, column: Array, fits: Callable[[Array], bool]) -> BadValueError:
    """Find the first value that does not fit."""
    start = _first_bad(column, fits)
    shown = repr(column[start].as_py())
    hint = _hint(column.slice(start, 1), field.type)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return BadValueError(field.name, start, shown, described(field.type) + hint)


def _hint(cell: Array, data_type: DataType) -> str:
    """Advice on a cell that is of another type than it seems."""
    pa = arrow()
    if pa.types.is_floating(data_type):
        result = parsed(cell, data_type, strict=False) if pa.types.is_string(cell.type) else _cast(cell, data_type)
        if result is not None and _overflows(cell, result):
            return OVERFLOW
    if pa.types.is_floating(data_type) and pa.types.is_string(cell.type) and has_wide_integers(cell):
        return lost_digits(_whole(cell[0].as_py()))
    if not pa.types.is_timestamp(data_type) or not pa.types.is_string(cell.type):
        return ""
    if data_type.tz is None:
        fits = _cast(cell, pa.timestamp(data_type.unit, tz="UTC")) is not None
        return f" (it has an offset: give the type timestamp[{data_type.unit}, tz=UTC])" if fits else ""
    fits = _cast(cell, pa.timestamp(data_type.unit)) is not None
    return " (it has no offset, such as Z or +01:00)" if fits else ""
