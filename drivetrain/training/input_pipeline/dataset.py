"""The rows of a folder as a recipe's batches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.base.json_options import parse_options
from drivetrain.training import trees
from drivetrain.training.config import check_sampling
from drivetrain.training.input_pipeline.choice import load_reader
from drivetrain.training.input_pipeline.cursor import Order, StreamOrder, WeightedOrder, balanced_weights
from drivetrain.training.input_pipeline.description import describe_inputs, name_of, statistics_of
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices, Reader
from drivetrain.training.recipe import Batch, Recipe, unlabelled_batch, wrong_answer


class Dataset:
    """The rows of a folder in any format that has a reader, as a recipe takes them.

    Every process must construct it at the same point: the processes of a host share the work of checking and decoding
    the files and wait for each other, so that no row is used before its file was checked.

    Args:
        reader: a file of readers/, a module of the user's own, or `auto`: the recipe's own choice (`Recipe.reader`), or
            the format that the folder has.
        reader_options: the reader's options, as JSON text or as a mapping.
        split: `train` or `test`: what to read of a folder that holds both.
        fitted: `fitted` of the data set that the model was trained on, for data that is read as that was.
        shuffle_window: above 0, read rows in windows of as many rows instead of holding them all.
        columns: columns that are needed besides the recipe's.
        key: read the column that names a row, too, where the format has one.
        labelled: without, no label is read, nor needed: rows are to be predicted, and their targets mean nothing.

    Raises:
        InputError: a file that is missing, torn or of another format, a missing column, no label, a label that is not
            one of the recipe's classes.
    """

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        process: Process,
        *,
        reader: str = "auto",
        reader_options: str | Mapping[str, Any] = "{}",
        split: str = "train",
        fitted: Mapping[str, Any] | None = None,
        shuffle_window: int = 0,
        columns: Sequence[str] = (),
        key: bool = False,
        labelled: bool = True,
    ) -> None:
        self.recipe = recipe
        self.shuffle_window = shuffle_window
        if isinstance(reader_options, str):
            reader_options = parse_options(reader_options, "reader_options")
        options = dict(reader_options)
        own_reader = getattr(recipe, "reader", "auto")
        if reader == "auto":
            reader = own_reader
        if reader == own_reader:
            options = dict(getattr(recipe, "reader_options", {})) | options
        defaults = {"split": split, "fitted": fitted} | ({"shuffle_window": shuffle_window} if shuffle_window else {})
        if not labelled:
            defaults["unlabelled"] = True
        self.reader: Reader = load_reader(reader, folder, options, process, defaults=defaults)
        if shuffle_window and not self.reader.streaming:
            raise InputError(
                f"shuffle_window={shuffle_window}: the reader of {folder} holds all rows at hand and reads no windows. "
                "Leave shuffle_window out, or prepare the data (prepare_data)."
            )
        self.data = self.reader
        self.label: str = (self.reader.label or "") if labelled else ""
        """The name of the label column; empty where the format has none (raw text)."""
        self.key = self.reader.key if key and self.reader.key in self.reader.column_names else None
        """The column that names a row, where it was asked for."""
        besides = [*columns, *([self.key] if self.key else [])]
        of_batches = [*recipe.columns, *([self.label] if self.label else [])]
        self._names: tuple[str, ...] = tuple(dict.fromkeys([*of_batches, *besides]))
        self._batch_names = tuple(dict.fromkeys(of_batches))
        self.reader.open(self._names)
        self._labelled = labelled
        self._check_each_batch = False
        if recipe.num_classes is not None and labelled:
            if not self.label:
                raise InputError(
                    f"{folder} has no labels, and the recipe wants one of {recipe.num_classes} classes. "
                    "Give other data or another recipe."
                )
            self._check_each_batch = self.reader.streaming
            if not self._check_each_batch:
                check_labels(self.reader, self.label, self.labels(), recipe.num_classes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that were opened."""
        return self._names

    @property
    def statistics(self) -> dict[str, Any]:
        """The reader's statistics of the columns that the recipe uses, without the lists of their values."""
        return statistics_of(self.reader, self._names)

    @property
    def fitted(self) -> dict[str, Any]:
        """The reader's fitted values, by which it reads other data, as plain JSON values (mostly none)."""
        return dict(self.reader.fitted)

    @property
    def reader_name(self) -> str:
        """The reader's, as `reader` names it."""
        return name_of(self.reader)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The recipe's columns, as plain JSON values."""
        return describe_inputs(self.reader, self.recipe.columns)

    @property
    def content_hash(self) -> str:
        """Equal for equal data, whatever the number of processes."""
        return self.reader.content_hash

    @property
    def shards(self) -> Sequence[int]:
        """Rows of each file, for a streaming order."""
        return self.reader.shards

    def __len__(self) -> int:
        return len(self.reader)

    def batch(self, indices: Indices | slice) -> Batch:
        """The samples at `indices` as tensors on the CPU."""
        # Never a view of what is held: a recipe may change its tensors in place.
        rows = np.arange(*indices.indices(len(self)), dtype=np.int64) if isinstance(indices, slice) else indices
        columns = self.reader.read(rows, self._batch_names)
        if self._check_each_batch and self.recipe.num_classes is not None:
            check_labels(self.reader, self.label, columns[self.label], self.recipe.num_classes, rows=rows)
        try:
            batch = self.recipe.batch(columns, self.label) if self._labelled else unlabelled_batch(self.recipe, columns)
        except (TypeError, ValueError) as error:
            refused = refused_text(error, self.reader, columns, rows, type(self.recipe).__module__)
            if refused is None:
                raise
            raise refused from error
        if not isinstance(batch, Batch):
            raise wrong_answer(self.recipe, "batch", batch, "a Batch")
        inputs, targets = trees.num_samples(batch.inputs), trees.num_samples(batch.targets)
        if not inputs == targets == len(rows):
            uneven = next((t for t in (batch.inputs, batch.targets) if trees.num_samples(t) is None), None)
            got = f"{inputs} inputs and {targets} targets" if uneven is None else trees.described(uneven)
            got += f" for {len(rows)} rows"
            raise InputError(
                f"{type(self.recipe).__module__}: batch() of the recipe returned {got}; it must be one each."
            )
        return batch

    def order(
        self,
        *,
        global_batch: int,
        seed: int,
        drop_last: bool = False,
        sampling: str = "uniform",
        weight_column: str = "",
    ) -> Order:
        """The order in which a training visits the rows.

        Args:
            sampling: `uniform`: each row once an epoch; `balanced`: each class as often; `weighted`: by the numbers of
                `weight_column`, which was among the `columns` of the constructor. The last two draw with replacement.

        Raises:
            InputError: fields that do not go together, or invalid weights.
        """
        check_sampling(sampling, weight_column, self.shuffle_window)
        if self.shuffle_window:
            return StreamOrder(self.shards, self.shuffle_window, global_batch, seed, drop_last=drop_last)
        if sampling == "uniform":
            return Order(len(self), global_batch, seed, drop_last=drop_last)
        if sampling == "balanced":
            labels = self.labels()
            if labels.ndim != 1 or labels.dtype.kind not in "iub":
                raise InputError(f"sampling='balanced' needs a class a row; label {self.label!r} is {labels.dtype}.")
            return WeightedOrder(balanced_weights(labels), global_batch, seed, drop_last=drop_last)
        weights = self.column(weight_column)
        if weights.ndim != 1 or weights.dtype.kind not in "iubf":
            raise InputError(f"weight_column={weight_column!r} holds no numbers but {weights.dtype}.")
        return WeightedOrder(weights, global_batch, seed, drop_last=drop_last)

    def column(self, name: str) -> NDArray[Any]:
        """All rows of a column that was opened, shape [rows, ...]."""
        return self.reader.read(slice(0, len(self)), [name])[name]

    def labels(self) -> NDArray[Any]:
        """The label of every row, shape [rows].

        Raises:
            InputError: the format has no labels.
        """
        if not self.label:
            raise InputError(f"{self.reader.folder} has no labels.")
        return self.column(self.label)


# Labels that are looked at, and classes that are named, in one message.
_LOOKED_AT, _SHOWN = 10_000, 8


class Locating(Protocol):
    """A source of rows that can say where they are."""

    folder: Path

    def locate(self, row: int) -> str: ...


def check_labels(
    source: Locating, name: str, labels: NDArray[Any], num_classes: int, *, rows: Indices | None = None
) -> None:
    """Every label is a whole number in [0, num_classes).

    Args:
        labels: shape [rows].
        rows: their row numbers; None for all rows.

    Raises:
        InputError: naming file, row and value of the first that is not.
    """
    if labels.dtype.kind not in "iu":
        found = sorted(set(map(repr, labels[:_LOOKED_AT].tolist())))
        shown = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        text = sorted({one for one in labels[:_LOOKED_AT].tolist() if isinstance(one, str)})
        numbered = ", ".join(f"{number} for {one!r}" for number, one in enumerate(text[:_SHOWN]))
        raise InputError(
            f"label column {name!r} of {source.folder} holds {shown}; allowed are whole numbers from 0 to "
            f"{num_classes - 1}, one a class. Write them into the data before prepare_data"
            + (f": {numbered}." if len(text) == len(found) <= _SHOWN else ".")
        )
    if not labels.size or (labels.min() >= 0 and labels.max() < num_classes):
        return
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    first = int(wrong[0])
    row = first if rows is None else int(rows[first])
    raise InputError(
        f"{source.locate(row)}: label {name}={labels[first]} is outside the {num_classes} classes "
        f"(0 to {num_classes - 1}); {wrong.size} such rows. "
        + (
            "Classes are numbered from 0: write them so."
            if labels.min() == 1 and labels.max() == num_classes
            else "Correct the data or the recipe's num_classes."
        )
    )


def refused_text(
    error: TypeError | ValueError, source: Locating, columns: Columns, rows: Indices, recipe: str
) -> InputError | None:
    """The error for people if a recipe reads a column of text as numbers; else None.

    Args:
        columns: what the recipe's batch was made of.
        rows: their row numbers.
    """
    from drivetrain.data.convert import decimal_point

    for name, column in columns.items():
        cells = column.tolist() if column.dtype == object and column.ndim == 1 else []
        for row, cell in zip(rows.tolist(), cells, strict=False):
            if isinstance(cell, str) and (f": {cell!r}" in str(error) or "numpy.object_" in str(error)):
                advice = (
                    f"{decimal_point(cell)}."
                    if re.fullmatch(r"\s*[-+]?[\d.]*\d,\d+\s*", cell)
                    else "Correct the data, or turn the text into numbers before."
                )
                return InputError(
                    f"{source.locate(row)}: column {name!r} holds the text {cell!r:.60}, and recipe {recipe} reads it "
                    f"as a number. {advice}"
                )
    return None
