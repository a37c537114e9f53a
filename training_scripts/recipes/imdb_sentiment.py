"""Classify film reviews as for or against: a small transformer over the words of the review.

    python -m drivetrain.training_scripts.train --train aclImdb/train --model build/model --recipe imdb_sentiment

A. Maas and others, "Learning Word Vectors for Sentiment Analysis", ACL 2011, is where the reviews are from; the reader
`imdb` makes words of them.
"""

from __future__ import annotations

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
PADDING = 0  # of the reader
START = 0.02  # the standard deviation of a new vector


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Words and their places as vectors, blocks of attention over the words that are there, their mean, a decision.

    Dropout draws from the generator of its rank: the masks of a run on two ranks are others than those of a run on one.
    """

    columns: ClassVar[tuple[str, ...]] = ("tokens",)
    reader: ClassVar[str] = "imdb"

    num_classes: Annotated[int, Bounds(1)] = 2
    """Classes; labels are 0 to num_classes - 1."""
    vocabulary: Annotated[int, Bounds(1)] = 20_000
    """Different words at most, padding and the unknown word included."""
    length: Annotated[int, Bounds(1)] = 256
    """Words of a review; longer ones lose their end."""
    layers: Annotated[int, Bounds(0)] = 1
    """Blocks; 0 for a plain mean of word vectors."""
    width: Annotated[int, Bounds(1)] = 64
    """Features of a word."""
    heads: Annotated[int, Bounds(1)] = 4
    """Heads of an attention; they share the width out among them."""
    hidden: Annotated[int, Bounds(1)] = 128
    """Features inside the two-layer network of a block."""
    dropout: Annotated[float, Bounds(0, below=1)] = 0.2
    """Share of the features that are dropped while training."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width={self.width} with heads={self.heads}; allowed is a width that heads divides")

    @property
    def reader_options(self) -> Mapping[str, Any]:
        return {"length": self.length, "vocabulary_size": self.vocabulary}

    def model(self) -> nn.Module:
        blocks = {f"block{number}": Block(self) for number in range(self.layers)}
        return nn.Sequential(
            OrderedDict[str, nn.Module](
                embedding=Embedding(self),
                **blocks,
                mean=Mean(),
                norm=nn.LayerNorm(self.width),
                dropout=nn.Dropout(self.dropout),
                head=nn.Linear(self.width, self.num_classes),
            )
        )

    def tensor_plan(self) -> dict[str, str]:
        blocks = {
            "block*.attention.query": "colwise",
            "block*.attention.key": "colwise",
            "block*.attention.value": "colwise",
            "block*.attention.out": "rowwise",
            "block*.up": "colwise",
            "block*.down": "rowwise",
        }
        return {"embedding.words": "rowwise", **(blocks if self.layers else {})}

    def batch(self, columns: Columns, label: str) -> Batch:
        tokens = columns["tokens"].astype(np.int64)
        check_tokens(tokens, self.vocabulary, "imdb_sentiment")
        return Batch(torch.from_numpy(tokens), torch.from_numpy(columns[label].astype(np.int64)))

    def example(self, batch_size: int) -> Batch:
        tokens = torch.ones(batch_size, self.length, dtype=torch.int64)
        return Batch(tokens, torch.zeros(batch_size, dtype=torch.int64))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(decay_matrices(model, weight_decay), lr=learning_rate)


class Embedding(nn.Module):
    """Tokens [samples, length] to features [samples, length, width + 1].

    The last feature is 1 for a word and 0 for padding: what goes along a chain is one tensor, and the blocks and the
    mean must know.
    """

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.words = nn.Embedding(recipe.vocabulary, recipe.width)
        self.places = nn.Parameter(torch.empty(recipe.length, recipe.width))
        nn.init.normal_(self.words.weight, std=START)
        nn.init.normal_(self.places, std=START)

    def forward(self, tokens: Tensor) -> Tensor:
        features = self.words(tokens) + self.places[: tokens.shape[1]]
        return _with_presence(features, (tokens != PADDING).unsqueeze(-1))


class Block(nn.Module):
    """Attention and a two-layer network, each added to what comes in; shape [samples, length, width + 1]."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(recipe.width)
        self.attention = Attention(recipe.width, recipe.heads)
        self.network_norm = nn.LayerNorm(recipe.width)
        self.up = nn.Linear(recipe.width, recipe.hidden)
        self.down = nn.Linear(recipe.hidden, recipe.width)
        self.dropout = nn.Dropout(recipe.dropout)

    def forward(self, x: Tensor) -> Tensor:
        features, presence = x[..., :-1], x[..., -1:]
        features = features + self.dropout(self.attention(self.attention_norm(features), presence))
        features = features + self.dropout(self.down(functional.gelu(self.up(self.network_norm(features)))))
        return _with_presence(features, presence)


class Attention(nn.Module):
    """Attention to the words that are there. How many heads there are is seen from what the linear layers give."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_dim = width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, presence: Tensor) -> Tensor:
        query, key, value = (
            linear(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        there = presence.bool().transpose(1, 2).unsqueeze(1)  # [samples, 1, 1, length]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=there)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Mean(nn.Module):
    """The mean over the words that are there: [samples, length, width + 1] to [samples, width]."""

    def forward(self, x: Tensor) -> Tensor:
        features, presence = x[..., :-1], x[..., -1:]
        return (features * presence).sum(dim=1) / presence.sum(dim=1)


def _with_presence(features: Tensor, presence: Tensor) -> Tensor:
    return torch.cat((features, presence.to(features.dtype)), dim=-1)
