"""Settings of predictions, and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.steps.programs import check

if TYPE_CHECKING:
    from drivetrain.training.command_line import Parser


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of the component and the options of the command line.

    Attributes:
        batch_size: samples a forward pass; it sees the same ones whatever the number of processes.
        rows_per_shard: rows of a file; made a multiple of batch_size.
        threads: threads that each process computes with on the CPU, whatever OMP_NUM_THREADS; another number rounds
            otherwise.
        keep: columns of the data to hand on, with commas: "id, site".
        reader: the format of the data; auto for that of the training data.
        reader_options: the reader's options, a JSON object.
        strategy: ddp for a model that fits into each process, or fsdp, tp, pp, ... for one that does not.
        strategy_options: the strategy's options, a JSON object: '{"tensor": 2}'.
        on_change: what to do with predictions of another model, other data or other settings in the folder: refuse or
            fresh.

    Raises:
        InputError: a value that cannot be.
    """

    batch_size: Annotated[int, Bounds(1)] = 256
    rows_per_shard: Annotated[int, Bounds(1)] = 65536
    threads: Annotated[int, Bounds(1)] = 1
    keep: str = ""
    reader: str = "auto"
    reader_options: str = "{}"
    strategy: str = "ddp"
    strategy_options: str = "{}"
    on_change: Literal["refuse", "fresh"] = "refuse"

    def __post_init__(self) -> None:
        check(self)
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
    from drivetrain.training.command_line import Parser  # where a pipeline is compiled, nobody asks for it

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
