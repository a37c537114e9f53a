"""Sums over data: every rank adds up its own batches, one collective adds the ranks, division comes last."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drivetrain.training_scripts.data.dataset import Dataset
from drivetrain.training_scripts.distribution.layout import Layout
from drivetrain.training_scripts.launching.heartbeat import beat
from drivetrain.training_scripts.recipe import Recipe, check_values, wrong_answer

Forward = Callable[[Tensor], Tensor | None]


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


def evaluate(
    forward: Forward,
    dataset: Dataset,
    layout: Layout,
    *,
    batch_size: int,
    dtype: torch.dtype = torch.float32,
    num_rows: int | None = None,
) -> Evaluation:
    """Evaluate a model in eval mode on all rows, on all ranks together.

    Batches are cut from the one order of the data and dealt whole to the replicas, so that a forward pass sees the
    same samples on any number of ranks, none of them twice. Every replica goes through the same number of rounds, since
    its ranks may meet those of others in each; one for which a replica has no batch counts for nothing.

    Args:
        forward: outputs of the model for inputs; None on ranks whose replica another rank speaks for.
        dataset: the rows.
        layout: how the ranks share the work.
        batch_size: rows of a forward pass.
        dtype: of floating-point inputs.
        num_rows: only so many rows, the first ones; None for all.
    """
    process, recipe, num_classes = layout.process, dataset.recipe, dataset.recipe.num_classes or 0
    names: list[str] = []
    # Rows: number of samples, loss, metrics; columns: all samples, then one a class.
    table: Tensor | None = None
    stop = min(len(dataset), num_rows or len(dataset))
    starts = range(0, stop, batch_size)
    rounds = -(-len(starts) // layout.data_size)
    with torch.no_grad():
        for index in range(layout.data_rank, rounds * layout.data_size, layout.data_size):
            beat()  # a long evaluation is no hang
            counts = index < len(starts)
            rows = slice(starts[index], min(stop, starts[index] + batch_size)) if counts else slice(0, 1)
            batch = dataset.batch(rows).to(process.device, dtype)
            outputs = forward(batch.inputs)
            if outputs is None:
                continue
            metrics = _metrics(recipe, outputs, batch.targets)
            names = ["loss", *metrics]
            losses = recipe.losses(outputs, batch.targets)
            for method, answer in (("losses", losses), *(("metrics", value) for value in metrics.values())):
                check_values(recipe, method, answer, batch.targets)
            values = torch.stack([v.to(torch.float64) for v in (torch.ones_like(losses), losses, *metrics.values())])
            if table is None:
                table = torch.zeros(len(values), 1 + num_classes, dtype=torch.float64, device=process.device)
            if counts:
                table[:, 0] += values.sum(dim=1)
                if num_classes:
                    table[:, 1:].index_add_(1, batch.targets, values)
    speaks = process.rank == layout.speaker
    names = json.loads(process.broadcast_bytes(json.dumps(names).encode() if speaks else None, source=layout.speaker))
    if table is None:
        table = torch.zeros(1 + len(names), 1 + num_classes, dtype=torch.float64, device=process.device)
    total = process.sum(table).cpu()
    by_class = zip(names[1:], total[2:, 1:].tolist(), strict=True) if num_classes else ()
    return Evaluation(
        num_samples=int(total[0, 0]),
        sums={name: float(row[0]) for name, row in zip(names, total[1:], strict=True)},
        class_samples=[int(count) for count in total[0, 1:]],
        class_sums=dict(by_class),
    )


def _metrics(recipe: Recipe, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """
    Raises:
        InputError: the recipe returned no names with values. (The shapes are looked at with those of the losses.)
    """
    metrics: object = recipe.metrics(outputs, targets)
    if not isinstance(metrics, dict):
        raise wrong_answer(recipe, "metrics", metrics, "a dict of names and tensors, such as {'accuracy': ...}")
    wrong = [name for name in metrics if not isinstance(name, str) or name == "loss"]
    if wrong:
        raise wrong_answer(recipe, "metrics", metrics, f"names that are text other than 'loss', not {wrong[0]!r}")
    return metrics
