"""Random changes of samples, each a pure function of the sample and its seed.

A sample is changed alike on whichever rank it is, in whichever batch, and again after a restart: there is no generator
whose state anybody must keep.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from drivetrain.training.input_pipeline.draws import Seeds, uniform

_TRIES = 10


def crop_and_flip(images: Tensor, seeds: Seeds, *, padding: int) -> Tensor:
    """Shift each picture by up to `padding` pixels each way, zeros moving in, and mirror every other one.

    As for CIFAR-10 in K. He and others, "Deep Residual Learning for Image Recognition", 2016, section 4.2.

    Args:
        images: shape [samples, channels, height, width]; left as they are.
        seeds: shape [samples].
    """
    samples, channels, height, width = images.shape
    choices = 2 * padding + 1
    top, left = (_whole_numbers(uniform(seeds, draw), choices, images) for draw in (0, 1))
    rows = top[:, None] + torch.arange(height, device=images.device)
    steps = torch.arange(width, device=images.device)
    columns = left[:, None] + torch.where(_flipped(seeds, 2, images)[:, None], steps.flip(0), steps)
    padded = functional.pad(images, (padding, padding, padding, padding)).flatten(2)
    # One gather does both: the place of each new pixel in the padded picture, row by row.
    places = (rows[:, :, None] * (width + 2 * padding) + columns[:, None, :]).view(samples, 1, -1)
    return padded.gather(2, places.expand(-1, channels, -1)).view(images.shape)


def resized_crop_and_flip(
    images: Tensor,
    seeds: Seeds,
    *,
    size: int,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """Cut a random box out of each picture, bring it to size x size, and mirror every other one.

    As for ImageNet in C. Szegedy and others, "Going Deeper with Convolutions", 2015, section 6; resized by bilinear
    interpolation.

    Args:
        images: shape [samples, channels, height, width]; left as they are.
        seeds: shape [samples].
        scale: the box's area, in parts of the picture.
        ratio: the box's width by its height.

    Returns:
        Shape [samples, channels, size, size].
    """
    height, width = images.shape[2:]
    left, top, box_width, box_height = _boxes(seeds, height, width, scale, ratio)
    # Pixels are squares from -1 to 1 across the whole picture; a point is the middle of one.
    points = (np.arange(size) + 0.5) / size
    mirrored = np.where(uniform(seeds, 2)[:, None] < 0.5, points[::-1], points)
    x = 2 * (left[:, None] + box_width[:, None] * mirrored) / width - 1
    y = 2 * (top[:, None] + box_height[:, None] * points) / height - 1
    grid = np.stack(np.broadcast_arrays(x[:, None, :], y[:, :, None]), axis=-1)
    return functional.grid_sample(
        images,
        torch.from_numpy(grid).to(images.device, images.dtype),
        mode="bilinear",
        padding_mode="border",
        align_corners=False,
    )


def _boxes(
    seeds: Seeds, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[NDArray[np.float64], ...]:
    """(left, top, width, height) of a box in each picture, in pixels; each of shape [samples].

    The first of ten drawn shapes that fits; where none does, the largest square in the middle.
    """
    tries = range(3, 3 + 2 * _TRIES, 2)
    areas = np.stack([_between(uniform(seeds, draw), *scale) for draw in tries]) * (height * width)
    low, high = (math.log(bound) for bound in ratio)
    ratios = np.exp(np.stack([_between(uniform(seeds, draw + 1), low, high) for draw in tries]))
    widths, heights = np.sqrt(areas * ratios), np.sqrt(areas / ratios)  # [tries, samples]
    fits = (widths <= width) & (heights <= height)
    first = fits.argmax(axis=0)[None]
    square = float(min(height, width))
    box_width, box_height = (
        np.where(fits.any(axis=0), np.take_along_axis(sides, first, axis=0)[0], square) for sides in (widths, heights)
    )
    across, down = (np.where(fits.any(axis=0), uniform(seeds, draw), 0.5) for draw in (0, 1))
    return across * (width - box_width), down * (height - box_height), box_width, box_height


def _between(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    return low + values * (high - low)


def _whole_numbers(values: NDArray[np.float64], choices: int, like: Tensor) -> Tensor:
    return torch.from_numpy((values * choices).astype(np.int64)).to(like.device)


def _flipped(seeds: Seeds, draw: int, like: Tensor) -> Tensor:
    return torch.from_numpy(uniform(seeds, draw) < 0.5).to(like.device)
