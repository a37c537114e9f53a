"""Settings of train_table, declared once for the component and the program.

Pipelines are compiled with it: numpy is not imported here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.steps import Since
from drivetrain.steps.programs import check

if TYPE_CHECKING:
    from drivetrain.training.command_line import Parser


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """Settings of a training on a table.

    Attributes:
        estimator: what learns: xgboost, lightgbm, sklearn, or a module of your own.
        estimator_options: the estimator's options, a JSON object: '{"max_depth": 6, "categories": ["plan"]}'.
        task: binary, multiclass or regression; auto: texts, truths, and the numbers 0 and 1 are classes, other numbers
            a regression.
        rounds: rounds of learning, such as trees.
        early_stopping: rounds without a better loss on the validation data after which training ends; the model is
            that of the best round. 0 for never.
        weight_column: the column that says how much a row counts, in the training and in its losses.
        seed: decides all random numbers.
        save_every: rounds between checkpoints; 0 for a quarter of all. With sampling it takes part in deciding the
            model.
        health_rules: what health rules do, a JSON object: '{"overfitting": {"action": "stop"}}' (docs/health.md).
        threads: threads a process; 0 for its share of the cores.
        collective_timeout: seconds that a process waits for the others.
    """

    estimator: str = "xgboost"
    estimator_options: str = "{}"
    task: Literal["auto", "binary", "multiclass", "regression"] = "auto"
    rounds: Annotated[int, Bounds(1)] = 100
    early_stopping: Annotated[int, Bounds(0)] = 0
    weight_column: str = ""
    seed: Annotated[int, Bounds(0, most=2**31 - 1)] = 0
    save_every: Annotated[int, Bounds(0)] = 0
    health_rules: Annotated[str, Since(before="{}")] = "{}"
    threads: Annotated[int, Bounds(0)] = 0
    collective_timeout: Annotated[float, Bounds(above=0)] = 600.0

    def __post_init__(self) -> None:
        check(self)

    @property
    def rounds_between_saves(self) -> int:
        return self.save_every or -(-self.rounds // 4)


@dataclass(frozen=True, kw_only=True)
class TableFolders:
    """Places of a training on a table.

    Attributes:
        train: the data to learn from.
        model: gets the model folder.
        validation: data to measure on while training.
        output: gets history.json, metrics.jsonl and tensorboard/.
        checkpoints: the folder of this training; a restart goes on from the newest checkpoint in it.
    """

    train: Path
    model: Path
    validation: Path | None = None
    output: Path | None = None
    checkpoints: Path | None = None


def refuse_unwatched(config: TableConfig, folders: TableFolders) -> None:
    """
    Raises:
        InputError: early stopping without data to validate on.
    """
    if config.early_stopping and folders.validation is None:
        raise InputError(
            f"early_stopping={config.early_stopping} watches the loss on validation data, and there is none. Give "
            "--validation (an input `validation` of the step), or leave early_stopping out."
        )


def one_host(estimator: str, processes: int) -> str:
    """The reason why an estimator cannot learn on so many processes."""
    return (
        f"estimator {estimator!r} learns in one process with threads, and {processes} are to run. Give one process on "
        "one host, or estimator='xgboost', which learns on several."
    )


def versions_of(needs: Sequence[str]) -> dict[str, str]:
    """The distributions of an estimator's NEEDS (`lightgbm`, `lightgbm>=4.7`) that are installed, and their versions.

    Some have a distribution without code for GPUs, with the same module: xgboost-cpu, and xgboost.
    """
    from importlib import metadata

    found: dict[str, str] = {}
    for need in needs:
        full = re.split(r"[^\w.-]", need, maxsplit=1)[0]
        for name in dict.fromkeys((full, full.removesuffix("-cpu"))):
            with suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(name)
                break
    return found


def parser(description: str | None) -> Parser:
    """The command line of the program."""
    from drivetrain.training.command_line import Parser

    built = Parser(
        program="drivetrain.training_scripts.train_table",
        description=description,
        usage="--train FOLDER --model FOLDER [OPTION ...]",
    )
    built.add_fields(TableFolders, metavar="FOLDER")
    built.add_fields(TableConfig)
    return built
