"""Settings of an evaluation, and its command line."""

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
        batch_size: samples a forward pass; a forward pass sees the same ones whatever the number of processes.
        threads: threads that each process computes with on the CPU, whatever OMP_NUM_THREADS. Another number rounds
            otherwise in the last bits; more processes do not.
        task: of answers in a table: binary, multiclass, multilabel, regression or text; "" for what batch_predict's
            manifest says.
        scoring: the metrics, such as "accuracy, top_k(k=5), f1"; empty for those of the task. `loss` and the recipe's
            own are always among them.
        mode: how curves are counted: histogram (fixed memory, with a bound) or exact (the ranks exchange scores).
        slices: columns, such as "site, device, site*device": every metric by their values, too, and by those of
            several columns together.
        fairness: of a binary model: columns of groups, such as "sex": how far apart they are taken for class 1, and
            rightly and wrongly so (demographic parity and equalized odds differences).
        find_slices: look for slices of any columns, and of pairs, with a larger loss than the other rows.
        bootstrap: replicates for the intervals; 0 for none.
        confidence: of the intervals.
        seed: of the bootstrap.
        strategy: ddp for a model that fits into each process, or fsdp, tp, pp, ... for one that does not.
        strategy_options: the strategy's options, a JSON object: '{"tensor": 2}'.
        predictions: write every row's prediction, as Parquet (into the report).
        worst: keep so many samples with the largest losses in the report, with the columns that were read and a small
            picture; 0 for none (private data).
        threshold: of a binary model: from which score on a sample is taken for class 1; 0 for the model's own, else
            0.5.
        false_positive_cost: for the metric `threshold`: what it costs to take a sample of class 0 for one of class 1.
        false_negative_cost: what it costs to take a sample of class 1 for one of class 0.

    Raises:
        InputError: a value that cannot be.
    """

    batch_size: Annotated[int, Bounds(1)] = 256
    threads: Annotated[int, Bounds(1)] = 1
    task: Literal["", "binary", "multiclass", "multilabel", "regression", "text"] = ""
    scoring: str = ""
    mode: Literal["histogram", "exact"] = "histogram"
    slices: str = ""
    fairness: str = ""
    find_slices: bool = False
    bootstrap: Annotated[int, Bounds(0)] = 200
    confidence: Annotated[float, Bounds(above=0, below=1)] = 0.95
    seed: Annotated[int, Bounds(0, 2**63 - 1)] = 0
    strategy: str = "ddp"
    strategy_options: str = "{}"
    predictions: bool = False
    worst: Annotated[int, Bounds(0, 100)] = 12
    threshold: Annotated[float, Bounds(0, 1)] = 0.0
    false_positive_cost: Annotated[float, Bounds(above=0, most=1e9)] = 1.0
    false_negative_cost: Annotated[float, Bounds(above=0, most=1e9)] = 1.0

    def __post_init__(self) -> None:
        check(self)
        if self.bootstrap == 1:
            raise InputError("bootstrap=1; allowed are whole numbers from 2 (replicates), or 0 for no intervals.")
        for name, text in (("slices", self.slices), ("fairness", self.fairness)):
            twice = [each for each in _names(text) if _names(text).count(each) > 1]
            if twice:
                raise InputError(f"{name}={text!r} names {twice[0]!r} twice.")
        if self.find_slices and not self.bootstrap:
            raise InputError("find_slices=True needs the losses of the rows, which bootstrap=0 leaves out. Give both.")

    @property
    def sliced_by(self) -> list[str]:
        """The names of `slices`, and of `fairness`: columns, or several with "*" between them."""
        return list(dict.fromkeys([*_names(self.slices), *self.groups]))

    @property
    def groups(self) -> list[str]:
        """The columns of `fairness`."""
        return _names(self.fairness)

    @property
    def columns(self) -> list[str]:
        """The columns of the data that slices are made of."""
        return list(dict.fromkeys(each for name in self.sliced_by for each in _names(name, "*")))


def _names(text: str, separator: str = ",") -> list[str]:
    return [name.strip() for name in text.split(separator) if name.strip()]


def parser(description: str | None) -> Parser:
    from drivetrain.training.command_line import Parser  # where a pipeline is compiled, nobody asks for it

    built = Parser(
        program="drivetrain.training_scripts.evaluate",
        description=description,
        usage="(--model FOLDER | --answers TABLE) --data FOLDER --metrics FILE [--report FOLDER] [OPTION ...]",
    )
    built.add_argument("--model", type=Path, metavar="FOLDER", help="a model folder")
    built.add_argument("--answers", type=Path, metavar="TABLE", help="a model's answers to the data, in its place")
    built.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="the data to measure on")
    built.add_argument("--metrics", type=Path, required=True, metavar="FILE", help="the JSON file of numbers to write")
    built.add_argument("--report", type=Path, metavar="FOLDER", help="gets evaluation.json, curves, plots, predictions")
    built.add_argument("--model-hash", default="", metavar="SHA256", help="the name of the model's content")
    built.add_fields(Settings)
    return built
