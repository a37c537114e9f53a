"""Sums over data: every rank adds up its own batches, one collective adds the ranks, division comes last."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drivetrain.training_scripts.dataset import Dataset
from drivetrain.training_scripts.process import Process


@dataclass(frozen=True)
class Evaluation:
    """Sums over `num_samples` samples; `class_sums` and `class_samples` (float64, shape [classes]) are split by label.

    Empty class tables mean that the label is not a class.
    """

    num_samples: int
    sums: dict[str, float]
    class_samples: list[int]
    class_sums: dict[str, list[float]]

    @property
    def means(self) -> dict[str, float]:
        """`loss` and the recipe's metrics, averaged over samples."""
        return {name: total / self.num_samples for name, total in self.sums.items()}

    @property
    def class_means(self) -> dict[str, float]:
        """The recipe's metrics over the samples of each class that occurs: `accuracy_class_3`."""
        return {
            f"{name}_class_{index}": total / samples
            for name, totals in self.class_sums.items()
            for index, (total, samples) in enumerate(zip(totals, self.class_samples, strict=True))
            if samples
        }


def evaluate(model: nn.Module, dataset: Dataset, process: Process, *, batch_size: int) -> Evaluation:
    """Evaluate the bare model on all rows, on all ranks together.

    Batches are cut from the one order of the data and dealt whole, so that a forward pass sees the same samples on any
    number of ranks, none of them twice. (Through a distributed wrapper some ranks would wait for others.)
    """
    recipe, num_classes = dataset.recipe, dataset.recipe.num_classes or 0
    parameter = next(model.parameters())
    names: list[str] = []
    table: Tensor | None = None  # rows: number of samples, loss, metrics; columns: all samples, then one a class
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        starts = range(0, len(dataset), batch_size)
        # A rank without a batch still has to learn the names of the metrics: it looks at one row and counts nothing.
        for index in range(process.rank, max(len(starts), process.world_size), process.world_size):
            counts = index < len(starts)
            rows = slice(starts[index], starts[index] + batch_size) if counts else slice(0, 1)
            batch = dataset.batch(rows).to(process.device, parameter.dtype)
            outputs = model(batch.inputs)
            metrics = recipe.metrics(outputs, batch.targets)
            names = ["loss", *metrics]
            losses = recipe.losses(outputs, batch.targets)
            values = torch.stack([v.to(torch.float64) for v in (torch.ones_like(losses), losses, *metrics.values())])
            if table is None:
                table = torch.zeros(len(values), 1 + num_classes, dtype=torch.float64, device=process.device)
            if counts:
                table[:, 0] += values.sum(dim=1)
                if num_classes:
                    table[:, 1:].index_add_(1, batch.targets, values)
    model.train(was_training)
    assert table is not None
    total = process.sum(table).cpu()
    by_class = zip(names[1:], total[2:, 1:].tolist(), strict=True) if num_classes else ()
    return Evaluation(
        num_samples=int(total[0, 0]),
        sums={name: float(row[0]) for name, row in zip(names, total[1:], strict=True)},
        class_samples=[int(count) for count in total[0, 1:]],
        class_sums=dict(by_class),
    )
