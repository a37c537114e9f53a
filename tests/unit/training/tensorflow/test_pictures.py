"""Pictures for Keras are those for torch, but that channels come last."""

from __future__ import annotations

import numpy as np

from drivetrain.training.input_pipeline import augmentation, images
from drivetrain.training.tensorflow import pictures


def test_pictures_are_those_of_torch() -> None:
    """To the bit: the same numbers, cut and mirrored alike."""
    random = np.random.default_rng(0)
    given = random.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    theirs, ours = images.normalized(given, mean, std), pictures.normalized(given, mean, std)
    assert np.array_equal(theirs.permute(0, 2, 3, 1), ours)
    seeds = random.integers(0, 2**63, 6).astype(np.uint64)
    changed = augmentation.crop_and_flip(theirs, seeds, padding=4)
    assert np.array_equal(changed.permute(0, 2, 3, 1), pictures.crop_and_flip(ours, seeds, padding=4))
    assert not np.array_equal(changed, theirs)
