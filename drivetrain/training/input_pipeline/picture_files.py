"""Picture files as arrays: as the reader `image_folder` gives them to a model, and as a request's become them."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError

MODES = {1: "L", 3: "RGB"}


def decoded(source: Path | IO[bytes], name: str, *, size: int, fit: str, channels: int) -> NDArray[Any]:
    """A picture, upright, as uint8 [size, size, channels].

    Args:
        name: what it is called in a message.
        fit: crop (the middle square of the picture) or stretch (all of it, whatever its shape).

    Raises:
        InputError: it cannot be read.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise InputError("Pictures are read with Pillow, which is not installed: pip install pillow.") from None
    mode = MODES[channels]
    try:
        with Image.open(source) as opened:
            opened.draft(mode, (2 * size, 2 * size))  # JPEG: decode no finer than needed
            image: Any = ImageOps.exif_transpose(opened)
            if image.mode == "P" and "transparency" in image.info:
                image = image.convert("RGBA")
            image = image.convert(mode)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{name} cannot be read as a picture ({error}). Remove it or copy it again.") from None
    width, height = image.size
    square = min(width, height)
    left, upper = (width - square) / 2, (height - square) / 2
    box = (left, upper, left + square, upper + square) if fit == "crop" else None
    image = image.resize((size, size), Image.Resampling.BILINEAR, box=box, reducing_gap=3.0)
    return np.asarray(image).reshape(size, size, channels)


def versions() -> dict[str, str]:
    """Versions of the decoders: another version may round otherwise."""
    try:
        import PIL
        from PIL import features
    except ImportError:
        return {}
    found = {name: features.version(name) for name in ("jpg", "libjpeg_turbo", "zlib", "webp", "libtiff")}
    return {"pillow": PIL.__version__, **{name: str(version) for name, version in found.items()}}
