"""Answers that a model of functions gives when it is asked, batch after batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.answers.samples import Answers
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.metric import Amount, Ints, Samples
from drivetrain.training.process import Process
from drivetrain.training.recipe import any_rows
from drivetrain.training.serving.functions import ServedModel
from drivetrain.training.task import Task


class AnswersOfRows(Protocol):
    """The answers to a data set: those of a table, or those that a model gives when it is asked."""

    @property
    def dataset(self) -> Dataset: ...

    @property
    def name(self) -> str:
        """The task as a user writes it."""
        ...

    @property
    def task(self) -> Task: ...

    @property
    def values(self) -> Mapping[str, Amount]:
        """Measures of the answers that are means over the rows, and whether truths or numbers."""
        ...

    @property
    def directions(self) -> Mapping[str, bool | None]: ...

    @property
    def has_losses(self) -> bool: ...

    def samples(self, rows: Ints) -> Samples:
        """The samples of some rows, int64 [n]."""
        ...

    def kept(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """The columns of these rows' answers that `samples` does not have."""
        ...


class AskedAnswers:
    """Answers of a model to rows that follow one another.

    Args:
        threshold: of a binary task: the least score for class 1; 0 for the model's own.

    Raises:
        InputError: data without a label, or without rows; the model cannot answer its first row.
    """

    def __init__(self, model: ServedModel, dataset: Dataset, threshold: float) -> None:
        if not dataset.label:
            raise InputError(f"{dataset.reader.folder} has no label column, so nothing says what is right.")
        if not len(dataset):
            raise InputError(f"{dataset.reader.folder} has no rows.")
        self.dataset, self.name = dataset, model.name
        self._model, self._threshold = model, threshold
        first = self._asked(np.zeros(1, dtype=np.int64))
        self.task = replace(first.task, threshold=threshold or model.task.threshold)
        self.values, self.directions, self.has_losses = first.values, first.directions, first.has_losses
        self._last = first

    def _asked(self, rows: Ints) -> Answers:
        said = self._model.said(self.dataset.reader.read(rows, self._model.inputs.names))
        if self._threshold and self._model.task.kind == "binary" and said.scores is not None:
            said = replace(said, task=replace(said.task, threshold=self._threshold), predicted=None)
        return Answers(
            dataset=self.dataset,
            source="the model's answer",
            said=replace(said, task=replace(said.task, class_names=self._model.task.class_names)),
            first=int(rows[0]),
        )

    def samples(self, rows: Ints) -> Samples:
        self._last = self._asked(rows)
        return self._last.samples(rows)

    def kept(self, rows: Ints) -> dict[str, NDArray[Any]]:
        return self._last.kept(rows)


def open_data(
    data: Path,
    description: Mapping[str, Any],
    process: Process,
    *,
    columns: Sequence[str] = (),
    missing: Sequence[str] = (),
    shuffle_window: int = 0,
    labelled: bool = True,
) -> Dataset:
    """The data for a model of functions, with the columns that it takes.

    Args:
        description: model.json's content.
        columns: those that are needed besides.
        missing: those of them that may have empty cells.

    Raises:
        InputError: as `Dataset`.
    """
    trained_on, inputs = description.get("data", {}), description.get("inputs", {})
    options: Mapping[str, Any] = trained_on.get("reader_options", {})
    if missing:
        options = {**options, "missing": [*options.get("missing", ()), *missing]}
    return Dataset(
        data,
        any_rows([each["name"] for each in inputs.get("columns", ())] or description.get("columns", [])),
        process,
        reader=trained_on.get("reader", "auto"),
        reader_options=options,
        split="test",
        fitted=trained_on.get("fitted"),
        shuffle_window=shuffle_window,
        columns=columns,
        key=True,
        labelled=labelled,
    )
