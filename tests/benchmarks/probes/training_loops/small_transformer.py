"""A recipe of a small transformer that tells which of eight words a text repeats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.training.recipe import Batch

WORDS, LENGTH, WIDTH, CLASSES = 512, 32, 64, 8


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.words(tokens) + self.places


class Mean(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        return hidden.mean(dim=1)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    columns: tuple[str, ...] = ("tokens",)
    num_classes: int = CLASSES

    def model(self) -> nn.Module:
        layers = (
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        return nn.Sequential(Embedding(), *layers, Mean(), nn.Linear(WIDTH, CLASSES))

    def batch(self, columns, label: str) -> Batch:
        tokens, labels = (np.ascontiguousarray(columns[name], dtype=np.int64) for name in ("tokens", label))
        return Batch(torch.from_numpy(tokens), torch.from_numpy(labels))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)


def columns(rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, size=rows)
    tokens = random.integers(CLASSES, WORDS, size=(rows, LENGTH))
    tokens[:, ::4] = labels[:, None]
    return {"tokens": tokens, "label": labels}
