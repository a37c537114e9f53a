from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from drivetrain.training.input_pipeline.images import normalized


def test_pixels_by_channel() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(3, 4, 5, 2), dtype=np.uint8)
    tensor = normalized(images, (0.25, 0.5), (0.5, 0.2))
    assert tensor.shape == (3, 2, 4, 5)
    assert tensor.is_contiguous()
    assert tensor.dtype == torch.float32
    expected = (images / 255 - (0.25, 0.5)) / (0.5, 0.2)
    np.testing.assert_allclose(tensor.numpy(), expected.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_readers_memory_is_left_alone(channels: int) -> None:
    images = np.full((2, 3, 3, channels), 51, dtype=np.uint8)
    images.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = normalized(images, (0.0,) * channels, (1.0,) * channels)
    tensor.zero_()
    assert (images == 51).all()
