"""A decoder-only language model: a transformer that predicts the next token of a text from all before it.

    python -m drivetrain.training_scripts.train --train text --model build/model --recipe decoder_lm

The tokens are the bytes of the text, so that no vocabulary has to be made or kept. A. Radford and others, "Language
Models are Unsupervised Multitask Learners", 2019 (normalization before each part, starting values), with rotary
positions: J. Su and others, "RoFormer", 2021. Every position is worked on alone but in the attention, and the heads of
an attention know nothing of each other: the model can be cut by layers, by heads and along the sequence.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.bounds import Bounds
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch, check_tokens
from drivetrain.training.torch.models.parameter_groups import decay_matrices

FRAMEWORK = "torch"
ROTARY_BASE = 10_000.0
START = 0.02  # the standard deviation of a new matrix


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Blocks of causal attention and a two-layer network, each added to what comes in.

    Dropout, where asked for, draws from the generator of its rank: the masks of a run on two ranks are others than
    those of a run on one.
    """

    columns: ClassVar[tuple[str, ...]] = ("tokens",)
    num_classes: ClassVar[None] = None
    task: ClassVar[str] = "tokens"
    reader: ClassVar[str] = "text"

    vocabulary: Annotated[int, Bounds(1)] = 256
    """Different tokens; 256 for bytes."""
    length: Annotated[int, Bounds(1)] = 256
    """Tokens of a sequence, and the longest that the model takes."""
    layers: Annotated[int, Bounds(1)] = 6
    """Blocks."""
    width: Annotated[int, Bounds(1)] = 384
    """Features of a token between the blocks."""
    heads: Annotated[int, Bounds(1)] = 8
    """Heads of an attention; they share the width out among them."""
    hidden: Annotated[int, Bounds(0)] = 0
    """Features inside the two-layer network of a block; 0 for four times the width."""
    bias: bool = False
    """Give linear layers and normalizations a bias."""
    dropout: Annotated[float, Bounds(0, below=1)] = 0.0
    """Share of the features that each part of a block drops while training."""

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise ValueError(
                f"width={self.width} with heads={self.heads}; allowed is a width of an even number of features a head"
            )

    @property
    def reader_options(self) -> Mapping[str, Any]:
        return {"length": self.length}

    @property
    def num_outputs(self) -> int:
        return self.vocabulary

    def model(self) -> nn.Module:
        blocks = {f"block{number}": Block(self) for number in range(self.layers)}
        model = nn.Sequential(
            OrderedDict[str, nn.Module](
                embedding=nn.Embedding(self.vocabulary, self.width),
                **blocks,
                norm=nn.LayerNorm(self.width, bias=self.bias),
                head=nn.Linear(self.width, self.vocabulary, bias=self.bias),
            )
        )
        # What goes into the sum of all blocks starts smaller the more of them there are, so that the sum does not grow.
        added = START / math.sqrt(2 * self.layers)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=added if name.endswith((".out.weight", ".down.weight")) else START)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        return model

    def tensor_plan(self) -> dict[str, str]:
        return {
            "embedding": "rowwise",
            "block*.attention_norm": "sequence",
            "block*.attention.query": "colwise",
            "block*.attention.key": "colwise",
            "block*.attention.value": "colwise",
            "block*.attention.out": "rowwise",
            "block*.mlp_norm": "sequence",
            "block*.mlp.up": "colwise",
            "block*.mlp.down": "rowwise",
            "norm": "sequence",
            "head": "colwise_gather",
        }

    def context_plan(self) -> dict[str, int]:
        return {"block*.attention.cosines": 0, "block*.attention.sines": 0}

    def batch(self, columns: Columns, label: str) -> Batch:
        values = columns["tokens"].astype(np.int64)
        check_tokens(values, self.vocabulary, "decoder_lm")
        tokens = torch.from_numpy(values)
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())

    def example(self, batch_size: int) -> Batch:
        tokens = torch.zeros(batch_size, self.length, dtype=torch.int64)
        return Batch(tokens, tokens.clone())

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the tokens of each sequence; its exponential is the perplexity."""
        losses = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        return losses.view_as(targets).mean(dim=1)

    def loss_parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        losses = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        sums = losses.view_as(targets).sum(dim=1)
        return sums, torch.full_like(sums, targets.shape[1])

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": (outputs.argmax(dim=-1) == targets).to(outputs.dtype).mean(dim=1)}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(decay_matrices(model, weight_decay), lr=learning_rate, betas=(0.9, 0.95))


class Block(nn.Module):
    """Features of shape [samples, length, width] in and out."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(recipe.width, bias=recipe.bias)
        self.attention = Attention(recipe)
        self.mlp_norm = nn.LayerNorm(recipe.width, bias=recipe.bias)
        self.mlp = Mlp(recipe)
        self.dropout = nn.Dropout(recipe.dropout) if recipe.dropout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.mlp(self.mlp_norm(x)))


class Attention(nn.Module):
    """Causal attention. How many heads there are is seen from what the linear layers give: a rank may have some only.

    `cosines` and `sines`, of shape [length, head_dim / 2], have a row for each position of the sequence. A strategy
    that splits the sequence over ranks splits them alike (`context_plan`).
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        width = recipe.width
        self.head_dim = width // recipe.heads
        self.query = nn.Linear(width, width, bias=recipe.bias)
        self.key = nn.Linear(width, width, bias=recipe.bias)
        self.value = nn.Linear(width, width, bias=recipe.bias)
        self.out = nn.Linear(width, width, bias=recipe.bias)
        frequencies = ROTARY_BASE ** -(torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)
        angles = torch.arange(recipe.length, dtype=torch.float64).outer(frequencies)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        # [samples, heads, length, head_dim]; the length, too, is that of what the linear layers give
        query, key, value = (
            linear(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(self._rotated(query), self._rotated(key), value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _rotated(self, x: Tensor) -> Tensor:
        """Turn each pair of features by the angle of its position: products of two tell how far apart they are."""
        cosines, sines = self.cosines[: x.shape[2]], self.sines[: x.shape[2]]
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1).to(x.dtype)


class Mlp(nn.Module):
    """Two layers that work on each position by itself."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        hidden = recipe.hidden or 4 * recipe.width
        self.up = nn.Linear(recipe.width, hidden, bias=recipe.bias)
        self.down = nn.Linear(hidden, recipe.width, bias=recipe.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))
