"""The contract of a reader: one file a format, which gives rows as arrays.

A file `readers/<name>.py`, or a module of the user's own, has

    def recognises(folder: Path) -> bool        what `reader: auto` asks; it looks at names, and reads no data
    FALLBACK = True                             optional: asked only where no other format is recognised
    class Options                               a frozen dataclass: plain values with defaults
    class Reader(reader.Reader)                 below

Rows are numbered from 0 and any of them can be asked for at any time: which come next is the cursor's affair
(cursor.py), and that is why a run can begin anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name

if TYPE_CHECKING:
    from drivetrain.training.process import Process

Columns = Mapping[str, NDArray[Any]]
Indices = NDArray[np.int64]


class Reader:
    """The rows of a folder.

    Constructing it looks at names, sizes and headers. `open` does the reading that must be done once. Both happen at
    the same point on every rank, so that they may wait for each other; `read` may not.

    Raises (both):
        InputError: naming the file that is missing, torn or of another format.
    """

    column_names: tuple[str, ...]
    """The columns that `read` can give."""
    label: str | None = None
    """The column that is to be predicted, or None where the format has none."""
    key: str | None = None
    """The column that names a row, once each, or None where the format has none."""
    num_classes: int | None = None
    """How many classes the label has, where the format tells."""
    content_hash: str
    """Equal for equal content, whatever the number of processes. It is there after `open`."""
    statistics: Mapping[str, Any]
    """Column -> plain JSON values worth keeping with a model (class names, mean, ...)."""
    fitted: Mapping[str, Any]
    """Plain JSON values that were learnt from the training data and that other data is read with (a vocabulary)."""
    streaming = False
    """True if neighbours are cheaper to read than scattered rows, so that a shuffle window makes sense."""

    def __init__(self, folder: Path, options: Any, process: Process) -> None:
        self.folder = folder
        self.options = options
        self.process = process
        self.statistics = {}
        self.fitted = {}

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def shards(self) -> Sequence[int]:
        """Rows of each file, in the order of the rows: what a streaming order shuffles first."""
        return (len(self),)

    def open(self, names: Sequence[str]) -> None:
        """Make the named columns ready, and check every file of the format before its first use.

        The ranks of a host share the work out.
        """
        raise NotImplementedError

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        """Rows as columns, each of shape [rows, ...].

        Args:
            indices: int64 row numbers in any order, or a slice with step 1.
            names: some of those that were opened.
        """
        raise NotImplementedError

    def locate(self, row: int) -> str:
        """The place of a row for a message: the file, and the place in it counted from 1."""
        raise NotImplementedError

    def check_columns(self, names: Sequence[str]) -> None:
        """Raises:
        InputError: a name that the format does not have, with the closest match.
        """
        check_columns(names, self.column_names, self.folder)


def check_columns(names: Iterable[str], known: Sequence[str], folder: Path) -> None:
    """Raises:
    InputError: a name that the data in `folder` do not have, with the closest match.
    """
    for name in names:
        if name not in known:
            advice = f"({folder}) Correct the recipe's columns, or the data."
            raise unknown_name("column", name, known, advice=advice)


class Rows(Mapping[str, NDArray[Any]]):
    """Columns that lie side by side in a few arrays: one gather serves many columns, and `matrix` is a view."""

    def __init__(self, places: Mapping[str, tuple[int, int | None]], arrays: Sequence[NDArray[Any]]) -> None:
        self._places = places
        self._arrays = arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        array, column = self._places[name]
        return self._arrays[array] if column is None else self._arrays[array][:, column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def matrix(self, names: Sequence[str]) -> NDArray[Any] | None:
        """The named columns as a view of shape [rows, names], or None where they do not lie side by side."""
        places = [self._places[name] for name in names]
        array, first = places[0]
        if first is None or places != [(array, first + number) for number in range(len(places))]:
            return None
        return self._arrays[array][:, first : first + len(places)]


def matrix(columns: Columns, names: Sequence[str]) -> NDArray[Any]:
    """The named columns, each of shape [rows], as one array of shape [rows, names]; without a copy where it can be."""
    if isinstance(columns, Rows) and (view := columns.matrix(names)) is not None:
        return view
    for name in names:
        if columns[name].dtype.kind in "OUS":
            other = next((cell for cell in columns[name] if not str(cell)[-1:].isdigit()), columns[name][:1])
            raise InputError(
                f"column {name!r} is text, such as {str(other)!r:.80}, where the recipe reads numbers. Mend it: "
                f"prepare_data's schema='{name}:float64' names the first."
            )
    return np.stack([columns[name] for name in names], axis=1)
