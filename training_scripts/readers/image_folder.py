"""Pictures in one folder a class: `ants/1.jpg`, `bees/2.png`. Below `train` and `val` (or `test`) too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.picture_rows import PictureOptions, PictureRows
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_SPLITS = {"train": ("train", "training"), "test": ("val", "valid", "validation", "test")}


def recognises(folder: Path) -> bool:
    """A folder in it, or in its folder `train` or `val`, has a picture."""
    tops = [folder / name for names in _SPLITS.values() for name in names]
    return any(_is_picture(path) for top in (folder, *tops) for inside in _folders(top) for path in inside.iterdir())


@dataclass(frozen=True, kw_only=True)
class Options(PictureOptions):
    split: Literal["train", "test"] = "train"
    """train or test, in a folder that has a folder of both (train; val, valid, validation or test)."""


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
        self._images = PictureRows(len(self), options, process)

    def __len__(self) -> int:
        return len(self._files)

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self.content_hash = content_hash(self._top, self._files, self.process)
        if "image" in names:
            self._images.open(self._picture, self.content_hash, sys.modules[__name__])

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        labels = self._labels[indices]
        return {name: self._images.read(self._picture, indices) if name == "image" else labels for name in names}

    def locate(self, row: int) -> str:
        return str(self._files[row])

    def _picture(self, row: int) -> tuple[Path, str]:
        return self._files[row], str(self._files[row])


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
