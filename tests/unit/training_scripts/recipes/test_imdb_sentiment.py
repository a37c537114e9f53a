from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import load_recipe

SMALL: dict[str, Any] = {"vocabulary": 50, "length": 12, "width": 8, "heads": 2, "hidden": 16, "layers": 2}


def model(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    return load_recipe("imdb_sentiment", SMALL | options).model().double().eval()


@pytest.mark.parametrize("layers", [0, 2])
def test_padding_has_no_effect(layers: int) -> None:
    tokens = torch.randint(2, 50, (3, 12))
    tokens[:, 7:] = 0
    built = model(layers=layers)
    with torch.no_grad():
        nn.init.normal_(built.get_submodule("embedding.words").weight)
    torch.testing.assert_close(built(tokens), built(tokens[:, :7]))
    assert not torch.allclose(built(tokens), built(tokens[:, :6]))


def test_a_review_does_not_depend_on_its_neighbours() -> None:
    tokens = torch.randint(2, 50, (4, 12))
    tokens[0, 3:] = 0
    torch.testing.assert_close(model()(tokens)[:1], model()(tokens[:1]))


def test_without_blocks_the_order_of_words_matters_only_by_their_places() -> None:
    built = model(layers=0)
    with torch.no_grad():
        built.get_parameter("embedding.places").zero_()
    tokens = torch.randint(2, 50, (2, 12))
    torch.testing.assert_close(built(tokens), built(tokens.flip(1)))


def test_the_reader_is_told_of_length_and_vocabulary() -> None:
    recipe = load_recipe("imdb_sentiment", SMALL)
    assert recipe.reader_options == {"length": 12, "vocabulary_size": 50}  # type: ignore[attr-defined]


def test_more_words_than_the_vocabulary() -> None:
    with pytest.raises(InputError, match=r"'imdb_sentiment' has vocabulary=50, and the data has tokens from 2 to 50"):
        load_recipe("imdb_sentiment", SMALL).batch({"tokens": np.array([[2, 50]]), "label": np.array([1])}, "label")
