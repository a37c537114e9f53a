"""Numbers counted row by row, as boxes."""

from __future__ import annotations

import itertools

import pytest
import torch

from drivetrain.training.torch.parallel.flat_slice import FlatSlice, boxes_of

SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 4), (1, 5), (5, 1), (2, 1, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_boxes_are_the_numbers_of_a_range_in_their_order(shape: tuple[int, ...]) -> None:
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape)
    for start, end in itertools.combinations(range(numbers.numel() + 1), 2):
        found: list[int] = []
        boxes = list(boxes_of(shape, start, end))
        for offsets, sizes in boxes:
            part = numbers[tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))]
            assert tuple(part.shape) == sizes
            found += part.flatten().tolist()
        assert found == list(range(start, end))
        assert len(boxes) <= max(1, 2 * len(shape) - 1)


def test_nothing_is_no_box() -> None:
    assert list(boxes_of((3, 4), 5, 5)) == []


def test_boxes_share_the_slices_memory() -> None:
    held = FlatSlice(torch.zeros(8), torch.Size([3, 4]), 2)
    for number, box in enumerate(held.boxes("weight")):
        assert box.name == "weight"
        box.local.fill_(number + 1)
    assert held.flat.tolist() == [1, 1, 2, 2, 2, 2, 3, 3]
