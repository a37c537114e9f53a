"""Find the task of a table, and the columns that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more
from drivetrain.training.answers import HIGH, LOW, MARGIN, PREDICTED, SCORE, TARGET, TEXT
from drivetrain.training.answers.samples import KINDS, Answers
from drivetrain.training.answers.table import Table, described_task, is_text, read_table
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.metric import Amount
from drivetrain.training.task import Kind, Task

# The columns of each task, for people.
COLUMNS = {
    "binary": "score, or score and margin, or margin and predicted",
    "multiclass": "score_<class> for each class, or predicted and margin_<class>",
    "multilabel": "score_<label> for each label",
    "regression": "predicted; low and high where there are intervals",
    "text": "text",
}


def read_answers(source: Path, dataset: Dataset, name: str, threshold: float) -> Answers:
    """The answers in a table, for the data that they are about.

    Args:
        source: as `read_table`.
        name: the task, one of `KINDS`; "" for what batch_predict's manifest says.
        threshold: of a binary task: the least score for class 1; 0 for what the table says in `predicted`, else 0.5.

    Raises:
        InputError: as `read_table`; no task, or another one than the table's; no column that the task needs.
    """
    told = described_task(source)
    name = _task_name(name, str(told.get("kind", "")), source)
    if not dataset.label:
        raise InputError(f"{dataset.reader.folder} has no label column, so nothing says what is right.")
    table = read_table(source, dataset)
    # (batch_predict writes no targets: there it is a column that was to be kept.)
    targets = _any(table, TARGET) if TARGET in table.columns and not told else None
    if name == "text":
        _check_there(table, [TEXT], name)
        return Answers(
            table, dataset, name, Task("values"), {"exact_match": "bool"}, predicted=table.texts(TEXT), targets=targets
        )
    if name == "regression":
        return _regression(table, dataset, targets, with_ends=not told)
    return _classes(table, dataset, name, threshold, targets, told)


def _regression(table: Table, dataset: Dataset, targets: NDArray[Any] | None, *, with_ends: bool) -> Answers:
    _check_there(table, [PREDICTED], "regression")
    values = table.numbers(PREDICTED).astype(np.float64)
    predicted = values.reshape(len(values), -1)
    ends = None
    if with_ends and predicted.shape[1] == 1 and {LOW, HIGH} & table.columns.keys():
        _check_there(table, [LOW, HIGH], "regression")
        ends = table.numbers(LOW), table.numbers(HIGH)
        if ends[0].ndim > 1 or ends[1].ndim > 1:
            raise InputError(f"{table.source} has lists in {LOW} or {HIGH}; allowed is one interval a row.")
    measures: dict[str, Amount] = {} if ends is None else {"coverage": "bool", "width": "float"}
    task = Task("regression", predicted.shape[1])
    return Answers(table, dataset, "regression", task, measures, predicted=predicted, ends=ends, targets=targets)


def _classes(
    table: Table,
    dataset: Dataset,
    name: str,
    threshold: float,
    targets: NDArray[Any] | None,
    told: Mapping[str, Any],
) -> Answers:
    kind = KINDS[name]
    names, scores = _by_class(table, SCORE, kind)
    names_of_margins, margins = _by_class(table, MARGIN, kind)
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
        tuple(map(str, told.get("class_names", ()))) or names,
        threshold or float(told.get("threshold", 0.5)),
        "probabilities" if margins is None else "raw scores" if scores is None else "logits",
    )
    predicted = None
    if PREDICTED in table.columns and not (threshold and kind == "binary"):
        predicted = _predicted_classes(table, task)
    return Answers(
        table,
        dataset,
        name,
        task,
        {},
        scores=scores,
        margins=None if margins is None else margins.astype(np.float64),
        predicted=predicted,
        targets=targets,
    )


def _predicted_classes(table: Table, task: Task) -> NDArray[Any]:
    if task.class_names and is_text(table.columns[PREDICTED]):
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


def _by_class(table: Table, prefix: str, kind: Kind) -> tuple[tuple[str, ...], NDArray[Any] | None]:
    """The names of the classes (none where they are numbers), and the columns side by side: [rows], or [rows, C]."""
    if kind == "binary":
        if prefix not in table.columns:
            return (), None
        values = table.numbers(prefix)
        if values.ndim != 1:
            raise InputError(f"column {prefix!r} of {table.source} holds lists; binary needs the score of class 1.")
        return (), _floats(values)
    columns = table.names(prefix)
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
    return tuple(classes), np.stack([_floats(table.numbers(name)) for name in columns], axis=1)


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _any(table: Table, name: str) -> NDArray[Any]:
    return table.texts(name) if is_text(table.columns[name]) else table.numbers(name)


def _task_name(name: str, theirs: str, source: Path) -> str:
    """The task that is asked for, or else the table's own."""
    if not name and not theirs:
        raise InputError(f"{source} does not say its task. Give task, one of {', '.join(KINDS)}.")
    if name and theirs and name != theirs:
        raise InputError(f"task={name!r}, and {source} holds answers of a {theirs} model.")
    found = name or theirs
    if found not in KINDS:
        raise InputError(
            f"{source} holds answers of a {found} model, which a table cannot be evaluated for; allowed are "
            f"{', '.join(KINDS)}. Evaluate the model instead."
        )
    return found


def _check_there(table: Table, needed: Sequence[str], name: str) -> None:
    missing = next((each for each in needed if each not in table.columns), None)
    if missing is not None:
        has = and_more(table.columns, 12)
        raise InputError(f"{table.source} has no column {missing}; {name} needs {COLUMNS[name]}. It has {has}.")
