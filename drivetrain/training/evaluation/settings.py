"""What an evaluation is asked for, and its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.training.command_line import Parser
from drivetrain.training.errors import unknown_name

MODES = ("histogram", "exact")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The fields of the command line.

    Raises:
        InputError: a value that cannot be.
    """

    batch_size: int = 256
    """samples a forward pass; a forward pass sees the same ones whatever the number of processes"""
    threads: int = 1
    """threads that each process computes with on the CPU, whatever OMP_NUM_THREADS; another number rounds otherwise"""
    scoring: str = ""
    """the metrics, such as "accuracy, top_k(k=5), f1"; empty for those of the task"""
    mode: str = "histogram"
    """how curves are counted: histogram (fixed memory, with a bound) or exact (the ranks exchange scores)"""
    slices: str = ""
    """columns, such as "site, device": every metric by their values, too"""
    bootstrap: int = 200
    """replicates for the intervals; 0 for none"""
    confidence: float = 0.95
    """of the intervals"""
    seed: int = 0
    """of the bootstrap"""
    strategy: str = "ddp"
    """ddp for a model that fits into each process, or fsdp, tp, pp, ... for one that does not"""
    strategy_options: str = "{}"
    """the strategy's options, a JSON object"""
    predictions: bool = False
    """write every row's prediction, as Parquet (into --report)"""

    def __post_init__(self) -> None:
        for name in ("batch_size", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed are whole numbers from 1.")
        if self.mode not in MODES:
            raise unknown_name("mode", self.mode, MODES)
        if self.bootstrap < 0 or self.bootstrap == 1:
            raise InputError(
                f"bootstrap={self.bootstrap}; allowed are whole numbers from 2 (replicates), or 0 for no intervals."
            )
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence={self.confidence}; allowed are numbers between 0 and 1, such as 0.95.")
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"seed={self.seed}; allowed are whole numbers from 0 to 2**63 - 1.")
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        if twice:
            raise InputError(f"slices={self.slices!r} names {twice[0]!r} twice.")

    @property
    def columns(self) -> list[str]:
        """The columns of `slices`."""
        return [name.strip() for name in self.slices.split(",") if name.strip()]


def parser(description: str | None) -> Parser:
    built = Parser(
        program="drivetrain.training_scripts.evaluate",
        description=description,
        usage="--model FOLDER --data FOLDER --metrics FILE [--report FOLDER] [OPTION ...]",
    )
    built.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a model folder")
    built.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="the data to measure on")
    built.add_argument("--metrics", type=Path, required=True, metavar="FILE", help="the JSON file of numbers to write")
    built.add_argument("--report", type=Path, metavar="FOLDER", help="gets evaluation.json, curves, plots, predictions")
    built.add_argument("--model-hash", default="", metavar="SHA256", help="the name of the model's content")
    built.add_fields(Settings)
    return built
