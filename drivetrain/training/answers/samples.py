"""Answers as samples: what a table says of each row, beside the target that the data has.

The loss is that of the task, whatever made the answers: log loss of probabilities (of labels their mean), the squared
error of numbers (of several their mean), and for texts 1 where they differ from the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more
from drivetrain.training.answers import HIGH, LOW, MARGIN, PREDICTED, SCORE, TARGET, TEXT
from drivetrain.training.answers.table import Table
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.metric import Amount, Floats, Ints, Samples
from drivetrain.training.metric_states.numbers.finite import Where, check_finite
from drivetrain.training.metric_states.score_errors import ScoreErrors
from drivetrain.training.task import Kind, Task

KINDS: Mapping[str, Kind] = {
    **{kind: kind for kind in ("binary", "multiclass", "multilabel", "regression")},
    "text": "values",
}
"""The tasks of a table, and the kinds of metrics that they have."""
LOSSES = {
    **dict.fromkeys(("binary", "multiclass", "multilabel"), "log loss"),
    "regression": "squared error",
    "text": "difference from the target",
}
# How far scores of a row may be from what they should be, such as a sum of 1: some are written with two digits.
_TOLERANCE = 1e-2
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

    def kept(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """The columns of these rows' answers that `samples` does not have."""
        if self.name == "text":
            assert self.predicted is not None
            return {TEXT: self.predicted[rows]}
        return {} if self.ends is None else {LOW: self.ends[0][rows], HIGH: self.ends[1][rows]}

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
        if self.name == "text":
            self._check_targets(given, given, rows, where)
            return self._texts(given, rows)
        targets = self._targets(given, where)
        self._check_targets(given, targets, rows, where)
        scores, margins, predicted = (_of(values, rows) for values in (self.scores, self.margins, self.predicted))
        self._check_numbers({SCORE: scores, MARGIN: margins, PREDICTED: predicted}, where)
        samples = Samples(
            targets=targets,
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

    def _check_targets(self, given: NDArray[Any], targets: NDArray[Any], rows: Ints, where: Where) -> None:
        """Those of the table are the data's label, or the number of its class.

        Args:
            given: the label of each row, as the data has it.
            targets: as `Samples` has them.
        """
        if self.targets is None:
            return
        theirs = self.targets[rows]
        wrong = np.flatnonzero(~(_same(theirs, given) | _same(theirs, targets)))
        if wrong.size:
            place = wrong[0]
            ours, other = (each[place].tolist() if given.ndim > 1 else each[place] for each in (given, theirs))
            raise InputError(
                f"column {TARGET!r} of {self.table.source} has {_quoted(other)} for {where.of(place)}, where the data "
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
            with np.errstate(over="ignore"):
                off = np.abs(1 / (1 + np.exp(-margins)) - scores).reshape(len(scores), -1).max(axis=1)
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
        kind, label = self.task.kind, self.dataset.label
        if given.dtype.kind in "OU" and kind in ("binary", "multiclass"):
            names = self.task.class_names or map(str, range(self.task.num_classes))
            number = {name: place for place, name in enumerate(names)}
            found = np.array([number.get(str(each), -1) for each in given.tolist()], dtype=np.int64)
            self._check_known(found, given, where)
            return found
        if given.dtype.kind not in "iubf":
            raise InputError(
                f"{where.of(0)}: the label {label} is {given[0]!r:.60}, which is no number, as {self.name} needs. "
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
                f"answers, which have {and_more(classes, 12)}. "
                + (
                    "Name the classes by their columns: score_<class>."
                    if given.dtype.kind in "OU" and not self.task.class_names
                    else "Train with that class, or take such rows out."
                )
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


def _of(values: NDArray[Any] | None, rows: Ints) -> NDArray[Any] | None:
    return None if values is None else values[rows]


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
