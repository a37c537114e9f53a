"""Pictures in one folder a class: `ants/1.jpg`, `bees/2.png`. Below `train` and `val` (or `test`) too."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.input_pipeline import picture_files
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.decoded import kept_arrays, origin
from drivetrain.training.input_pipeline.host_memory import HostArrays
from drivetrain.training.input_pipeline.picture_files import MODES, decoded
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices, Rows, check_choice, check_whole_number

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_SPLITS = {"train": ("train", "training"), "test": ("val", "valid", "validation", "test")}
_PLACES = {"image": (0, None), "label": (1, None)}


def recognises(folder: Path) -> bool:
    """A folder in it, or in its folder `train` or `val`, has a picture."""
    tops = [folder / name for names in _SPLITS.values() for name in names]
    return any(_is_picture(path) for top in (folder, *tops) for inside in _folders(top) for path in inside.iterdir())


@dataclass(frozen=True, kw_only=True)
class Options:
    size: int = 224
    """Height and width of what is read, in pixels."""
    fit: str = "crop"
    """crop: the middle square of the picture; stretch: all of it, whatever its shape."""
    channels: int = 3
    """3 (red, green, blue) or 1 (grey)."""
    split: str = "train"
    """train or test, in a folder that has a folder of both (train; val, valid, validation or test)."""
    held_mib: int = 2048
    """Decode all pictures once, before training, where they take up to as much; else each time they are read."""

    def __post_init__(self) -> None:
        check_whole_number(self, "size")
        check_whole_number(self, "held_mib", least=0)
        check_choice(self, "fit", ("crop", "stretch"))
        check_choice(self, "split", tuple(_SPLITS))
        if self.channels not in MODES:
            raise ValueError(f"channels={self.channels}; allowed are 1 and 3")


class Reader(reader.Reader):
    """`image`: uint8 [rows, size, size, channels]; `label`: int64 [rows], classes counted in the order of their names.

    `statistics["label"]["classes"]` has the names.
    """

    column_names = ("image", "label")
    label = "label"
    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        self._top = _top(folder, options.split)
        classes = _folders(self._top)
        if not classes:
            raise InputError(f"{self._top} has no folders. Pictures lie in one folder a class, such as ants and bees.")
        self.num_classes = len(classes)
        self.statistics = {"label": {"classes": [path.name for path in classes]}}
        self._files: list[Path] = []
        labels: list[int] = []
        for number, inside in enumerate(classes):
            found = sorted(path for path in inside.rglob("*") if _is_picture(path))
            if not found:
                allowed = ", ".join(sorted(SUFFIXES))
                raise InputError(f"class folder {inside} has no pictures ({allowed}). Add some, or remove it.")
            self._files += found
            labels += [number] * len(found)
        self._labels = np.array(labels, dtype=np.int64)
        self._images: NDArray[np.uint8] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def __len__(self) -> int:
        return len(self._files)

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self.content_hash = content_hash(self._top, self._files, self.process)
        side, channels = self.options.size, self.options.channels
        shape = (len(self), side, side, channels)
        if "image" not in names or np.prod(shape, dtype=np.int64) > self.options.held_mib << 20:
            return

        def fill(filling: HostArrays) -> None:
            rows = np.arange(filling.number, len(self), filling.count)
            self._decode_into(filling["image"], rows, rows)

        options = {key: value for key, value in asdict(self.options).items() if key != "held_mib"}
        made_of = origin(self.content_hash, options, sys.modules[__name__], picture_files) | picture_files.versions()
        self._images = kept_arrays(self.process, {"image": (shape, np.uint8)}, made_of, fill).arrays["image"]

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        labels = self._labels[indices]
        if "image" not in names:
            return Rows({name: _PLACES[name] for name in names}, [labels, labels])
        if self._images is not None:
            images = self._images[indices]
        else:
            rows = np.arange(len(self))[indices]
            side, channels = self.options.size, self.options.channels
            images = np.empty((len(rows), side, side, channels), dtype=np.uint8)
            self._decode_into(images, np.arange(len(rows)), rows)
        return Rows({name: _PLACES[name] for name in names}, [images, labels])

    def locate(self, row: int) -> str:
        return str(self._files[row])

    def _decode_into(self, images: NDArray[np.uint8], places: Indices, rows: Indices) -> None:
        """Decode pictures in threads: Pillow lets go of the interpreter while it decodes."""
        if self._pool is None or self._pool_process != os.getpid():  # threads do not survive a fork
            cores = len(os.sched_getaffinity(0)) // self.process.local_world_size
            self._pool, self._pool_process = ThreadPoolExecutor(max(1, min(8, cores)), "decode"), os.getpid()

        def decode(place: int, row: int) -> None:
            path, options = self._files[row], self.options
            images[place] = decoded(path, str(path), size=options.size, fit=options.fit, channels=options.channels)

        for _ in self._pool.map(decode, places.tolist(), rows.tolist()):
            pass


def _top(folder: Path, split: str) -> Path:
    """The folder of the class folders: `folder`, or the one of the split below it."""
    inside = {path.name for path in _folders(folder)}
    splits = {word: [name for name in names if name in inside] for word, names in _SPLITS.items()}
    if inside and inside == {name for names in splits.values() for name in names}:
        if not splits[split]:
            allowed = " or ".join(_SPLITS[split])
            raise InputError(f"{folder} has {', '.join(sorted(inside))} and no {allowed}. Name the folder to read.")
        return folder / splits[split][0]
    return folder


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
