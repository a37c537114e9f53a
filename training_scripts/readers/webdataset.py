"""WebDataset: tar files whose members `000.jpg`, `000.cls` make a sample each.

Members of one sample follow one another and have one name up to its first dot. Tars are read where they lie: their
members are listed once, and a picture is read from its place.
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drivetrain.base.errors import InputError, first_line
from drivetrain.training import reader
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.picture_rows import PictureOptions, PictureRows
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

PICTURES = frozenset(("bmp", "gif", "jpeg", "jpg", "png", "ppm", "tif", "tiff", "webp"))
_LONGEST_CLASS = 20


def recognises(folder: Path) -> bool:
    return any(folder.glob("*.tar"))


@dataclass(frozen=True, kw_only=True)
class Options(PictureOptions):
    label: str = "cls"
    """The ending of the members that hold the class, a whole number from 0 on as text."""
    unlabelled: bool = False
    """Read data that has no labels."""


@dataclass(frozen=True)
class _Member:
    tar: Path
    name: str
    offset: int
    size: int

    def read(self) -> bytes:
        with self.tar.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)

    def __str__(self) -> str:
        return f"{self.tar}, {self.name}"


class Reader(reader.Reader):
    """`image`: uint8 [rows, size, size, channels]; `label`: int64 [rows]. Other members of a sample are not read."""

    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        self._tars = sorted(folder.glob("*.tar"))
        if not self._tars:
            raise InputError(f"{folder} has no .tar files.")
        self._pictures: list[_Member] = []
        labels: list[int] = []
        for tar in self._tars:
            for sample in _samples(tar):
                self._pictures.append(_picture(sample))
                if not options.unlabelled:
                    labels.append(_label(sample, options.label))
        if not self._pictures:
            raise InputError(f"{folder} has no samples: its .tar files hold no members.")
        self.column_names = ("image",) if options.unlabelled else ("image", "label")
        self.label = None if options.unlabelled else "label"
        self._labels = np.array(labels, dtype=np.int64)
        self._images = PictureRows(len(self), options, process)

    def __len__(self) -> int:
        return len(self._pictures)

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self.content_hash = content_hash(self.folder, self._tars, self.process)
        if "image" in names:
            self._images.open(self._source, self.content_hash, sys.modules[__name__])

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        return {
            name: self._images.read(self._source, indices) if name == "image" else self._labels[indices]
            for name in names
        }

    def locate(self, row: int) -> str:
        return str(self._pictures[row])

    def _source(self, row: int) -> tuple[io.BytesIO, str]:
        picture = self._pictures[row]
        return io.BytesIO(picture.read()), str(picture)


def _samples(tar: Path) -> Iterator[dict[str, _Member]]:
    """The members of each sample by their ending, in the order of the file.

    Raises:
        InputError: it is no tar file, or torn.
    """
    torn = f"{tar} is torn or no tar file ({{}}). Copy it again; a compressed one has to be unpacked."
    sample: dict[str, _Member] = {}
    last, end = "", 0
    try:
        with tarfile.open(tar, "r:") as archive:
            for info in archive:
                end = info.offset_data + -(-info.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
                folder, _, file = info.name.rpartition("/")
                key, dot, ending = file.partition(".")
                if not info.isreg() or not dot or not key:
                    continue
                if (name := f"{folder}/{key}") != last and sample:
                    yield sample
                    sample = {}
                last = name
                if ending.lower() in sample:
                    raise InputError(f"{tar}, {info.name} is there twice.")
                sample[ending.lower()] = _Member(tar, info.name, info.offset_data, info.size)
        with tar.open("rb") as stream:
            stream.seek(end)
            if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise InputError(torn.format("its end is missing"))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(torn.format(first_line(error))) from None
    if sample:
        yield sample


def _picture(sample: dict[str, _Member]) -> _Member:
    found = [member for ending, member in sample.items() if ending in PICTURES]
    if len(found) != 1:
        first = next(iter(sample.values()))
        allowed = ", ".join(sorted(PICTURES))
        raise InputError(f"{first}: the sample has {len(found) or 'no'} pictures ({allowed}). It needs one.")
    return found[0]


def _label(sample: dict[str, _Member], ending: str) -> int:
    if ending not in sample:
        first = next(iter(sample.values()))
        raise InputError(
            f"{first}: the sample has no .{ending}, its class. Name the ending with the option label, or read it with "
            "unlabelled."
        )
    member = sample[ending]
    text = member.read().decode("ascii", "replace").strip() if member.size <= _LONGEST_CLASS else "..."
    if not text.isdecimal() or len(text) > 9:
        raise InputError(f"{member} is {text!r}. Allowed: a class as a whole number from 0 on, such as 7.")
    return int(text)
