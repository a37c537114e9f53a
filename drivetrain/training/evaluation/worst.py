"""The samples with the largest losses, with their columns and a small picture: worst.json of a report.

Every rank keeps the worst of its own batches; in the end the ranks merge theirs, by loss, then by key, then by row. So
the samples are the same ones from any number of ranks. The columns are those that were opened: what the model reads,
the key, and what is sliced by.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.metric import Ints, Samples
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns

FORMAT = 1
MAX_COLUMNS = 30
MAX_TEXT = 300
# Values of a target or an answer that are told; of more than these nobody reads them.
MAX_VALUES = 8
MAX_SCORES = 3


class _Entry(NamedTuple):
    """Sorted, the worst come first."""

    minus_loss: float
    key: Any
    row: int
    said: dict[str, Any] | None

    @property
    def place(self) -> tuple[float, Any, int]:
        return self.minus_loss, self.key, self.row


class Worst:
    """Takes this rank's batches; `merged` gives the worst of all ranks.

    Args:
        number: how many, at least 1.
        inputs: the model's inputs for some rows, shape [n, ...], where they may be images; else None.
    """

    def __init__(
        self, number: int, process: Process, inputs: Callable[[Ints], NDArray[Any] | None], dataset: Dataset
    ) -> None:
        self._number, self._process, self._inputs, self._dataset = number, process, inputs, dataset
        self._entries: list[_Entry] = []

    def add(self, rows: Ints, samples: Samples) -> None:
        """A batch; `rows` has its row numbers, shape [n]."""
        assert samples.losses is not None
        least = -self._entries[-1].minus_loss if len(self._entries) == self._number else -math.inf
        places = np.flatnonzero(samples.losses >= least)  # one that ties may come first by its key
        if not places.size:
            return
        key = self._dataset.key
        keys = self._dataset.reader.read(rows[places], [key])[key].tolist() if key else rows[places].tolist()
        found = [
            _Entry(-float(samples.losses[place]), each, int(rows[place]), None)
            for place, each in zip(places, keys, strict=True)
        ]
        kept = sorted([*self._entries, *found], key=lambda one: one.place)[: self._number]
        place_of = {int(row): place for place, row in enumerate(rows)}
        self._entries = [
            one if one.said is not None else one._replace(said=_said(samples, place_of[one.row])) for one in kept
        ]

    def merged(self) -> dict[str, Any]:
        """Merge the ranks' rows into the content of worst.json. Every rank must call this after the last batch."""
        group = self._process.group if self._process.world_size > 1 else None
        own = [one.place for one in self._entries]
        every = [tuple(place) for places in (group.gather_json(own) if group else [own]) for place in places]
        wanted = set(sorted(every)[: self._number])
        shown = [self._shown(one) for one in self._entries if one.place in wanted]
        parts = group.gather_json(shown) if group else [shown]
        samples = sorted(
            (one for part in parts for one in part), key=lambda one: (-one["loss"], one["key"], one["row"])
        )
        return {"format": FORMAT, "key": self._dataset.key, "samples": samples}

    def _shown(self, entry: _Entry) -> dict[str, Any]:
        rows = np.array([entry.row], np.int64)
        columns = self._dataset.reader.read(rows, self._dataset.columns)
        image = self._image(rows, columns)
        hidden = {self._dataset.key, self._dataset.label}
        if image is not None:  # its pixels may be columns
            hidden |= set(self._dataset.recipe.columns)
        told = {name: _plain(columns[name][0]) for name in self._dataset.columns if name not in hidden}
        known = [(name, value) for name, value in told.items() if value is not None]
        return {
            "row": entry.row,
            "key": entry.key,
            "loss": -entry.minus_loss,
            **(entry.said or {}),
            "columns": dict(known[:MAX_COLUMNS]),
            **({"image": image} if image is not None else {}),
        }

    def _image(self, rows: Ints, columns: Columns) -> str | None:
        """A column of images; else the model's inputs, where they are one."""
        for values in columns.values():
            if values.dtype == np.uint8 and is_image(values):
                return thumbnail(values[0])
        inputs = self._inputs(rows)
        return thumbnail(inputs[0]) if inputs is not None and is_image(inputs) else None


def _said(samples: Samples, place: int) -> dict[str, Any]:
    """Target, answer, and the largest of the scores as (class, score)."""
    found: dict[str, Any] = {}
    for name, values in (("target", samples.targets), ("predicted", samples.predicted)):
        if values is not None and (told := _plain(values[place])) is not None:
            found[name] = told
    if samples.scores is not None and samples.scores.ndim == 1:
        found["scores"] = [[1, float(samples.scores[place])]]
    elif samples.scores is not None:
        order = np.argsort(-samples.scores[place], kind="stable")[:MAX_SCORES]
        found["scores"] = [[int(each), float(samples.scores[place][each])] for each in order]
    return found


def _plain(value: NDArray[Any] | Any) -> Any:
    """A number, a truth, a short text or a few of them, as JSON has them; None for anything else."""
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1)
        if flat.size == 1:
            return _plain(flat[0])
        told = [_plain(each) for each in flat] if flat.size <= MAX_VALUES else [None]
        return None if None in told else told
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…"
    return value if isinstance(value, int) else None


MAX_SIDE = 96
"""Pixels; larger images become smaller by whole factors."""
_CHANNELS = (1, 3)
_SMALLEST = 4
_COLOUR_TYPES = {1: 0, 3: 2}


def is_image(array: NDArray[Any]) -> bool:
    """Return True if samples of this shape are images: [n, channels, height, width] or [n, height, width, channels] of
    1 or 3 channels; of bytes also [n, height, width]."""
    shape = array.shape[1:]
    if len(shape) == 2:
        return array.dtype == np.uint8 and min(shape) >= _SMALLEST
    if len(shape) != 3 or array.dtype.kind not in "uif":
        return False
    first, last = (shape[0], shape[1:]), (shape[-1], shape[:-1])
    return any(channels in _CHANNELS and min(sides) >= _SMALLEST for channels, sides in (first, last))


def thumbnail(image: NDArray[Any]) -> str | None:
    """A `data:` URI of one image as PNG (ISO/IEC 15948), of the shapes of `is_image` without n; None where a number is
    not finite.

    Bytes are taken as they are; other numbers are stretched from the least to the largest of the image.
    """
    if image.ndim == 2:
        image = image[:, :, None]
    elif image.shape[0] in _CHANNELS:
        image = np.moveaxis(image, 0, -1)
    factor = -(-max(image.shape[:2]) // MAX_SIDE)
    height, width = (max(side // factor, 1) for side in image.shape[:2])
    numbers = image.astype(np.float64)
    if not np.isfinite(numbers).all():
        return None
    if factor > 1 and min(image.shape[:2]) >= factor:
        blocks = numbers[: height * factor, : width * factor].reshape(height, factor, width, factor, -1)
        numbers = blocks.mean(axis=(1, 3))
    if image.dtype != np.uint8:
        low, high = numbers.min(), numbers.max()
        numbers = (numbers - low) / ((high - low) or 1.0) * 255
    return "data:image/png;base64," + base64.b64encode(png(np.rint(numbers).astype(np.uint8))).decode()


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode pixels of shape [height, width, 1 or 3] as PNG."""
    height, width, channels = pixels.shape
    # Each line begins with its filter, 0 for none.
    lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0))).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
