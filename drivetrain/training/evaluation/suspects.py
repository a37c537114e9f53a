"""Rows whose label may be wrong, by the predictions of an evaluation: suspects.json of a report.

Classes, by confident learning (C. Northcutt, L. Jiang, I. Chuang: Confident Learning, 2021): a class's threshold is the
mean probability that the model gives it on rows with that label. A row is a suspect if the probability of its own label
is below that label's threshold, and that of another class is larger and reaches its own. Numbers: residuals divided by
the standard deviation of the other rows', beyond Student's t for all rows together. The model must not have been
trained on the rows.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.answers import KEY, PREDICTED, ROW, SCORE, TARGET
from drivetrain.training.evaluation.files import PREDICTIONS_FOLDER
from drivetrain.training.metric_states.uncertainty.intervals import student
from drivetrain.training.task import Task

FORMAT, MOST = 1, 100
_LEAST_ROWS = 4
# The probability that any residual of normal ones is beyond the bound.
_CHANCE = 0.05
_CLASSES = (
    "Suggestions only: where label and model differ, either may err. score is the model's probability of the given "
    "label, margin how much more it gives the suggested one."
)
_NUMBERS = (
    "Suggestions only: where label and model differ, either may err. score is the residual in standard deviations of "
    "the other rows', margin the residual itself."
)


class _Batch(NamedTuple):
    rows: NDArray[Any]
    keys: list[Any] | None
    given: NDArray[Any]
    answers: NDArray[Any]
    """Probabilities [n, classes], or the predicted numbers [n]."""


def suspects(report: Path, task: Task, key: str | None) -> dict[str, Any] | None:
    """The content of suspects.json: `note`, `found`, and the MOST clearest `suspects` with row, key, given, suggested,
    score and margin. None for tasks other than classes with probabilities, and single numbers.

    Args:
        report: the folder with the predictions.
        key: the name of the data's key.
    """
    is_number = (task.kind, task.num_classes) == ("regression", 1)
    if not is_number and (task.kind not in ("binary", "multiclass") or task.ranked_by == "raw scores"):
        return None
    measure, note, find = ("score", _NUMBERS, _of_numbers) if is_number else ("margin", _CLASSES, _of_classes)
    number = itertools.count()  # (many may be found, and few are kept)
    found = (one for one, _ in zip(find(report, task), number, strict=False))
    clearest = heapq.nsmallest(MOST, found, key=lambda one: (-abs(one[measure]), one[ROW]))
    return {"format": FORMAT, "key": key, "note": note, "found": next(number), "suspects": clearest}


def _of_classes(report: Path, task: Task) -> Iterator[dict[str, Any]]:
    sums, counts = np.zeros(task.num_classes), np.zeros(task.num_classes)
    for batch in _batches(report, task):
        own = batch.answers[np.arange(len(batch.given)), batch.given]
        sums += np.bincount(batch.given, own, task.num_classes)
        counts += np.bincount(batch.given, minlength=task.num_classes)
    thresholds = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
    for batch in _batches(report, task):
        places = np.arange(len(batch.given))
        own = batch.answers[places, batch.given]
        others = np.where(batch.answers >= thresholds, batch.answers, -1.0)
        others[places, batch.given] = -1.0
        suggested = others.argmax(axis=1)
        margins = others[places, suggested] - own
        for place in np.flatnonzero((own < thresholds[batch.given]) & (margins > 0)).tolist():
            given, other = (_named(task, int(each[place])) for each in (batch.given, suggested))
            yield _entry(batch, place, given, other, float(own[place]), float(margins[place]))


def _of_numbers(report: Path, task: Task) -> Iterator[dict[str, Any]]:
    rows, total, squares = 0, 0.0, 0.0
    for batch in _batches(report, task):
        residuals = batch.given - batch.answers
        rows, total = rows + len(residuals), total + float(residuals.sum())
        squares += float((residuals**2).sum())
    if rows < _LEAST_ROWS:
        return
    mean, bound = total / rows, student(1 - _CHANCE / 2 / rows, rows - 2)
    for batch in _batches(report, task):
        apart = batch.given - batch.answers - mean
        # The variance of the other rows: without this one, mean and squares are others.
        rest = np.maximum(squares - rows * mean**2 - apart**2 * rows / (rows - 1), 0.0) / (rows - 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = apart / np.sqrt(rest * (rows - 1) / rows)
        for place in np.flatnonzero(np.isfinite(scores) & (abs(scores) > bound)).tolist():
            given, answer = float(batch.given[place]), float(batch.answers[place])
            yield _entry(batch, place, given, answer, float(scores[place]), given - answer)


def _batches(report: Path, task: Task) -> Iterator[_Batch]:
    import pyarrow.parquet as parquet

    for path in sorted((report / PREDICTIONS_FOLDER).glob("part-*.parquet")):
        for batch in parquet.ParquetFile(path).iter_batches():
            names = batch.schema.names
            if TARGET not in names or not (answers := _answers(batch, names, task)):
                continue
            found = np.stack(answers, axis=1) if len(answers) > 1 else answers[0]
            keys = batch.column(KEY).to_pylist() if KEY in names else None
            given = batch.column(TARGET).to_numpy(zero_copy_only=False)
            kind = np.float64 if task.kind == "regression" else np.int64
            yield _Batch(batch.column(ROW).to_numpy(), keys, given.astype(kind), found.astype(np.float64))


def _answers(batch: Any, names: list[str], task: Task) -> list[NDArray[Any]]:
    """The probabilities of each class, or the predicted numbers; nothing where there are none."""
    if task.kind == "regression":
        return [batch.column(PREDICTED).to_numpy()]
    if task.kind == "binary":
        positive = [batch.column(SCORE).to_numpy().astype(np.float64)] if SCORE in names else []
        return [1 - each for each in positive] + positive
    if SCORE in names:  # of more classes than there are columns
        return [np.asarray(batch.column(SCORE).flatten()).reshape(batch.num_rows, task.num_classes)]
    classes = [f"{SCORE}_{name}" for name in task.class_names or map(str, range(task.num_classes))]
    return [batch.column(name).to_numpy() for name in classes if name in names]


def _entry(batch: _Batch, place: int, given: Any, suggested: Any, score: float, margin: float) -> dict[str, Any]:
    key = None if batch.keys is None else batch.keys[place]
    told = {ROW: int(batch.rows[place]), KEY: key if key is None or isinstance(key, int) else str(key)}
    return {**told, "given": given, "suggested": suggested, "score": round(score, 6), "margin": round(margin, 6)}


def _named(task: Task, number: int) -> str:
    return task.class_names[number] if task.class_names else str(number)
