"""Losses some tokens at a time are those of all at once, and the logits are never there together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.recipe import Batch
from drivetrain.training.torch.models.chunked_head import in_chunks
from drivetrain.training_scripts.recipes.huggingface import Recipe
from tests.fixtures import tiny_transformers as tiny

ROWS, CHUNK = 6, 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.model(tmp_path_factory.mktemp("tiny") / "llama")


def columns() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    tokens = draw.integers(4, 28, size=(ROWS, tiny.LENGTH))
    return {"tokens": tokens, "length": np.array([12, 3, 1, 12, 7, 2]), "start": np.array([2, 0, 0, 11, 3, 2])}


def recipe(folder: Path, **more: Any) -> Recipe:
    return Recipe(pretrained=str(folder), head="causal_lm", length=tiny.LENGTH, prompt="prompt", **more)


def trained(made: Recipe, model: nn.Module) -> tuple[Tensor, Tensor, dict[str, Tensor], dict[str, Tensor], Batch]:
    batch = made.batch(columns(), "text")
    outputs = model(batch.inputs)
    assert isinstance(outputs, Tensor) and isinstance(batch.targets, Tensor)
    losses = made.losses(outputs, batch.targets)
    losses.sum().backward()
    gradients = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    likeliest = made.predicted(outputs) if made.predicted else outputs
    return losses, likeliest, gradients, made.metrics(outputs, batch.targets), batch


def test_losses_gradients_and_metrics_are_those_of_all_logits(folder: Path) -> None:
    plain, chunked = recipe(folder), recipe(folder, loss_chunk=CHUNK)
    losses, likeliest, gradients, metrics, _ = trained(plain, plain.model().double())
    found, found_likeliest, found_gradients, found_metrics, _ = trained(chunked, chunked.model().double())
    torch.testing.assert_close(found, losses, rtol=0, atol=1e-10)
    assert torch.equal(found_likeliest, likeliest)
    assert torch.equal(found_metrics["exact_match"], metrics["exact_match"])
    assert found_gradients.keys() == gradients.keys() and "lm_head.weight" in gradients
    for name, each in gradients.items():
        torch.testing.assert_close(found_gradients[name], each, rtol=0, atol=1e-10, msg=name)


class Largest(TorchDispatchMode):
    """The bytes of the largest tensor that is made inside."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else [made]:
            if isinstance(each, Tensor):
                self.bytes = max(self.bytes, each.numel() * each.element_size())
        return made


@pytest.mark.slow
def test_the_logits_are_never_there_together(tmp_path: Path) -> None:
    vocabulary = 4096
    big = tiny.model(tmp_path / "big", "llama")
    largest = {}
    for chunk in (0, CHUNK):
        made = recipe(big, loss_chunk=chunk)
        model: Any = made.model()
        model.lm_head.weight = nn.Parameter(torch.zeros(vocabulary, 16))
        with Largest() as seen:
            trained(made, model)
        largest[chunk] = seen.bytes
    assert largest[0] >= 4 * ROWS * tiny.LENGTH * vocabulary
    assert largest[CHUNK] <= max(4 * CHUNK * vocabulary, 4 * vocabulary * 16)


def test_rows_without_answers_are_predicted(folder: Path) -> None:
    made = recipe(folder, loss_chunk=CHUNK)
    batch = made.batch({**columns(), "": np.zeros(ROWS)}, "")
    assert "labels" not in batch.inputs  # type: ignore[operator]
    with torch.no_grad():
        outputs = made.model()(batch.inputs)
        wanted = recipe(folder).model()(batch.inputs).argmax(-1)
    assert made.predicted is not None and torch.equal(made.predicted(outputs), wanted)
    assert trees.num_samples(outputs) == ROWS


class Softened(nn.Module):
    """A model that caps its logits, as some do."""

    config = SimpleNamespace(model_type="capped")

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, inputs: Any) -> Tensor:
        return torch.tanh(self.head(self.embedding(inputs["input_ids"])))


def test_what_cannot_be(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"of type capped change their logits after the last layer. Leave loss_chunk out"
    ):
        in_chunks(Softened(), 2, "recipe")
    with pytest.raises(ValueError, match="loss_chunk is for head='causal_lm', not 'token_classification'"):
        Recipe(head="token_classification", loss_chunk=4)
    with pytest.raises(InputError, match=r"loss_chunk=5 needs the last layer whole.*use strategy 'fsdp'"):
        replace(recipe(folder), loss_chunk=CHUNK).tensor_plan()
