"""Predictions as the body of an answer, in the format that was asked for.

    application/json        {"predictions": [{"predicted": 3, "scores": [...]}, ...]}
    application/jsonlines   an object a line
    text/csv                a row a line, without a header: predicted, then the scores
    application/x-npy       the scores (without scores: the predictions), as numpy.save writes an array

`predicted` is the class, by its name where the model names its classes. `scores` are the probabilities of the classes
in their order; a binary model has `score`, that of class 1. Raw scores are `margins` and `margin`; an interval is `low`
and `high`. Numbers are written so that reading them gives the same float64.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.outputs import answer_columns, by_name, one_value
from drivetrain.training.serving.predictions import Predictions
from drivetrain.training.serving.request import CSV, JSON, JSON_LINES, NPY


def body_of(predictions: Predictions, accept: str) -> tuple[str | bytes, str]:
    """The body, and its content type: the first of those accepted that there is.

    Raises:
        InputError: none of them, or an answer that is no number.
    """
    kinds = [each.partition(";")[0].strip().lower() for each in (accept or "*/*").split(",")]
    kinds = [JSON if kind in ("*/*", "application/*") else kind for kind in kinds]
    found = next((kind for kind in kinds if kind in _WRITERS), None)
    if found is None:
        raise InputError(f"answers of type {accept!r} are not written. Allowed: {', '.join(_WRITERS)}.")
    for values in (predictions.predicted, predictions.scores, *predictions.ends.values()):
        if values is not None and values.dtype.kind == "f" and not np.isfinite(values).all():
            wrong = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
            raise InputError(f"the model's answer to row {int(np.argmax(wrong)) + 1} is not finite.")
    return _WRITERS[found](predictions), found


def objects(predictions: Predictions) -> list[dict[str, Any]]:
    """A plain object a row."""
    predicted = one_value(by_name(predictions.task, predictions.predicted)).tolist()
    if predictions.scores is None:
        ends = {name: values.tolist() for name, values in predictions.ends.items()}
        return [
            {"predicted": each, **{name: values[row] for name, values in ends.items()}}
            for row, each in enumerate(predicted)
        ]
    name = "margin" if predictions.task.ranked_by == "raw scores" else "score"
    name += "s" if predictions.scores.ndim > 1 else ""
    return [
        {"predicted": each, name: scores} for each, scores in zip(predicted, predictions.scores.tolist(), strict=True)
    ]


def named_columns(predictions: Predictions) -> dict[str, NDArray[Any]]:
    """As columns of a table: predicted, and score or score_<class>, as in the files of evaluate."""
    raw = predictions.task.ranked_by == "raw scores"
    numbers = (None, predictions.scores) if raw else (predictions.scores, None)
    predicted = by_name(predictions.task, predictions.predicted)
    return {**answer_columns(predictions.task, predicted, *numbers), **predictions.ends}


def csv_text(columns: dict[str, NDArray[Any]], *, header: bool) -> str:
    """Columns as CSV; values that are lists as JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(columns)
    lists = [values.tolist() for values in columns.values()]
    for row in zip(*lists, strict=True):
        writer.writerow([json.dumps(value) if isinstance(value, list) else value for value in row])
    return text.getvalue()


def _npy(predictions: Predictions) -> bytes:
    stream = io.BytesIO()
    chosen = predictions.predicted if predictions.scores is None else predictions.scores
    if chosen.dtype.kind == "O":
        raise InputError(f"answers that are texts are not written as {NPY}. Accept {JSON}.")
    np.save(stream, np.ascontiguousarray(chosen), allow_pickle=False)
    return stream.getvalue()


_WRITERS: dict[str, Callable[[Predictions], str | bytes]] = {
    JSON: lambda predictions: json.dumps({"predictions": objects(predictions)}),
    JSON_LINES: lambda predictions: "".join(f"{json.dumps(each)}\n" for each in objects(predictions)),
    CSV: lambda predictions: csv_text(named_columns(predictions), header=False),
    NPY: _npy,
}
