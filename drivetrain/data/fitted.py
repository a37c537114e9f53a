"""Fitted transforms: what was learnt of columns of the training side, and how values are changed by it.

The state is plain JSON. It lies in the manifest of prepared data, and goes with a model in its model.json:

    {"columns": {
       "age":  {"type": "float64", "changes": [{"impute": 31.5}, {"scale": {"center": 40.2, "width": 12.1}}]},
       "city": {"type": "text", "changes": [{"categories": ["Bern", "Oslo"]}]},
       "note": {"type": "text", "changes": [{"vocabulary": {"words": ["good", "film"], "length": 128}}]}}}

`changed` is the one function that applies it: the reader of prepared data calls it (in training, evaluation and batch
prediction), and a served model calls it with the values of a request. Shards hold values as they were before. All is
computed value by value in float64, so that a row does not depend on those around it.

impute       what stands in place of a missing value: null, NaN or an empty text
scale        (value - center) / width as float32; of lists either one of both, or one a position
categories   int64: 1 and on for the values in this order; 0 for any other value, and for a missing one
vocabulary   int64 tokens of shape [length]: 0 fills up, 1 is an unknown word, 2 and on are the words
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, numpy
from drivetrain.data.tokens import numbers_of, tokens_of

TEXT = "text"
# What stands for a missing value in a CSV cell; in a text column only the empty cell does, since "NA" may be a word
# (or Namibia).
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
# numpy.ndarray; numpy is imported when it is used.
Values = Any


def changed(state: Mapping[str, Any], values: Values, missing: Values, where: str) -> Values:
    """The values of a column that a model gets.

    Args:
        state: the column's entry.
        values: an array of shape [rows, ...] of the column's type, or of texts; what stands in a missing row counts for
            nothing.
        missing: bool of shape [rows].
        where: begins a message.

    Returns:
        An array of shape [rows, ...].

    Raises:
        InputError: a value is missing, and no change fills it in.
    """
    for change in state["changes"]:
        ((name, learnt),) = change.items()
        values, missing = _CHANGES[name](values, missing, learnt)
    if missing.any():
        row = int(numpy().argmax(missing)) + 1
        raise InputError(f"{where}, row {row}: the value is missing. Impute it (prepare_data's fit), or fill it in.")
    return values


def of_arrow(state: Mapping[str, Any], column: Array, where: str) -> Values:
    """`changed` of an Arrow column of numbers, bools or text; an empty text is missing, as it is in a CSV file."""
    np = numpy()
    if state["type"] == TEXT:
        texts = np.array([*column.to_pylist(), ""], dtype=object)[:-1]  # of texts alone numpy makes another type
        return changed(state, texts, np.array([_is_missing(text) for text in texts], dtype=bool), where)
    missing = np.asarray(column.is_null(nan_is_null=True))
    filled = column.fill_null(False if state["type"] == "bool" else 0) if column.null_count else column
    return changed(state, np.asarray(filled), missing, where)


def of_lists(state: Mapping[str, Any], values: Values, where: str) -> Values:
    """`changed` of an array of shape [rows, length]; a row with a NaN is missing."""
    return changed(state, values, numpy().isnan(values).any(axis=1), where)


def of_request(state: Mapping[str, Any], values: Sequence[Any], where: str) -> Values:
    """`changed` of the values of a request: numbers, texts, lists; None and an empty text are missing.

    Raises:
        InputError: a value that is not of the column's type; rows are counted from 1.
    """
    np = numpy()
    missing = np.array([_is_missing(value) for value in values], dtype=bool)
    if state["type"] == TEXT:
        for row, value in enumerate(values, start=1):
            if not missing[row - 1] and not isinstance(value, str):
                raise InputError(f"{where}, row {row}: {value!r:.60} is no text.")
        return changed(state, np.array([*values, ""], dtype=object)[:-1], missing, where)
    wanted = np.dtype(state["type"])
    shape = np.shape(next((value for value, gap in zip(values, missing, strict=True) if not gap), 0))
    found = np.zeros((len(values), *shape), wanted)
    for row, value in enumerate(values):
        if missing[row]:
            continue
        given = np.asarray(value)
        fits = given.dtype.kind in ("iufb" if wanted.kind == "b" else "iuf") and given.shape == shape
        found[row] = given if fits and _is_within(given, wanted) else 0
        if not fits or (wanted.kind in "iub" and not np.array_equal(found[row], given)):
            raise InputError(f"{where}, row {row + 1}: {value!r:.60} is not of the type {wanted}.")
    if wanted.kind == "f":
        missing |= np.isnan(found.reshape(len(found), -1)).any(axis=1)
    return changed(state, found, missing, where)


def identity(fitted: Mapping[str, Any]) -> str:
    """A name for a state; empty for none."""
    return sha256(json.dumps(fitted, sort_keys=True).encode()).hexdigest() if fitted else ""


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value) or (isinstance(value, float) and value != value)


def _is_within(given: Values, wanted: Any) -> bool:
    np = numpy()
    if wanted.kind not in "iu":
        return True
    limits = np.iinfo(wanted)
    return bool(((given >= limits.min) & (given <= limits.max)).all())


def _imputed(values: Values, missing: Values, learnt: Any) -> tuple[Values, Values]:
    np = numpy()
    if isinstance(learnt, float) and values.dtype.kind != "f":
        values = values.astype("float64")
    return np.where(missing, np.asarray(learnt, dtype=values.dtype), values), np.zeros_like(missing)


def _scaled(values: Values, missing: Values, learnt: Any) -> tuple[Values, Values]:
    np = numpy()
    center, width = (np.asarray(learnt[name], dtype="float64") for name in ("center", "width"))
    return ((values.astype("float64") - center) / width).astype("float32"), missing


def _categories(values: Values, missing: Values, learnt: Any) -> tuple[Values, Values]:
    np = numpy()
    numbers = {value: number for number, value in enumerate(learnt, start=1)}
    found = np.fromiter(map(numbers.get, values.tolist(), [0] * len(values)), "int64", len(values))
    return np.where(missing, 0, found), np.zeros_like(missing)


def _tokens(values: Values, missing: Values, learnt: Any) -> tuple[Values, Values]:
    np = numpy()
    numbers, length = numbers_of(learnt["words"]), learnt["length"]
    rows = [tokens_of(text, numbers, length)[0] for text in np.where(missing, "", values)]
    return np.array(rows, "int64").reshape(len(rows), length), np.zeros_like(missing)


_CHANGES = {"impute": _imputed, "scale": _scaled, "categories": _categories, "vocabulary": _tokens}
