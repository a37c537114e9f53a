"""What predictions are asked for, and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.training.command_line import Parser
from drivetrain.training.errors import unknown_name

ON_CHANGE = ("refuse", "fresh")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The fields of the command line.

    Raises:
        InputError: a value that cannot be.
    """

    batch_size: int = 256
    """samples a forward pass; it sees the same ones whatever the number of processes"""
    rows_per_shard: int = 65536
    """rows of a file; made a multiple of batch_size"""
    threads: int = 1
    """threads that each process computes with on the CPU, whatever OMP_NUM_THREADS; another number rounds otherwise"""
    keep: str = ""
    """columns of the data to hand on, with commas: "id, site" """
    reader: str = "auto"
    """the format of the data; auto for that of the training data"""
    reader_options: str = "{}"
    """the reader's options, a JSON object"""
    strategy: str = "ddp"
    """ddp for a model that fits into each process, or fsdp, tp, pp, ... for one that does not"""
    strategy_options: str = "{}"
    """the strategy's options, a JSON object"""
    on_change: str = "refuse"
    """what to do with predictions of another model, other data or other settings in the folder: refuse or fresh"""

    def __post_init__(self) -> None:
        for name in ("batch_size", "rows_per_shard", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed are whole numbers from 1.")
        if self.on_change not in ON_CHANGE:
            raise unknown_name("on_change", self.on_change, ON_CHANGE)
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        if twice:
            raise InputError(f"keep={self.keep!r} names {twice[0]!r} twice.")

    @property
    def columns(self) -> list[str]:
        """The columns of `keep`."""
        return [name.strip() for name in self.keep.split(",") if name.strip()]

    @property
    def shard_rows(self) -> int:
        """Rows of a shard: whole batches, so that a batch is one of the data's order wherever shards begin."""
        return -(-self.rows_per_shard // self.batch_size) * self.batch_size


def parser(description: str | None) -> Parser:
    built = Parser(
        program="drivetrain.training_scripts.predict",
        description=description,
        usage="--model FOLDER --data FOLDER --output FOLDER [OPTION ...]",
    )
    built.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a model folder")
    built.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="the rows to predict")
    built.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="gets the shards")
    built.add_argument("--previous", type=Path, metavar="FOLDER", help="an earlier output, whose shards are taken over")
    built.add_argument("--metrics", type=Path, metavar="FILE", help="the JSON file of numbers to write")
    built.add_fields(Settings)
    return built
