"""From the body of a request to the columns that a model takes, of the types that its training data had.

    application/json        [{"p0": 0, ...}, ...], one such object, {"instances": [...]}, or rows as lists of values in
                            the order of the columns (of a model with one column: its values themselves)
    application/jsonlines   an object or a list a line
    text/csv                with a header of names in any order, or without one in the order of the columns
    application/x-npy       an array [rows, ...] (numpy.save): of a model with one column its values, else a column each

If the model's reader makes the columns from something else (raw/), a request may give that instead: a text, or a
picture in base64. A body that is one of these is one row. Names that the model does not take are ignored. Cells of a
column that prepare_data fitted are read as it reads them, with its markers of missing values. Nothing is guessed: a
value that is missing and not imputed, or is no number, or does not fit the type, is an error that names its row,
counted from 1.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more
from drivetrain.training.serving.inputs import Input, Inputs

JSON, JSON_LINES, CSV, NPY = "application/json", "application/jsonlines", "text/csv", "application/x-npy"
_ALIASES = {
    "application/jsonl": JSON_LINES,
    "application/x-ndjson": JSON_LINES,
    "application/x-jsonlines": JSON_LINES,
    "application/csv": CSV,
}
_SHOWN = 5

# Name -> one value a row: a list, or an array of shape [rows, ...].
Table = Mapping[str, Any]
Body = str | bytes | bytearray


def columns_of(body: Body, content_type: str, inputs: Inputs) -> dict[str, NDArray[Any]]:
    """The columns of a request.

    Raises:
        InputError: an invalid content type or body, no rows, or rows that the model does not take.
    """
    return columns_from(table_of(body, content_type, inputs), inputs)


def table_of(body: Body, content_type: str, inputs: Inputs) -> Table:
    """The values of a request by name, as they were given."""
    if not isinstance(body, Body):
        raise InputError(f"the body is a Python {type(body).__name__}; allowed are text and bytes.")
    kind = (content_type or "").partition(";")[0].strip().lower()
    kind = _ALIASES.get(kind, kind)
    whole: Mapping[str, str] = inputs.raw.TYPES if inputs.raw is not None else {}
    if kind in whole:
        return {whole[kind]: [_text(body, "text") if kind.startswith("text/") else body]}
    if kind not in _READERS:
        raise InputError(f"content type {content_type!r} is not taken. Allowed: {', '.join((*_READERS, *whole))}.")
    return _READERS[kind](body, inputs)


def columns_from(table: Table, inputs: Inputs) -> dict[str, NDArray[Any]]:
    """Named values as the model takes them, raw ones (a text) turned into columns as the training's reader did."""
    if not table or not len(next(iter(table.values()))):
        raise InputError("the request has no rows.")
    if inputs.raw is not None and not inputs.raw.NAMES:
        table = {**table, **inputs.raw.columns(table, inputs.options or {}, inputs.fitted or {})}
    missing = [name for name in inputs.names if name not in table]
    if missing and inputs.raw is not None and inputs.raw.NAMES and all(name in table for name in inputs.raw.NAMES):
        table = {**table, **inputs.raw.columns(table, inputs.options or {}, inputs.fitted or {})}
        missing = [name for name in inputs.names if name not in table]
    if missing:
        instead = (
            f", or {', '.join(inputs.raw.NAMES)} in their place" if inputs.raw is not None and inputs.raw.NAMES else ""
        )
        raise InputError(
            f"the rows lack {and_more(missing, _SHOWN)}. The model takes {and_more(inputs.names, _SHOWN)}{instead}; "
            f"the rows have {and_more(table, _SHOWN)}."
        )
    return {
        column.name: _typed(column, table[column.name], may_lack=column.name in inputs.missing)
        for column in inputs.columns
    }


def _typed(column: Input, values: Any, *, may_lack: bool = False) -> NDArray[Any]:
    if may_lack and isinstance(values, list) and column.dtype is not None:
        nothing = None if column.dtype.kind == "O" else math.nan
        values = [nothing if value is None or value == "" else value for value in cast("list[Any]", values)]
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{column.name} has values of different shapes; all rows of a request need one.") from None
    if column.dtype is not None and column.dtype.kind in "iuf" and isinstance(values, list):
        for number, value in enumerate(cast("list[Any]", values), start=1):
            if isinstance(value, bool):
                raise InputError(f"row {number}: {column.name} is {value}, which is no number.")
    if array.dtype.kind not in "iufb":
        if column.dtype is not None and column.dtype.kind == "O":
            return np.asarray(values, dtype=object)
        raise _no_number(column, values)
    if column.shape is not None and array.ndim - 1 != len(column.shape):
        raise InputError(
            f"{column.name} has shape {list(array.shape[1:])} a row; the model takes {list(column.shape)}."
        )
    if array.dtype.kind == "f" and not (finite := np.isfinite(array) | (may_lack & np.isnan(array))).all():
        raise InputError(f"row {_first(~finite)}: {column.name} is not finite.")
    if column.dtype is None or array.dtype == column.dtype:
        return array
    wanted = np.dtype(column.dtype)
    if wanted.kind in "iub":
        low, high = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
        fits = (array >= low) & (array <= high)
        if array.dtype.kind == "f":
            fits &= array == np.rint(array)
        if not fits.all():
            value = array.reshape(-1)[int(np.argmin(fits.reshape(-1)))]
            raise InputError(
                f"row {_first(~fits)}: {column.name} is {value}; allowed are whole numbers from {low} to {high}."
            )
    with np.errstate(over="ignore"):
        typed = array.astype(wanted)
    if wanted.kind == "f" and np.isinf(typed).any():
        finite = ~np.isinf(typed)
        raise InputError(f"row {_first(~finite)}: {column.name} is too large for {wanted}.")
    return typed


def _no_number(column: Input, values: Any) -> InputError:
    """The error for values if at least one is no number."""
    for number, value in enumerate(values, start=1):
        kind = np.asarray(value).dtype.kind if value is not None else "O"
        if kind not in "iufb":
            value = value.tolist() if isinstance(value, np.ndarray) else value  # its own text has several lines
            shown = (
                "missing"
                if value is None or (isinstance(value, str) and not value)
                else f"{value!r:.60}, which is no number"
            )
            return InputError(f"row {number}: {column.name} is {shown}.")
    return InputError(f"{column.name} has values of different kinds; all rows of a request need one.")


def _first(wrong: NDArray[np.bool_]) -> int:
    """The first row with a mark, counted from 1."""
    return int(np.argmax(wrong.reshape(len(wrong), -1).any(axis=1))) + 1


def _text(body: Body, what: str) -> str:
    if isinstance(body, str):
        return body.removeprefix("\ufeff")
    try:
        return bytes(body).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"the body is no {what}: it is not UTF-8 (byte {error.start + 1}).") from None


def _json(body: Body, inputs: Inputs) -> Table:
    try:
        value = json.loads(_text(body, "JSON"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the body is no JSON: {error}.") from None
    if isinstance(value, dict) and "instances" in value:
        value = value["instances"]
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise InputError(f"the body is a JSON {type(value).__name__}; allowed are a list of rows, and an object.")
    return _of_rows(value, inputs)


def _json_lines(body: Body, inputs: Inputs) -> Table:
    rows: list[Any] = []
    for number, line in enumerate(_text(body, "JSON Lines").splitlines(), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise InputError(f"line {number} is no JSON: {error}.") from None
    return _of_rows(rows, inputs)


def _of_rows(rows: list[Any], inputs: Inputs) -> Table:
    """Rows that are objects, or lists of values in the order of the columns, or values of the one column."""
    if not rows:
        return {}
    if isinstance(rows[0], dict):
        names = list(rows[0])
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict):
                raise InputError(f"row {number} is no object, as those before it are.")
            missing = [name for name in names if name in inputs.names and name not in row]
            if missing := [name for name in missing if name not in inputs.imputed]:
                raise InputError(f"row {number} lacks {and_more(missing, _SHOWN)}.")
            if inputs.imputed and not any(name in row for name in inputs.names):
                raise InputError(
                    f"row {number} has no column of the model, which takes {and_more(inputs.names, _SHOWN)}."
                )
        names += [name for name in inputs.names if name in inputs.imputed and name not in names]
        return {name: [row.get(name) for row in rows] for name in names}
    if len(inputs.columns) == 1:
        return {inputs.names[0]: rows}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list):
            raise InputError(f"row {number} is {row!r:.60}; allowed are objects, and lists of values.")
        _check_width(number, len(row), inputs)
    return {name: [row[place] for row in rows] for place, name in enumerate(inputs.names)}


def _check_width(number: int, width: int, inputs: Inputs) -> None:
    if width != len(inputs.columns):
        raise InputError(
            f"row {number} has {width} values; the model takes {len(inputs.columns)}: {and_more(inputs.names, _SHOWN)}."
        )


def _csv(body: Body, inputs: Inputs) -> Table:
    try:
        rows = [row for row in csv.reader(io.StringIO(_text(body, "CSV"), newline=""), strict=True) if row]
    except csv.Error as error:
        raise InputError(f"the body is no CSV: {error}.") from None
    if not rows:
        return {}
    known = {*inputs.names, *(inputs.raw.NAMES if inputs.raw is not None else ())}
    head = [cell.strip() for cell in rows[0]]
    if known.intersection(head):
        if len(set(head)) < len(head):
            raise InputError("the header has a name twice.")
        for number, row in enumerate(rows[1:], start=1):
            if len(row) != len(head):
                raise InputError(f"row {number} has {len(row)} values; the header has {len(head)} names.")
        readers = [_reader(name, inputs) for name in head]
        return {name: [readers[place](row[place]) for row in rows[1:]] for place, name in enumerate(head)}
    readers = [_reader(name, inputs) for name in inputs.names]
    readers += [_cell] * max(0, max(map(len, rows)) - len(readers))
    values = [[readers[place](cell) for place, cell in enumerate(row)] for row in rows]
    if len(inputs.columns) == 1 and inputs.columns[0].shape:
        shape = inputs.columns[0].shape
        for number, row in enumerate(values, start=1):
            if len(shape) > 1 and len(row) != int(np.prod(shape)):
                raise InputError(f"row {number} has {len(row)} values; {inputs.names[0]} is {list(shape)} a row.")
        return {inputs.names[0]: [np.asarray(row).reshape(shape) if len(shape) > 1 else row for row in values]}
    for number, row in enumerate(values, start=1):
        if len(row) != len(inputs.columns) and number == 1:
            raise InputError(
                f"the first row has {len(row)} values and no name of a column; the model takes {len(inputs.columns)} "
                f"columns: {and_more(inputs.names, _SHOWN)}."
            )
        _check_width(number, len(row), inputs)
    return {name: [row[place] for row in values] for place, name in enumerate(inputs.names)}


def _reader(name: str, inputs: Inputs) -> Callable[[str], Any]:
    """The function that reads the cells of a column; a prepared column is read as it was then."""
    kind = inputs.fitted_types.get(name)
    if kind is None:
        truths = {each.name for each in inputs.columns if each.dtype is not None and each.dtype.kind == "b"}
        return str if name in inputs.texts else _truth if name in truths else _cell
    from drivetrain.data.fitted import TEXT  # it travels with a model only if something was fitted

    return str if kind == TEXT else partial(_truth, number=_number_cell) if kind == "bool" else _number_cell


def _number_cell(text: str) -> Any:
    from drivetrain.data.fitted import MISSING

    text = text.strip()
    return None if text in MISSING else text if "_" in text else _cell(text)


def _truth(text: str, number: Callable[[str], Any] | None = None) -> Any:
    """A truth where it is one, else what `number` reads."""
    return {"true": True, "false": False}.get(text.strip().lower(), (number or _cell)(text))


def _cell(text: str) -> Any:
    """A number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _npy(body: Body, inputs: Inputs) -> Table:
    if isinstance(body, str):
        raise InputError("the body is text; application/x-npy is what numpy.save writes.")
    try:
        array = np.load(io.BytesIO(bytes(body)), allow_pickle=False)
        if isinstance(array, np.ndarray) and array.dtype.kind == "U":
            array = array.astype(object)  # each text is looked at: it may hold what is no character
    except Exception as error:  # of a damaged header numpy raises TokenError, SyntaxError, BadZipFile, MemoryError, ...
        # The first sentence: after it numpy tells how to read pickles, which nobody should.
        said = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise InputError(f"the body is no array of numpy.save: {said:.200}.") from None
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise InputError("the body is a single value or an archive; allowed is an array with a row each.")
    if array.dtype.kind not in "iufbO":
        raise InputError(f"the array holds {array.dtype!s:.60}; allowed are whole numbers, floats and bool.")
    if len(inputs.columns) == 1:
        return {inputs.names[0]: array}
    if array.ndim != 2 or array.shape[1] != len(inputs.columns):
        raise InputError(
            f"the array has shape {list(array.shape)}; the model takes [rows, {len(inputs.columns)}]: "
            f"{and_more(inputs.names, _SHOWN)}."
        )
    return {name: array[:, place] for place, name in enumerate(inputs.names)}


_READERS: dict[str, Callable[[Body, Inputs], Table]] = {JSON: _json, JSON_LINES: _json_lines, CSV: _csv, NPY: _npy}
