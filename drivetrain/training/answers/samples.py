"""Answers as samples: what a table says of each row, beside the target that the data has.

The loss is that of the task, whatever made the answers: log loss of probabilities (of labels their mean), the squared
error of numbers (of several their mean), and for texts 1 where they differ from the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.answers import HIGH, LOW, MARGIN, PREDICTED, SCORE, TARGET, TEXT
from drivetrain.training.answers.table import Table, described_task, is_text, read_table
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.metric import Amount, Floats, Ints, Kind, Samples, Task
from drivetrain.training.metric_states.numbers.finite import Where, check_finite
from drivetrain.training.metric_states.score_errors import ScoreErrors

KINDS: Mapping[str, Kind] = {
    **{kind: kind for kind in ("binary", "multiclass", "multilabel", "regression")},
    "text": "values",
}
"""The tasks of a table, and the kinds of metrics that they have."""
COLUMNS = {
    "binary": "score, or score and margin, or margin and predicted",
    "multiclass": "score_<class> for each class, or predicted and margin_<class>",
    "multilabel": "score_<label> for each label",
    "regression": "predicted; low and high where there are intervals",
    "text": "text",
}
LOSSES = {
    **dict.fromkeys(("binary", "multiclass", "multilabel"), "log loss"),
    "regression": "squared error",
    "text": "difference from the target",
}
# Scores of one row may sum to 1 within this: those in half precision are further off than rounding in float32.
_NEAR_ONE = 1e-2
_ADVICE = "correct what wrote the table"


@dataclass(frozen=True)
class Answers:
    """The answers to all rows of a data set, in its order; each array has shape [rows] or [rows, ...].

    Attributes:
        name: the task as a user writes it, a key of `KINDS`.
        values: measures of the answers that are means over the rows, and whether truths or numbers.
        directions: of those, whether more is better.
    """

    table: Table
    dataset: Dataset
    name: str
    task: Task
    values: Mapping[str, Amount]
    scores: NDArray[Any] | None = None
    margins: NDArray[Any] | None = None
    predicted: NDArray[Any] | None = None
    ends: tuple[NDArray[Any], NDArray[Any]] | None = None
    targets: NDArray[Any] | None = None

    @property
    def directions(self) -> dict[str, bool | None]:
        known: dict[str, bool | None] = {"coverage": None, "width": False, "exact_match": True}
        return {name: known[name] for name in self.values}

    @property
    def has_losses(self) -> bool:
        return self.scores is not None or self.task.kind in ("regression", "values")

    def samples(self, rows: Ints) -> Samples:
        """The samples of some rows.

        Args:
            rows: their numbers, shape [n].

        Raises:
            InputError: a target that the task does not have or that the table contradicts; an answer that is no
                number; scores that are no probabilities. The message says where the row is.
        """
        where = Where(rows, self.dataset.reader.locate)
        given = self.dataset.reader.read(rows, [self.dataset.label])[self.dataset.label]
        if self.targets is not None:
            self._check_targets(given, self.targets[rows], where)
        if self.name == "text":
            return self._texts(given, rows)
        scores, margins, predicted = (_of(values, rows) for values in (self.scores, self.margins, self.predicted))
        self._check_numbers({SCORE: scores, MARGIN: margins, PREDICTED: predicted}, where)
        samples = Samples(
            targets=self._targets(given, where),
            scores=margins if scores is None else scores,
            predicted=self._predicted(scores, predicted),
            margins=margins,
            values=self._interval(given, rows, where),
        )
        return replace(samples, losses=self._losses(samples)) if self.has_losses else samples

    def _texts(self, given: NDArray[Any], rows: Ints) -> Samples:
        assert self.predicted is not None
        said, right = self.predicted[rows].tolist(), [str(each) for each in given.tolist()]
        same = np.array([one == other for one, other in zip(said, right, strict=True)], dtype=bool)
        return Samples(losses=1.0 - same, values={"exact_match": same}, texts=lambda: (said, right))

    def _check_targets(self, ours: NDArray[Any], theirs: NDArray[Any], where: Where) -> None:
        text = [each.dtype.kind in "OU" for each in (ours, theirs)]
        same = (
            ours.reshape(len(ours), -1).astype(str if all(text) else np.float64)
            == theirs.reshape(len(theirs), -1).astype(str if all(text) else np.float64)
            if text[0] == text[1] and ours.size == theirs.size
            else np.zeros((len(ours), 1), bool)
        )
        wrong = np.flatnonzero(~same.all(axis=1))
        if wrong.size:
            place = wrong[0]
            raise InputError(
                f"column {TARGET!r} of {self.table.source} has {theirs[place]!s:.60} for {where.of(place)}, where the "
                f"data has {self.dataset.label}={ours[place]!s:.60}. Give the answers to this data."
            )

    def _check_numbers(self, columns: Mapping[str, NDArray[Any] | None], where: Where) -> None:
        for name, values in columns.items():
            if values is not None and values.dtype.kind == "f":
                check_finite(name, values, where, _ADVICE)
        scores = columns[SCORE]
        if scores is None or not scores.size:
            return
        outside = (scores < 0) | (scores > 1)
        if outside.any():
            place = int(np.flatnonzero(outside.reshape(len(scores), -1).any(axis=1))[0])
            shown = scores[place] if scores.ndim == 1 else scores[place][outside[place]][0]
            raise InputError(
                f"the score of {where.of(place)} is {shown:g}; allowed are probabilities, from 0 to 1. Numbers that "
                f"only rank belong in the column {MARGIN!r}, without a score."
            )
        if self.task.kind == "multiclass":
            sums = scores.sum(axis=1, dtype=np.float64)
            wrong = np.flatnonzero(np.abs(sums - 1) > _NEAR_ONE)
            if wrong.size:
                raise InputError(
                    f"the scores of {where.of(wrong[0])} sum to {sums[wrong[0]]:.6g} over the {scores.shape[1]} "
                    f"classes, and not to 1. Write probabilities, or say task='multilabel'."
                )

    def _targets(self, given: NDArray[Any], where: Where) -> NDArray[Any]:
        """The targets as `Samples` has them."""
        kind, label = self.task.kind, self.dataset.label
        if given.dtype.kind in "OU" and kind == "multiclass" and self.task.class_names:
            number = {name: place for place, name in enumerate(self.task.class_names)}
            found = np.array([number.get(str(each), -1) for each in given.tolist()], dtype=np.int64)
            self._check_known(found, given, where)
            return found
        if given.dtype.kind not in "iubf":
            raise InputError(
                f"{where.of(0)}: the label {label} is {given[0]!r:.60}, which is no number, as {self.name} needs. "
                + ("Name the classes: score_<class>." if kind == "multiclass" else "Write the label as a number.")
            )
        if kind == "regression":
            values = given.astype(np.float64)
            check_finite("label", values, where, "correct the label column")
            return self._shaped(values.reshape(len(values), -1), where)
        with np.errstate(invalid="ignore"):
            found = given.astype(np.int64)
        fraction = np.flatnonzero((found != given).reshape(len(found), -1).any(axis=1))
        if fraction.size:
            place = fraction[0]
            raise InputError(f"{where.of(place)}: the label {label}={given[place]!s:.60} is no class.")
        if kind == "multilabel":
            found = self._shaped(found.reshape(len(found), -1), where)
            wrong = np.flatnonzero(((found != 0) & (found != 1)).any(axis=1))
            if wrong.size:
                raise InputError(f"{where.of(wrong[0])}: the labels {label} are not all 0 or 1, as multilabel needs.")
            return found
        found = found.reshape(len(found)) if found.size == len(found) else found
        if found.ndim != 1:
            raise InputError(f"{where.of(0)}: the label {label} has several values, and {self.name} needs one class.")
        self._check_known(found, given, where)
        return found

    def _shaped(self, found: NDArray[Any], where: Where) -> NDArray[Any]:
        if found.shape[1] != self.task.num_classes:
            raise InputError(
                f"{where.of(0)}: the label {self.dataset.label} has {found.shape[1]} values, and the answers in "
                f"{self.table.source} have {self.task.num_classes}."
            )
        return found

    def _check_known(self, found: Ints, given: NDArray[Any], where: Where) -> None:
        wrong = np.flatnonzero((found < 0) | (found >= self.task.num_classes))
        if wrong.size:
            classes = self.task.class_names or range(self.task.num_classes)
            raise InputError(
                f"{where.of(wrong[0])}: the label {self.dataset.label}={given[wrong[0]]!s:.60} is no class of the "
                f"answers, which have {_listed(classes)}. Train with that class, or take such rows out."
            )

    def _predicted(self, scores: NDArray[Any] | None, predicted: NDArray[Any] | None) -> NDArray[Any]:
        kind = self.task.kind
        if predicted is not None:
            return predicted.reshape(len(predicted), -1) if kind in ("regression", "multilabel") else predicted
        assert scores is not None
        if kind == "multiclass":
            return scores.argmax(axis=1)
        return (scores >= (self.task.threshold if kind == "binary" else 0.5)).astype(np.int64)

    def _interval(self, given: NDArray[Any], rows: Ints, where: Where) -> dict[str, NDArray[Any]]:
        if self.ends is None:
            return {}
        low, high = (each[rows].astype(np.float64) for each in self.ends)
        for name, values in ((LOW, low), (HIGH, high)):
            check_finite(name, values, where, _ADVICE)
        wrong = np.flatnonzero(low > high)
        if wrong.size:
            raise InputError(
                f"the interval of {where.of(wrong[0])} is from {low[wrong[0]]:g} to {high[wrong[0]]:g}; low must not "
                "be above high."
            )
        target = given.reshape(len(given)).astype(np.float64)
        return {"coverage": (low <= target) & (target <= high), "width": high - low}

    def _losses(self, samples: Samples) -> Floats:
        kind, targets = self.task.kind, samples.targets
        assert targets is not None
        if kind == "regression":
            assert samples.predicted is not None
            return ((targets - samples.predicted) ** 2).mean(axis=1)
        if kind == "multilabel":
            assert samples.scores is not None
            scores = samples.scores.astype(np.float64)
            edge = np.finfo(np.float64).eps
            right = np.clip(np.where(targets == 1, scores, 1 - scores), edge, 1)
            return -np.log(right).mean(axis=1)
        error = "log_softmax" if self.task.ranked_by == "logits" else "log"
        return ScoreErrors(kind, self.task.num_classes, error).errors(samples)


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
    if with_ends and predicted.shape[1] == 1 and {LOW, HIGH} <= table.columns.keys():
        ends = table.numbers(LOW), table.numbers(HIGH)
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
    import pyarrow as pa

    column = table.columns[PREDICTED]
    if task.class_names and pa.types.is_string(column.type):
        number = {name: place for place, name in enumerate(task.class_names)}
        texts = table.texts(PREDICTED).tolist()
        unknown = next((each for each in texts if each not in number), None)
        if unknown is not None:
            raise InputError(
                f"column {PREDICTED!r} of {table.source} has {unknown!r:.60}, which is no class of its scores: "
                f"{_listed(task.class_names)}."
            )
        return np.array([number[each] for each in texts], dtype=np.int64)
    values = table.numbers(PREDICTED)
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
        return (), _floats(table.numbers(prefix)) if prefix in table.columns else None
    classes = [name.removeprefix(f"{prefix}_") for name in columns]
    if all(each.isdecimal() for each in classes):
        order = sorted(range(len(classes)), key=lambda place: int(classes[place]))
        if [int(classes[place]) for place in order] != list(range(len(classes))):
            raise InputError(
                f"{table.source} has the columns {_listed(columns)}: classes are numbered from 0, each once."
            )
        columns, classes = [columns[place] for place in order], []
    return tuple(classes), np.stack([_floats(table.numbers(name)) for name in columns], axis=1)


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _any(table: Table, name: str) -> NDArray[Any]:
    return table.texts(name) if is_text(table.columns[name]) else table.numbers(name)


def _of(values: NDArray[Any] | None, rows: Ints) -> NDArray[Any] | None:
    return None if values is None else values[rows]


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
        has = _listed(list(table.columns))
        raise InputError(f"{table.source} has no column {missing}; {name} needs {COLUMNS[name]}. It has {has}.")


def _listed(names: Any) -> str:
    shown = [str(each) for each in names]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")
