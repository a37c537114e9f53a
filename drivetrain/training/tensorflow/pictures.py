"""Pictures as Keras takes them, channels last: the numbers of input_pipeline/images.py and augmentation.py.

Only numpy is needed: it travels with a model that is served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.input_pipeline.draws import Seeds, uniform

WHITE = 255.0


def normalized(images: NDArray[Any], mean: Sequence[float], std: Sequence[float]) -> NDArray[np.float32]:
    """
    Args:
        images: uint8, shape [rows, height, width, channels].
        mean: for each channel, of values from 0 (black) to 1 (white).
        std: for each channel, on the same scale.

    Returns:
        float32, of the same shape, with a mean of about 0 and a standard deviation of about 1.
    """
    scale = (1.0 / (WHITE * np.asarray(std))).astype(np.float32)
    shift = (-np.asarray(mean) / np.asarray(std)).astype(np.float32)
    return images.astype(np.float32) * scale + shift


def crop_and_flip(images: NDArray[Any], seeds: Seeds, *, padding: int) -> NDArray[Any]:
    """Shift each picture by up to `padding` pixels each way, zeros moving in, and mirror every other one.

    Args:
        images: shape [samples, height, width, channels]; left as they are.
        seeds: shape [samples].
    """
    samples, height, width, _ = images.shape
    top, left = ((uniform(seeds, draw) * (2 * padding + 1)).astype(np.int64) for draw in (0, 1))
    steps = np.arange(width)
    columns = left[:, None] + np.where((uniform(seeds, 2) < 0.5)[:, None], steps[::-1], steps)
    rows = top[:, None] + np.arange(height)
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    return padded[np.arange(samples)[:, None, None], rows[:, :, None], columns[:, None, :]]
