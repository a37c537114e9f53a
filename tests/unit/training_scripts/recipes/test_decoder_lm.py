from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from drivetrain.base.errors import InputError
from drivetrain.training.recipe import load_recipe
from drivetrain.training_scripts.recipes.decoder_lm import Attention, Block, Recipe

SMALL: dict[str, Any] = {"length": 12, "layers": 2, "width": 16, "heads": 4}


def model(**options: Any) -> nn.Sequential:
    torch.manual_seed(0)
    built = load_recipe("decoder_lm", SMALL | options).model().double()
    assert isinstance(built, nn.Sequential)
    return built


def test_tokens_do_not_see_later_ones() -> None:
    tokens = torch.randint(0, 256, (3, 12))
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 256
    first, second = (model().eval()(each) for each in (tokens, changed))
    assert torch.equal(first[:, :7], second[:, :7])
    assert (first[:, 7:] != second[:, 7:]).any(dim=-1).all()


def test_attention_by_definition() -> None:
    recipe = Recipe(**SMALL | {"bias": True})
    attention = Attention(recipe).double()
    x = torch.randn(2, 12, 16, dtype=torch.float64)
    heads = [linear(x).view(2, 12, 4, 4) for linear in (attention.query, attention.key, attention.value)]
    query, key, value = (each.transpose(1, 2) for each in heads)
    scores = attention._rotated(query) @ attention._rotated(key).mT / 2.0
    scores = scores.masked_fill(torch.ones(12, 12).triu(1).bool(), -torch.inf)
    mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).reshape(2, 12, 16)
    torch.testing.assert_close(attention(x), attention.out(mixed))


def test_rotated_products_depend_on_distance() -> None:
    attention = Attention(Recipe(**SMALL)).double()
    query, key = (torch.randn(4, dtype=torch.float64).expand(1, 1, 12, 4) for _ in range(2))
    products = (attention._rotated(query) @ attention._rotated(key).mT)[0, 0]
    for distance in range(-11, 12):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-6, atol=1e-6)
    assert not torch.isclose(products[0, 0], products[0, 5])


def test_shorter_sequences_are_the_beginning_of_longer_ones() -> None:
    tokens = torch.randint(0, 256, (2, 12))
    built = model().eval()
    torch.testing.assert_close(built(tokens[:, :5]), built(tokens)[:, :5])


def test_halves_of_a_block_add_up_to_it() -> None:
    """What tensor parallelism does: each rank has some heads and some hidden features, the outputs are added up."""
    recipe = Recipe(**SMALL)
    whole = Block(recipe).double()
    x = torch.randn(2, 12, 16, dtype=torch.float64)
    attention, mlp = torch.zeros_like(x), torch.zeros_like(x)
    for half in range(2):
        part = Block(recipe).double()
        for name in ("query", "key", "value"):
            source = getattr(whole.attention, name).weight.chunk(2)[half]
            setattr(part.attention, name, linear(source))
        part.attention.out = linear(whole.attention.out.weight.chunk(2, dim=1)[half])
        part.mlp.up = linear(whole.mlp.up.weight.chunk(2)[half])
        part.mlp.down = linear(whole.mlp.down.weight.chunk(2, dim=1)[half])
        attention, mlp = attention + part.attention(x), mlp + part.mlp(x)
    torch.testing.assert_close(attention, whole.attention(x))
    torch.testing.assert_close(mlp, whole.mlp(x))


def linear(weight: torch.Tensor) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    made.weight = nn.Parameter(weight.detach().clone())
    return made


@pytest.mark.parametrize("bias", [True, False])
def test_biases_are_everywhere_or_nowhere(bias: bool) -> None:
    built = model(bias=bias)
    linears = [module for module in built.modules() if isinstance(module, (nn.Linear, nn.LayerNorm))]
    assert len(linears) == 2 * 8 + 2
    assert all((module.bias is not None) == bias for module in linears)


def test_a_loss_is_the_mean_over_its_tokens() -> None:
    recipe = load_recipe("decoder_lm", SMALL)
    outputs, targets = torch.randn(3, 12, 256), torch.randint(0, 256, (3, 12))
    expected = [torch.nn.functional.cross_entropy(*sample).item() for sample in zip(outputs, targets, strict=True)]
    assert recipe.losses(outputs, targets).tolist() == pytest.approx(expected, rel=1e-5)
    outputs[0].scatter_(1, targets[0][:, None], 100.0)
    outputs[1].scatter_(1, (targets[1][:, None] + torch.arange(12)[:, None] % 2) % 256, 100.0)
    assert recipe.metrics(outputs, targets)["accuracy"].tolist()[:2] == [1.0, 0.5]


def test_targets_are_the_next_tokens() -> None:
    recipe = load_recipe("decoder_lm", {"length": 4})
    batch = recipe.batch({"tokens": np.arange(10).reshape(2, 5)}, "")
    assert batch.inputs.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]]
    assert batch.targets.tolist() == [[1, 2, 3, 4], [6, 7, 8, 9]]


def test_a_token_that_the_vocabulary_has_not() -> None:
    recipe = load_recipe("decoder_lm", {"vocabulary": 100})
    with pytest.raises(InputError, match=r"'decoder_lm' has vocabulary=100, and the data has tokens from 3 to 100"):
        recipe.batch({"tokens": np.array([[3, 100]])}, "")


def test_a_width_that_the_heads_do_not_divide() -> None:
    with pytest.raises(InputError, match=r"width=384 with heads=5; allowed is a width of an even number"):
        load_recipe("decoder_lm", {"heads": 5})


def test_what_is_added_up_starts_smaller_the_more_blocks_there_are() -> None:
    built = model(layers=8, width=64)
    weights = dict(built.named_parameters())
    assert weights["block0.attention.query.weight"].std().item() == pytest.approx(0.02, rel=0.1)
    assert weights["block0.attention.out.weight"].std().item() == pytest.approx(0.02 / 4, rel=0.1)
    assert weights["block7.mlp.down.weight"].std().item() == pytest.approx(0.02 / 4, rel=0.1)
