"""Whether labels are classes; apart from reader.py, which travels with every model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.reader import Indices


class Locating(Protocol):
    """What has rows and can say where they are."""

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
        raise InputError(
            f"label column {name!r} of {source.folder} has {labels[:1].tolist()[0]!r}, of type {labels.dtype}; allowed "
            f"are whole numbers from 0 to {num_classes - 1}, one a class. Number the classes before prepare_data."
        )
    if not labels.size or (labels.min() >= 0 and labels.max() < num_classes):
        return
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    first = int(wrong[0])
    row = first if rows is None else int(rows[first])
    raise InputError(
        f"{source.locate(row)}: label {name}={labels[first]} is outside the {num_classes} classes "
        f"(0 to {num_classes - 1}); {wrong.size} such rows. Correct the data or the recipe's num_classes."
    )
