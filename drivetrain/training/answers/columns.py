"""The columns of a task: what is read of a table of answers, or of what a model answers to a request.

Needs numpy alone, so that it travels with a model that is served.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more
from drivetrain.training.answers import HIGH, LOW, MARGIN, PREDICTED, SCORE, TEXT
from drivetrain.training.task import Kind, Task

KINDS: Mapping[str, Kind] = {
    **{kind: kind for kind in ("binary", "multiclass", "multilabel", "regression")},
    "text": "values",
}
"""The tasks of a table, and the kinds of metrics that they have."""
# The columns of each task, for people.
COLUMNS = {
    "binary": "score, or score and margin, or margin and predicted",
    "multiclass": "score_<class> for each class, or predicted and margin_<class>",
    "multilabel": "score_<label> for each label",
    "regression": "predicted; low and high where there are intervals",
    "text": "text",
}


class Source(Protocol):
    """Columns of answers by name, a value a row."""

    @property
    def source(self) -> object:
        """Names them in a message."""
        ...

    @property
    def columns(self) -> Collection[str]: ...

    def numbers(self, name: str) -> NDArray[Any]:
        """A column of numbers or bools, shape [rows], or [rows, length] where it holds lists."""
        ...

    def texts(self, name: str) -> NDArray[np.object_]:
        """A column of text, shape [rows]."""
        ...

    def is_text(self, name: str) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Said:
    """The answers to n rows; each array has shape [n] or [n, ...], as `Samples` has them.

    Attributes:
        name: the task as a user writes it, a key of `KINDS`.
        predicted: texts where the task is text.
        ends: of an interval a row.
    """

    name: str
    task: Task
    scores: NDArray[Any] | None = None
    margins: NDArray[Any] | None = None
    predicted: NDArray[Any] | None = None
    ends: tuple[NDArray[Any], NDArray[Any]] | None = None


def read_columns(
    table: Source, name: str, *, threshold: float = 0.0, told: Mapping[str, Any] | None = None, with_ends: bool = True
) -> Said:
    """Read the columns of a task.

    Args:
        name: the task, one of `KINDS`.
        threshold: of a binary task: the least score for class 1; 0 for what the column `predicted` says, else that of
            `told`, else 0.5.
        told: `class_names` and `threshold`, where they are known already.
        with_ends: read the ends of intervals, too.

    Raises:
        InputError: a column that the task needs is missing, or holds what it must not.
    """
    told = told or {}
    if name == "text":
        _check_there(table, [TEXT], name)
        return Said(name=name, task=Task("values"), predicted=table.texts(TEXT))
    if name == "regression":
        return _regression(table, with_ends=with_ends)
    return _classes(table, name, threshold, told)


def decided(task: Task, scores: NDArray[Any]) -> NDArray[Any]:
    """The answers that follow from scores, int64 in their shape without classes: the likeliest class, or the side of
    the threshold."""
    if task.kind == "multiclass":
        return scores.argmax(axis=1)
    return (scores >= (task.threshold if task.kind == "binary" else 0.5)).astype(np.int64)


def _regression(table: Source, *, with_ends: bool) -> Said:
    _check_there(table, [PREDICTED], "regression")
    values = table.numbers(PREDICTED).astype(np.float64)
    predicted = values.reshape(len(values), -1)
    ends = None
    if with_ends and predicted.shape[1] == 1 and {LOW, HIGH} & set(table.columns):
        _check_there(table, [LOW, HIGH], "regression")
        ends = table.numbers(LOW), table.numbers(HIGH)
        if ends[0].ndim > 1 or ends[1].ndim > 1:
            raise InputError(f"{table.source} has lists in {LOW} or {HIGH}; allowed is one interval a row.")
    return Said(name="regression", task=Task("regression", predicted.shape[1]), predicted=predicted, ends=ends)


def _classes(
    table: Source,
    name: str,
    threshold: float,
    told: Mapping[str, Any],
) -> Said:
    kind = KINDS[name]
    known = tuple(map(str, told.get("class_names", ())))
    names, scores = _by_class(table, SCORE, kind, known)
    names_of_margins, margins = _by_class(table, MARGIN, kind, known)
    if scores is None and (margins is None or PREDICTED not in table.columns):
        _check_there(table, [SCORE if kind == "binary" else f"{SCORE}_<class>"], name)
    if scores is not None and margins is not None and names != names_of_margins:
        raise InputError(f"{table.source} has {SCORE}_<class> and {MARGIN}_<class> of different classes.")
    names = names or names_of_margins
    given = scores if scores is not None else margins
    assert given is not None
    task = Task(
        kind,
        2 if kind == "binary" else given.shape[1],
        known or names,
        threshold or float(told.get("threshold", 0.5)),
        "probabilities" if margins is None else "raw scores" if scores is None else "logits",
    )
    predicted = None
    if PREDICTED in table.columns and not (threshold and kind == "binary"):
        predicted = _predicted_classes(table, task)
    return Said(
        name=name,
        task=task,
        scores=scores,
        margins=None if margins is None else margins.astype(np.float64),
        predicted=predicted,
    )


def _predicted_classes(table: Source, task: Task) -> NDArray[Any]:
    if task.class_names and table.is_text(PREDICTED):
        number = {name: place for place, name in enumerate(task.class_names)}
        texts = table.texts(PREDICTED).tolist()
        unknown = next((each for each in texts if each not in number), None)
        if unknown is not None:
            raise InputError(
                f"column {PREDICTED!r} of {table.source} has {unknown!r:.60}, which is no class of its scores: "
                f"{and_more(task.class_names, 12)}."
            )
        return np.array([number[each] for each in texts], dtype=np.int64)
    values = table.numbers(PREDICTED)
    with np.errstate(invalid="ignore"):
        found = values.astype(np.int64)
    limit = 2 if task.kind == "multilabel" else task.num_classes
    wrong = values[(found != values) | (found < 0) | (found >= limit)]
    if wrong.size:
        raise InputError(f"column {PREDICTED!r} of {table.source} has {wrong.flat[0]}; allowed are 0 to {limit - 1}.")
    return found


def _by_class(
    table: Source, prefix: str, kind: Kind, known: tuple[str, ...]
) -> tuple[tuple[str, ...], NDArray[Any] | None]:
    """The names of the classes (none where they are numbers), and the columns side by side: [rows], or [rows, C].

    Args:
        known: the names of the classes in their order, where that is known.
    """
    if kind == "binary":
        if prefix not in table.columns:
            return (), None
        values = table.numbers(prefix)
        if values.ndim != 1:
            raise InputError(f"column {prefix!r} of {table.source} holds lists; binary needs the score of class 1.")
        return (), _floats(values)
    columns = [each for each in table.columns if each.startswith(f"{prefix}_")]
    if not columns:
        lists = _floats(table.numbers(prefix)) if prefix in table.columns else None
        if lists is not None and lists.ndim == 1:
            raise InputError(
                f"{table.source} has one number a row in the column {prefix}; {kind} needs {COLUMNS[kind]}."
            )
        return (), lists
    classes = [name.removeprefix(f"{prefix}_") for name in columns]
    if all(each.isdecimal() for each in classes):
        order = sorted(range(len(classes)), key=lambda place: int(classes[place]))
        if [int(classes[place]) for place in order] != list(range(len(classes))):
            raise InputError(
                f"{table.source} has the columns {and_more(columns, 12)}: classes are numbered from 0, each once."
            )
        columns, classes = [columns[place] for place in order], []
    if known and classes:
        if set(classes) != set(known):
            raise InputError(f"{table.source} has the columns {and_more(columns, 12)}: {_classes_are(known)}")
        columns, classes = [f"{prefix}_{each}" for each in known], list(known)
    if known and len(columns) != len(known):
        raise InputError(f"{table.source} has {len(columns)} columns {prefix}_<class>: {_classes_are(known)}")
    return tuple(classes), np.stack([_floats(table.numbers(name)) for name in columns], axis=1)


def _classes_are(known: Sequence[str]) -> str:
    return f"the model's classes are {and_more(known, 12)}, each once."


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _check_there(table: Source, needed: Sequence[str], name: str) -> None:
    missing = next((each for each in needed if each not in table.columns), None)
    if missing is not None:
        has = and_more(table.columns, 12)
        raise InputError(f"{table.source} has no column {missing}; {name} needs {COLUMNS[name]}. It has {has}.")
