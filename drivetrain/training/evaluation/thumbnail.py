"""A small picture of a sample that is an image, as PNG (ISO/IEC 15948), without a library for pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """A `data:` URI of one image, of the shapes of `is_image` without n; None where a number is not finite.

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
