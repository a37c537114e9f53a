"""Small models that strategies are tested with, as recipes, and samples for them in memory.

Nothing in `conv` and `transformer` looks across samples, so that a batch may be dealt to ranks in any way; `batchnorm`
and `dropout` depend on how it was dealt, and `bn1d` needs two samples on each rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.training.input_pipeline.cursor import Indices
from drivetrain.training.recipe import Batch

SIDE, CLASSES = 6, 5
LENGTH, VOCABULARY, WIDTH, HEADS = 8, 10, 8, 2


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`kind`: conv, transformer, idle (a transformer with layers that nothing uses), batchnorm, bn1d or dropout.

    (`Weighted` below is a kind, too.)

    `optimizer_kind`: adamw, amsgrad, sgd, momentum, rprop or adafactor.
    """

    kind: str = "conv"
    optimizer_kind: str = "adamw"
    columns: tuple[str, ...] = ()

    @property
    def reads_text(self) -> bool:
        return self.kind in ("transformer", "idle")

    @property
    def num_classes(self) -> int | None:
        return None if self.reads_text else CLASSES

    def model(self) -> nn.Module:
        return MODELS[self.kind]()

    def batch(self, columns: Any, label: str) -> Batch:
        raise NotImplementedError("samples are in memory")

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.reads_text:
            return functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(dim=1)
        return functional.cross_entropy(outputs, targets, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        hits = (outputs.argmax(dim=-1) == targets).to(outputs.dtype)
        return {"accuracy": hits.mean(dim=1) if hits.dim() > 1 else hits}

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        made: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW
        options: dict[str, Any] = {}
        if self.optimizer_kind in ("sgd", "momentum"):
            made, options = torch.optim.SGD, {"momentum": 0.9 if self.optimizer_kind == "momentum" else 0.0}
        elif self.optimizer_kind == "rprop":
            made = torch.optim.Rprop  # has no fused kernel, and no weight decay
            return made(model.parameters(), lr=learning_rate)
        elif self.optimizer_kind == "adafactor":
            return torch.optim.Adafactor(model.parameters(), lr=learning_rate)
        elif self.optimizer_kind == "amsgrad":
            options = {"amsgrad": True}
        # No decay for biases and norms, and a learning rate of their own, as recipes often have it.
        named = list(model.named_parameters())
        groups = [
            {"params": [p for _, p in named if p.dim() > 1], "weight_decay": weight_decay},
            {"params": [p for _, p in named if p.dim() <= 1], "weight_decay": 0.0, "lr": 0.5 * learning_rate},
        ]
        return made([group for group in groups if group["params"]], lr=learning_rate, **options)

    def tensor_plan(self) -> dict[str, str]:
        """How tensor parallelism splits the layers, by pattern of module names."""
        if self.reads_text:
            inward = {f"*.{name}": "colwise" for name in ("query", "key", "value", "up")}
            return inward | {f"*.{name}": "rowwise" for name in ("output", "down")}
        return {"6": "colwise", "8": "rowwise"}

    def context_plan(self) -> dict[str, int]:
        """The buffers with an entry for each position, for context parallelism."""
        return {"*.positions": 0} if self.reads_text else {}

    def samples(self, count: int, *, seed: int = 0) -> Batch:
        """Samples that a model can learn something from; inputs in float64."""
        generator = torch.Generator().manual_seed(seed)
        if self.reads_text:
            text = torch.randint(VOCABULARY, (count, 1), generator=generator)
            text = (text + 3 * torch.arange(LENGTH + 1)) % VOCABULARY  # each token follows from the one before
            noise = torch.randint(VOCABULARY, text.shape, generator=generator)
            text = torch.where(torch.rand(text.shape, generator=generator) < 0.2, noise, text)
            return Batch(text[:, :-1].contiguous(), text[:, 1:].contiguous())
        targets = torch.randint(CLASSES, (count,), generator=generator)
        inputs = torch.randn(count, 1, SIDE, SIDE, generator=generator, dtype=torch.float64)
        inputs[torch.arange(count), 0, targets] += 2.0  # a bright row tells the class
        return Batch(inputs, targets)


@dataclass(frozen=True, kw_only=True)
class Weighted(Recipe):
    """A transformer in whose texts some tokens count, another number in each, and of some texts none: the loss is the
    mean over all tokens that count, of all samples."""

    kind: str = "weighted"

    @property
    def reads_text(self) -> bool:
        return True

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        sums, counts = self.loss_parts(outputs, targets)
        return sums / counts.clamp(min=1)

    def loss_parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        counts = (targets < 4).to(outputs.dtype)
        losses = functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")
        return (losses * counts).sum(dim=1), counts.sum(dim=1)

    def loss_weights(self, targets: Tensor) -> Tensor:
        return (targets < 4).sum(dim=1)

    def samples(self, count: int, *, seed: int = 0) -> Batch:
        batch = super().samples(count, seed=seed)
        targets = batch.targets.clone()
        targets[:, 5:] += 10 * (torch.arange(count) % 2 == 0)[:, None]
        targets[::7] += 10
        return Batch(batch.inputs, torch.where(targets < VOCABULARY, targets, 9))


def recipe_of(kind: str, optimizer_kind: str) -> Recipe:
    """The recipe of a kind."""
    return (Weighted if kind == "weighted" else Recipe)(kind=kind, optimizer_kind=optimizer_kind)


@dataclass(frozen=True)
class Memory:
    """What an evaluation asks of a Dataset."""

    recipe: Recipe
    samples: Batch

    def __len__(self) -> int:
        return len(self.samples.targets)

    def batch(self, indices: Indices | slice) -> Batch:
        rows = indices if isinstance(indices, slice) else torch.from_numpy(indices.copy())
        return Batch(self.samples.inputs[rows], self.samples.targets[rows])

    @property
    def reader(self) -> Memory:
        return self

    def locate(self, row: int) -> str:
        return f"row {row}"


class Embedding(nn.Module):
    """Tokens [samples, length] to vectors [samples, length, WIDTH], their positions added."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.register_buffer("positions", torch.arange(LENGTH), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.token(tokens) + self.position(self.positions[: tokens.shape[1]])


class Attention(nn.Module):
    """Causal self-attention; how many heads this rank has follows from the width of what its matrices give."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        heads = [
            linear(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        ]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def convolutional(*, norm: bool = False, dropout: float = 0.0) -> nn.Module:
    """Channels and classes are odd numbers: their slices differ in size."""
    return nn.Sequential(
        nn.Conv2d(1, 3, kernel_size=3, padding=1),
        nn.BatchNorm2d(3) if norm else nn.ReLU(),
        nn.Conv2d(3, 4, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * (SIDE // 2) ** 2, 8),
        nn.Dropout(dropout) if dropout else nn.ReLU(),
        nn.Linear(8, CLASSES),
    )


def fully_connected() -> nn.Module:
    """Its normalization has one value a sample, and so needs two samples."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(SIDE**2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, CLASSES)
    )


def transformer(*, idle: bool = False) -> nn.Module:
    head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))
    model = nn.Sequential(Embedding(), Block(), Block(), head)
    if idle:
        for block in (model[1], model[2]):
            block.idle = nn.Linear(WIDTH, WIDTH)
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "conv": convolutional,
    "transformer": transformer,
    "idle": lambda: transformer(idle=True),
    "batchnorm": lambda: convolutional(norm=True),
    "weighted": transformer,
    "dropout": lambda: convolutional(dropout=0.3),
    "bn1d": fully_connected,
}
