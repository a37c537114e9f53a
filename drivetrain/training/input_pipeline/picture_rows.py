"""The pictures of a reader by row: decoded once, before training, or each time they are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.training.input_pipeline import picture_files
from drivetrain.training.input_pipeline.decoded import kept_arrays, origin
from drivetrain.training.input_pipeline.host_memory import HostArrays
from drivetrain.training.process import Process
from drivetrain.training.reader import Indices

Source = Callable[[int], tuple["Path | IO[bytes]", str]]
_COLUMN = "image"


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """The options that every reader of pictures has."""

    size: Annotated[int, Bounds(1)] = 224
    """Height and width of pictures as they are read, in pixels."""
    fit: Literal["crop", "stretch"] = "crop"
    """crop: the middle square of the picture; stretch: all of it, whatever its shape."""
    channels: Literal[1, 3] = 3
    """3 (red, green, blue) or 1 (grey)."""
    held_mib: Annotated[int, Bounds(0)] = 2048
    """Decode all pictures once, before training, where they take up to as much; else each time they are read."""


class PictureRows:
    """Its methods are given the source, row -> what is decoded, and what it is called in a message. (It keeps none: a
    method of its reader would be a circle of references, and the threads would stay until the garbage is collected.)
    """

    def __init__(self, count: int, options: PictureOptions, process: Process) -> None:
        self._count, self._options, self._process = count, options, process
        self._held: NDArray[np.uint8] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def open(self, source: Source, content_hash: str, reader: ModuleType, **more_options: Any) -> None:
        """Decode all of them now where they take up to `held_mib`; every rank comes here.

        Args:
            content_hash: of the reader's files.
            reader: its module, whose code decides the result too.
            more_options: values beside the options that decide the result.
        """
        shape = self._shape(self._count)
        if np.prod(shape, dtype=np.int64) > self._options.held_mib << 20:
            return

        def fill(filling: HostArrays) -> None:
            rows = np.arange(filling.number, self._count, filling.count)
            self._decode_into(filling[_COLUMN], source, rows, rows)

        options = {**asdict(self._options), **more_options}
        del options["held_mib"]
        made_of = origin(content_hash, options, reader, picture_files, sys.modules[__name__])
        found = kept_arrays(self._process, {_COLUMN: (shape, np.uint8)}, {**made_of, **picture_files.versions()}, fill)
        self._held = found.arrays[_COLUMN]

    def read(self, source: Source, indices: Indices | slice) -> NDArray[np.uint8]:
        """uint8 [rows, size, size, channels]."""
        if self._held is not None:
            return self._held[indices]
        rows = np.arange(self._count)[indices]
        images = np.empty(self._shape(len(rows)), dtype=np.uint8)
        self._decode_into(images, source, np.arange(len(rows)), rows)
        return images

    def _shape(self, count: int) -> tuple[int, int, int, int]:
        side = self._options.size
        return count, side, side, self._options.channels

    def _decode_into(self, images: NDArray[np.uint8], source: Source, places: Indices, rows: Indices) -> None:
        """Decode pictures in threads: Pillow lets go of the interpreter while it decodes."""
        if self._pool is None or self._pool_process != os.getpid():  # threads do not survive a fork
            cores = len(os.sched_getaffinity(0)) // self._process.local_world_size
            self._pool, self._pool_process = ThreadPoolExecutor(max(1, min(8, cores)), "decode"), os.getpid()

        def decode(place: int, row: int) -> None:
            picture, name = source(row)
            of = self._options
            images[place] = picture_files.decoded(picture, name, size=of.size, fit=of.fit, channels=of.channels)

        for _ in self._pool.map(decode, places.tolist(), rows.tolist()):
            pass
