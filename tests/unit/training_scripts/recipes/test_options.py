"""Options that cannot be are refused before anything is built, with what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import load_recipe


@pytest.mark.parametrize(
    ("name", "options", "allowed"),
    [
        ("ants_bees_resnet18", {"num_classes": 0}, "whole numbers from 1"),
        ("ants_bees_resnet18", {"size": 31}, "whole numbers from 32"),
        ("ants_bees_resnet18", {"backbone_share": 0}, "numbers above 0 to 1"),
        ("ants_bees_resnet18", {"smallest_box": 1.5}, "numbers above 0 to 1"),
        ("ants_bees_resnet18", {"freeze": 1}, "true or false"),
        ("cifar10_resnet", {"padding": -1}, "whole numbers from 0"),
        ("cifar10_resnet", {"label_smoothing": 1.0}, "numbers from 0 to below 1"),
        ("cifar10_resnet", {"width": 0}, "whole numbers from 1"),
        ("decoder_lm", {"layers": 0}, "whole numbers from 1"),
        ("decoder_lm", {"hidden": -1}, "whole numbers from 0"),
        ("decoder_lm", {"dropout": 1}, "numbers from 0 to below 1"),
        ("decoder_lm", {"width": 12, "heads": 4}, "an even number of features a head"),
        ("digits_cnn", {"label_smoothing": -0.1}, "numbers from 0 to below 1"),
        ("imdb_sentiment", {"layers": -1}, "whole numbers from 0"),
        ("imdb_sentiment", {"heads": 3}, "a width that heads divides"),
        ("imdb_sentiment", {"dropout": 1.0}, "numbers from 0 to below 1"),
        ("imdb_sentiment", {"vocabulary": 1.5}, "a whole number"),
        ("mnist_cnn", {"dropout": 0.5}, "numbers from 0 to below 0.5"),
        ("mnist_cnn", {"hidden": True}, "a whole number"),
    ],
)
def test_refused(name: str, options: dict[str, Any], allowed: str) -> None:
    option = next(iter(options))
    with pytest.raises(InputError, match=rf"recipe '{name}'.*{option}.*allowed (is|are) .*{allowed}"):
        load_recipe(name, options)
