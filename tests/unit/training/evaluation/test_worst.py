"""Pictures of samples are what a library for pictures reads."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from drivetrain.training.evaluation.worst import MAX_SIDE, is_image, thumbnail


def pixels(address: str) -> NDArray[Any]:
    return np.array(Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/png;base64,")))))


def test_pictures_are_what_pillow_reads() -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    assert is_image(image[None]) and (pixels(thumbnail(image) or "") == image).all()
    channels_first = np.linspace(-2, 2, 3 * 6 * 5).reshape(3, 6, 5)
    shown = pixels(thumbnail(channels_first) or "")
    assert is_image(channels_first[None]) and shown.shape == (6, 5, 3) and (shown.min(), shown.max()) == (0, 255)
    assert (shown[:, :, 1] == np.rint((channels_first[1] + 2) / 4 * 255)).all()
    large = np.repeat(np.repeat(np.array([[0, 255], [255, 0]], np.uint8), 192, 0), 192, 1)
    small = pixels(thumbnail(large) or "")
    assert small.shape == (MAX_SIDE, MAX_SIDE) and small[0, 0] == 0 and small[0, -1] == 255
    assert thumbnail(np.full((1, 8, 8), np.nan)) is None
    for shape in [(2, 8), (2, 3, 2, 8), (2, 7, 8, 9), (2, 2, 3, 4, 5)]:
        assert not is_image(np.zeros(shape, np.float32))
    assert not is_image(np.zeros((2, 8, 8), np.float32)) and is_image(np.zeros((2, 8, 8), np.uint8))
