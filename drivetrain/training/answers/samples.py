"""Answers as samples: what a table says of each row, beside the target that the data has.

The loss is that of the task, whatever made the answers: log loss of probabilities (of labels their mean), the squared
error of numbers (of several their mean), and for texts 1 where they differ from the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more
from drivetrain.training.answers import ENDS, HIGH, LOW, MARGIN, PREDICTED, SCORE, TARGET, TEXT
from drivetrain.training.answers.columns import KINDS, Said, decided, read_columns
from drivetrain.training.answers.table import described_task, is_text, read_table, task_of_report
from drivetrain.training.calibration import sigmoid
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.metric import Amount, Floats, Ints, Samples
from drivetrain.training.metric_states.intervals import DIRECTIONS, covered
from drivetrain.training.metric_states.numbers.finite import Where, check_finite
from drivetrain.training.metric_states.score_errors import ScoreErrors
from drivetrain.training.task import Task

LOSSES = {
    **dict.fromkeys(("binary", "multiclass", "multilabel"), "log loss"),
    "regression": "squared error",
    "text": "difference from the target",
}
# How far scores of a row may be from what they should be, such as a sum of 1: some are written with two digits.
_TOLERANCE = 1e-2
_ADVICE = "correct what gave the answers"


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers to rows of a data set that follow one another, in its order.

    Attributes:
        source: names them in a message.
        said: the answers; each array has shape [rows] or [rows, ...].
        targets: what a table says is right, shape [rows] or [rows, ...].
        first: the number of the first row.
        content_hash: of a table's files.
    """

    dataset: Dataset
    source: object
    said: Said
    targets: NDArray[Any] | None = None
    first: int = 0
    content_hash: str = ""

    @property
    def name(self) -> str:
        return self.said.name

    @property
    def task(self) -> Task:
        return self.said.task

    @property
    def values(self) -> dict[str, Amount]:
        """Measures of the answers that are means over the rows, and whether truths or numbers."""
        if self.said.name == "text":
            return {"exact_match": "bool"}
        return {} if self.said.ends is None else {"coverage": "bool", "width": "float"}

    @property
    def directions(self) -> dict[str, bool | None]:
        """Measure -> whether more is better; None where neither is."""
        return {name: {**DIRECTIONS, "exact_match": True}[name] for name in self.values}

    @property
    def has_losses(self) -> bool:
        return self.said.scores is not None or self.task.kind in ("regression", "values")

    def kept(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """The columns of these rows' answers that `samples` does not have."""
        places = rows - self.first
        if self.said.name == "text":
            assert self.said.predicted is not None
            return {TEXT: self.said.predicted[places]}
        return {} if self.said.ends is None else {LOW: self.said.ends[0][places], HIGH: self.said.ends[1][places]}

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
        said, places = self.said, rows - self.first
        if said.name == "text":
            self._check_targets(given, given, places, where)
            return self._texts(given, places)
        targets = self._targets(given, where)
        self._check_targets(given, targets, places, where)
        scores, margins, predicted = (_of(values, places) for values in (said.scores, said.margins, said.predicted))
        self._check_numbers({SCORE: scores, MARGIN: margins, PREDICTED: predicted}, where)
        samples = Samples(
            targets=targets,
            scores=margins if scores is None else scores,
            predicted=self._predicted(scores, predicted),
            margins=margins,
            values=self._interval(given, places, where),
        )
        return replace(samples, losses=self._losses(samples)) if self.has_losses else samples

    def _texts(self, given: NDArray[Any], places: Ints) -> Samples:
        assert self.said.predicted is not None
        said, right = self.said.predicted[places].tolist(), [str(each) for each in given.tolist()]
        same = np.array([one == other for one, other in zip(said, right, strict=True)], dtype=bool)
        return Samples(losses=1.0 - same, values={"exact_match": same}, texts=lambda: (said, right))

    def _check_targets(self, given: NDArray[Any], targets: NDArray[Any], places: Ints, where: Where) -> None:
        """Those of the table are the data's label, or the number of its class.

        Args:
            given: the label of each row, as the data has it.
            targets: as `Samples` has them.
        """
        if self.targets is None:
            return
        theirs = self.targets[places]
        wrong = np.flatnonzero(~(_same(theirs, given) | _same(theirs, targets)))
        if wrong.size:
            place = wrong[0]
            ours, other = (each[place].tolist() if given.ndim > 1 else each[place] for each in (given, theirs))
            raise InputError(
                f"column {TARGET!r} of {self.source} has {_quoted(other)} for {where.of(place)}, where the data "
                f"has {self.dataset.label}={_quoted(ours)}. Give the answers to this data."
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
                f"the score of {where.of(place)} is {shown!s}; allowed are probabilities, from 0 to 1. Numbers that "
                f"only rank belong in the column {MARGIN!r}, without a score."
            )
        margins = columns[MARGIN]
        if margins is not None:
            off = np.abs(sigmoid(margins) - scores).reshape(len(scores), -1).max(axis=1)
            wrong = np.flatnonzero(off > _TOLERANCE)
            if wrong.size:
                raise InputError(
                    f"the margin of {where.of(wrong[0])} is {_shown(margins[wrong[0]])}, and the score beside it is "
                    f"{_shown(scores[wrong[0]])}: a margin is the log-odds of its score. Leave one of them out."
                )
        if self.task.kind == "multiclass":
            sums = scores.sum(axis=1, dtype=np.float64)
            wrong = np.flatnonzero(np.abs(sums - 1) > _TOLERANCE)
            if wrong.size:
                raise InputError(
                    f"the scores of {where.of(wrong[0])} sum to {sums[wrong[0]]:.6g} over the {scores.shape[1]} "
                    f"classes, and not to 1. Write probabilities, or say task='multilabel'."
                )

    def _targets(self, given: NDArray[Any], where: Where) -> NDArray[Any]:
        """The targets as `Samples` has them."""
        kind, label, name = self.task.kind, self.dataset.label, self.said.name
        if given.dtype.kind in "OU" and kind in ("binary", "multiclass"):
            names = self.task.class_names or map(str, range(self.task.num_classes))
            number = {name: place for place, name in enumerate(names)}
            found = np.array([number.get(str(each), -1) for each in given.tolist()], dtype=np.int64)
            self._check_known(found, given, where)
            return found
        if given.dtype.kind not in "iubf":
            raise InputError(
                f"{where.of(0)}: the label {label} is {given[0]!r:.60}, which is no number, as {name} needs. "
                "Write the label as a number."
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
            raise InputError(f"{where.of(0)}: the label {label} has several values, and {name} needs one class.")
        self._check_known(found, given, where)
        return found

    def _shaped(self, found: NDArray[Any], where: Where) -> NDArray[Any]:
        if found.shape[1] != self.task.num_classes:
            raise InputError(
                f"{where.of(0)}: the label {self.dataset.label} has {found.shape[1]} values, and the answers in "
                f"{self.source} have {self.task.num_classes}."
            )
        return found

    def _check_known(self, found: Ints, given: NDArray[Any], where: Where) -> None:
        wrong = np.flatnonzero((found < 0) | (found >= self.task.num_classes))
        if wrong.size:
            classes = self.task.class_names or range(self.task.num_classes)
            raise InputError(
                f"{where.of(wrong[0])}: the label {self.dataset.label}={given[wrong[0]]!s:.60} is no class of the "
                f"answers, which have {and_more(classes, 12)}. "
                + (
                    "Write the label as 0 and 1, or name the two in class_names of describe_model."
                    if given.dtype.kind in "OU" and self.task.kind == "binary"
                    else "Name the classes by their columns: score_<class>."
                    if given.dtype.kind in "OU" and not self.task.class_names
                    else "Train with that class, or take such rows out."
                )
            )

    def _predicted(self, scores: NDArray[Any] | None, predicted: NDArray[Any] | None) -> NDArray[Any]:
        kind = self.task.kind
        if predicted is not None:
            return predicted.reshape(len(predicted), -1) if kind in ("regression", "multilabel") else predicted
        assert scores is not None
        return decided(self.task, scores)

    def _interval(self, given: NDArray[Any], places: Ints, where: Where) -> dict[str, NDArray[Any]]:
        if self.said.ends is None:
            return {}
        low, high = (each[places].astype(np.float64) for each in self.said.ends)
        for name, values in ((LOW, low), (HIGH, high)):
            check_finite(name, values, where, _ADVICE)
        wrong = np.flatnonzero(low > high)
        if wrong.size:
            raise InputError(
                f"the interval of {where.of(wrong[0])} is from {low[wrong[0]]:g} to {high[wrong[0]]:g}; low must not "
                "be above high."
            )
        return covered(low, high, given.reshape(len(given)).astype(np.float64))

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
        threshold: as `read_columns`.

    Raises:
        InputError: as `read_table` and `read_columns`; no task, or another one than the table's.
    """
    told = described_task(source)
    name = _task_name(name, str(told.get("kind", "")), source)
    if not dataset.label:
        raise InputError(f"{dataset.reader.folder} has no label column, so nothing says what is right.")
    table = read_table(source, dataset)
    targets = None
    if TARGET in table.columns and not told:  # (batch_predict writes none: there it is a column that was to be kept)
        targets = table.texts(TARGET) if is_text(table.columns[TARGET]) else table.numbers(TARGET)
    known, with_ends = told or task_of_report(source), not told or bool(told.get(ENDS))
    said = read_columns(table, name, threshold=threshold, told=known, with_ends=with_ends)
    return Answers(dataset=dataset, source=source, said=said, targets=targets, content_hash=table.content_hash)


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


def _of(values: NDArray[Any] | None, places: Ints) -> NDArray[Any] | None:
    return None if values is None else values[places]


def _same(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """True for rows with equal values; a text never equals a number."""
    texts = [each.dtype.kind in "OU" for each in (one, other)]
    if texts[0] != texts[1] or one.size != other.size:
        return np.zeros(len(one), bool)
    ours, theirs = (each.reshape(len(each), -1).astype(str if texts[0] else np.float64) for each in (one, other))
    return (ours == theirs).all(axis=1)


def _quoted(value: Any) -> str:
    return f"{value!r:.60}" if isinstance(value, str | list) else f"{value!s:.60}"


def _shown(values: Any) -> str:
    return and_more([f"{each:.6g}" for each in np.ravel(values)], 12)
