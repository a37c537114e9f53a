"""Pictures as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WHITE = 255.0


def normalized(images: NDArray[Any], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Pictures as convolutions take them, with a mean of about 0 and a standard deviation of about 1.

    Args:
        images: uint8, shape [rows, height, width, channels].
        mean: for each channel, of values from 0 (black) to 1 (white).
        std: for each channel, on the same scale.

    Returns:
        float32, shape [rows, channels, height, width].
    """
    if not images.flags.writeable:
        images = images.copy()  # torch cannot promise to leave mapped files alone
    # Planes first, numbers then: bytes are moved about, not words.
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().to(torch.float32)
    scale = 1.0 / (WHITE * np.asarray(std))
    shift = -np.asarray(mean) / np.asarray(std)
    return pixels.mul_(_by_channel(scale)).add_(_by_channel(shift))


def _by_channel(values: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))[:, None, None]
