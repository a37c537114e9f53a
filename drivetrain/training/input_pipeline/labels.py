"""Check that labels are classes, and columns numbers; apart from reader.py, which travels with every model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.reader import Columns, Indices

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
