"""Prepared rows as a recipe's batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drivetrain.training_scripts.cursor import Indices
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.prepared import PreparedData
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.recipe import Batch, Recipe


class Dataset:
    """The rows of a folder of prepared data, in memory, as a recipe takes them.

    Every process must construct it at the same point: the processes of a host share the work of checking the shards
    and wait for each other, so that no row is used before its shard was checked.

    Raises:
        InputError: a shard that is missing or differs from the manifest, a missing column, no label, a label that is
            not one of the recipe's classes.
    """

    def __init__(self, folder: Path, recipe: Recipe, process: Process) -> None:
        self.data = PreparedData(folder)
        self.recipe = recipe
        if self.data.label is None:
            raise InputError(f"{folder} has no label column. Prepare it with the label named.")
        self.label: str = self.data.label
        self.data.verify(self.data.shards[process.local_rank :: process.local_world_size])
        process.barrier()
        self.columns = self.data.read([*recipe.columns, self.label])
        if recipe.num_classes is not None:
            self.data.check_classes(self.label, self.columns[self.label], recipe.num_classes)

    @property
    def statistics(self) -> dict[str, Any]:
        """The manifest's statistics of the columns that the recipe uses."""
        return {name: self.data.statistics[name] for name in self.columns if name in self.data.statistics}

    def __len__(self) -> int:
        return self.data.rows

    def batch(self, indices: Indices | slice) -> Batch:
        """The samples at `indices` as tensors on the CPU."""
        return self.recipe.batch({name: column[indices] for name, column in self.columns.items()}, self.label)
