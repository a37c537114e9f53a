"""Raw text for language models: the bytes of text files, in windows of one length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.host_memory import map_file
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

VOCABULARY = 256
FALLBACK = True  # other formats come with a readme


def recognises(folder: Path) -> bool:
    return any(path.is_file() for path in folder.glob(Options.pattern))


@dataclass(frozen=True, kw_only=True)
class Options:
    length: Annotated[int, Bounds(1)] = 128
    """Tokens that a model sees of a window; the window has one more, which is to be predicted."""
    pattern: str = "*.txt"
    """The files to read, relative to the folder (`**/*.txt`: those below it too), in the order of their names."""

    def __post_init__(self) -> None:
        if not self.pattern or Path(self.pattern).is_absolute() or ".." in Path(self.pattern).parts:
            raise ValueError(f"pattern={self.pattern!r}; allowed are patterns inside the folder, such as *.txt")


class Reader(reader.Reader):
    """`tokens`: int64 [rows, length + 1], bytes from 0 to 255. There is no label: a token's is the next one.

    Windows of a file follow each other and share one byte; none crosses the end of its file, and what is left there
    (less than a window) is not read.
    """

    column_names = ("tokens",)
    streaming = True  # the system reads ahead in mapped files
    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        files = sorted(path for path in folder.glob(options.pattern) if path.is_file())
        if not files:
            raise InputError(f"{folder} has no file {options.pattern}. Give another folder, or the option pattern.")
        rows = [max(0, (path.stat().st_size - 1) // options.length) for path in files]
        if not any(rows):
            raise InputError(
                f"no file {options.pattern} of {folder} has the {options.length + 1} bytes of one window. "
                "Give more text, or a smaller length."
            )
        self._all_files = files
        self._files = [path for path, count in zip(files, rows, strict=True) if count]
        self._rows = [count for count in rows if count]
        self._starts = np.cumsum([0, *self._rows])
        self.statistics = {"tokens": {"vocabulary": VOCABULARY}}

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def shards(self) -> Sequence[int]:
        return self._rows

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self.content_hash = content_hash(self.folder, self._all_files, self.process)
        self._windows = [self._map(path, rows) for path, rows in zip(self._files, self._rows, strict=True)]

    def _map(self, path: Path, rows: int) -> NDArray[Any]:
        length = self.options.length
        data = map_file(path, np.uint8, (rows * length + 1,))
        return as_strided(data, (rows, length + 1), (length, 1))

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(len(self)), dtype=np.int64)
        tokens = np.empty((len(indices), self.options.length + 1), dtype=np.int64)
        file = np.searchsorted(self._starts, indices, side="right") - 1
        for number in np.unique(file).tolist():
            chosen = np.flatnonzero(file == number)
            tokens[chosen] = self._windows[number][indices[chosen] - self._starts[number]]
        return dict.fromkeys(names, tokens)

    def locate(self, row: int) -> str:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        start = (row - int(self._starts[number])) * self.options.length
        return f"{self._files[number]}, bytes {start + 1} to {start + self.options.length + 1}"
