"""Random changes as functions of seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from drivetrain.training.input_pipeline import augmentation
from drivetrain.training.input_pipeline.augmentation import crop_and_flip, resized_crop_and_flip, uniform


def seeds(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(0, 2**64, size=count, dtype=np.uint64)


def test_the_generator_is_splitmix64() -> None:
    """Its first numbers from seed 0, as the reference implementation gives them."""
    expected = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    zero = np.zeros(1, dtype=np.uint64)
    assert [uniform(zero, draw)[0] for draw in range(3)] == [(number >> 11) / 2**53 for number in expected]


def test_draws_are_uniform_and_independent() -> None:
    neighbours = np.arange(100_000, dtype=np.uint64)
    draws = [uniform(neighbours, draw) for draw in range(3)]
    for values in draws:
        assert values.min() >= 0
        assert values.max() < 1
        counts, _ = np.histogram(values, bins=100, range=(0, 1))
        assert ((counts - 1000) ** 2 / 1000).sum() < 160  # chi-square of 99 degrees: above it once in 10,000
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.015
    assert abs(np.corrcoef(draws[0], draws[1])[0, 1]) < 0.015
    assert abs(np.corrcoef(draws[0][1:], draws[1][:-1])[0, 1]) < 0.015


def test_crops_one_by_one() -> None:
    images, given = torch.randn(64, 2, 5, 7), seeds(64)
    top, left = ((uniform(given, draw) * 7).astype(int) for draw in (0, 1))
    padded = functional.pad(images, (3, 3, 3, 3))
    for row, found in enumerate(crop_and_flip(images, given, padding=3)):
        expected = padded[row, :, top[row] : top[row] + 5, left[row] : left[row] + 7]
        assert torch.equal(found, expected.flip(-1) if uniform(given, 2)[row] < 0.5 else expected)
    assert {*top.tolist()} == {*left.tolist()} == set(range(7))


def test_no_padding_only_mirrors() -> None:
    images, given = torch.randn(200, 1, 3, 3), seeds(200)
    changed = crop_and_flip(images, given, padding=0)
    mirrored = [torch.equal(new, old.flip(-1)) for new, old in zip(changed, images, strict=True)]
    same = [torch.equal(new, old) for new, old in zip(changed, images, strict=True)]
    assert all(one != other for one, other in zip(mirrored, same, strict=True))
    assert 70 < sum(mirrored) < 130


def test_boxes_lie_in_the_picture_and_are_of_the_sizes_asked_for() -> None:
    left, top, width, height = augmentation._boxes(seeds(5000), 40, 60, (0.2, 0.9), (0.5, 2.0))
    assert min(left.min(), top.min()) >= 0
    assert (left + width).max() <= 60
    assert (top + height).max() <= 40
    areas = width * height / (40 * 60)
    assert 0.2 <= areas.min() < 0.21
    assert 0.85 < areas.max() <= 0.9
    assert 0.5 <= (width / height).min() < 0.55
    assert 1.9 < (width / height).max() <= 2.0


def test_the_middle_square_where_no_box_fits() -> None:
    left, top, width, height = augmentation._boxes(seeds(3), 10, 90, (0.9, 1.0), (0.9, 1.1))
    assert width.tolist() == height.tolist() == [10.0] * 3
    assert left.tolist() == [40.0] * 3
    assert top.tolist() == [0.0] * 3


def test_the_whole_picture_as_a_box_is_the_picture() -> None:
    images, given = torch.randn(20, 3, 8, 8), seeds(20)
    changed = resized_crop_and_flip(images, given, size=8, scale=(1.0, 1.0), ratio=(1.0, 1.0))
    flipped = torch.from_numpy(uniform(given, 2) < 0.5)
    expected = torch.where(flipped[:, None, None, None], images.flip(-1), images)
    torch.testing.assert_close(changed, expected, rtol=1e-4, atol=1e-5)


def test_a_box_is_resized_as_torch_resizes() -> None:
    """Twice the size of a box on whole pixels: found by its place in a picture that says where each pixel is."""
    rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    picture = torch.stack((rows, columns)).double()[None]
    given = seeds(1)
    left, top, width, height = (value[0] for value in augmentation._boxes(given, 16, 16, (0.3, 0.5), (0.8, 1.25)))
    (changed,) = resized_crop_and_flip(picture, given, size=6, scale=(0.3, 0.5), ratio=(0.8, 1.25))
    middle = (np.arange(6) + 0.5) / 6
    expected_columns = left + width * middle - 0.5
    if uniform(given, 2)[0] < 0.5:
        expected_columns = expected_columns[::-1]
    np.testing.assert_allclose(changed[0, :, 0].numpy(), np.clip(top + height * middle - 0.5, 0, 15), atol=1e-9)
    np.testing.assert_allclose(changed[1, 0].numpy(), np.clip(expected_columns, 0, 15), atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_of_numbers_stays(dtype: torch.dtype) -> None:
    images = torch.randn(2, 1, 4, 4, dtype=dtype)
    assert crop_and_flip(images, seeds(2), padding=1).dtype == dtype
    assert resized_crop_and_flip(images, seeds(2), size=3).dtype == dtype
