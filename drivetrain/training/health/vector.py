"""The sums of all ranks in one message: each rank fills in its own, zeros elsewhere, and the vectors are added up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from drivetrain.training.health.record import (
    LAYER_COLUMNS,
    RANK_COLUMNS,
    TENSOR_COLUMNS,
    Floats,
    Names,
    Record,
    Table,
    rounded,
)

# Over all ranks: the loss and the weight of its samples, samples with a weight; what watching took, and the time.
_HEAD = ("loss", "weight", "cost", "idle", "time")


@dataclass(frozen=True)
class Own:
    """One rank's part of a record.

    Attributes:
        step, steps, factor: as in Record.
        loss: the sum of its losses since the record before.
        weight: what all samples of these steps weigh, the same on all ranks.
        row: its row of `ranks`.
        cost: seconds that recording took since the record before.
        idle: seconds that watching takes of each step, recorded or not.
        time: seconds since the epoch.
        tensors, layers: [rows, columns] of this rank's names; None if nothing was summed up.
        classes: samples of each class; None without classes.
    """

    step: int
    steps: int
    factor: float
    loss: float
    weight: float
    row: Floats
    cost: float
    idle: float
    time: float
    tensors: Floats | None = None
    layers: Floats | None = None
    classes: Floats | None = None


class Vectors:
    """Between what ranks know and records.

    Args:
        names: of all ranks.
        own: of this rank's tensors and layers, which are among them.
        rank: this one.
    """

    def __init__(self, names: Names, own: Names, rank: int) -> None:
        self.names, self._rank = names, rank
        self._tensors = _places(names.tensors, own.tensors)
        self._layers = _places(names.layers, own.layers)

    def to_vector(self, own: Own, *, full: bool) -> Floats:
        """The vector to be added up; of a full record with tensors, layers and classes."""
        names = self.names
        ranks = np.zeros((names.num_ranks, len(RANK_COLUMNS)))
        ranks[self._rank] = own.row
        time = own.time if self._rank == 0 else 0.0
        parts = [np.array([own.loss, own.weight / names.num_ranks, own.cost, own.idle, time]), ranks.ravel()]
        if full:
            tensors = np.zeros((len(names.tensors), len(TENSOR_COLUMNS)))
            layers = np.zeros((len(names.layers), len(LAYER_COLUMNS)))
            if own.tensors is not None:
                tensors[self._tensors] = own.tensors
            if own.layers is not None:
                layers[self._layers] = own.layers
            classes = np.zeros(names.num_classes) if own.classes is None else own.classes
            parts += [tensors.ravel(), layers.ravel(), classes]
        return np.concatenate(parts)

    def to_record(self, vector: Floats, own: Own, *, full: bool) -> tuple[Record, float, float]:
        """The record, and its `cost` and `idle`, means over the ranks."""
        names, rest = self.names, vector
        (loss, weight, cost, idle, time), rest = rest[: len(_HEAD)].tolist(), rest[len(_HEAD) :]

        def table(rows: Any, columns: tuple[str, ...]) -> Table:
            nonlocal rest
            size = len(rows) * len(columns)
            values, rest = rounded(rest[:size].reshape(len(rows), len(columns))), rest[size:]
            return Table(rows, {name: values[:, place].copy() for place, name in enumerate(columns)})

        ranks = table([f"rank {number}" for number in range(names.num_ranks)], RANK_COLUMNS)
        tensors = table(names.tensors, TENSOR_COLUMNS) if full and names.tensors else None
        layers = table(names.layers, LAYER_COLUMNS) if full and names.layers else None
        mean = float(rounded(np.array([loss / weight]))[0]) if weight else None
        record = Record(
            step=own.step,
            steps=own.steps,
            time=round(time, 3),
            loss=math.nan if mean is not None and not math.isfinite(mean) else mean,
            factor=own.factor,
            ranks=ranks,
            tensors=tensors,
            layers=layers,
            matrices=names.matrices,
            classes=rest.copy() if full and names.num_classes else None,
            scaled=names.scaled,
        )
        return record, cost / names.num_ranks, idle / names.num_ranks


def joined(parts: list[Names]) -> Names:
    """The names of all ranks, those of rank 0 first: in the order of a model's layers, also where ranks hold some."""
    matrices = {name: bool(matrix) for part in parts for name, matrix in zip(part.tensors, part.matrices, strict=True)}
    layers = dict.fromkeys(name for part in parts for name in part.layers)
    return Names(
        tensors=tuple(matrices),
        matrices=tuple(matrices.values()),
        layers=tuple(layers),
        num_classes=parts[0].num_classes,
        num_ranks=len(parts),
        scaled=parts[0].scaled,
    )


def _places(of_all: Any, own: Any) -> list[int]:
    places = {name: place for place, name in enumerate(of_all)}
    return [places[name] for name in own]
