"""Train a recipe on data, on as many processes and hosts as the step is given.

    python -m drivetrain.components.train --train build/train --model build/model --output build/output \\
        --checkpoints build/checkpoints --recipe digits_cnn --processes 2

Every host runs this command; it becomes the launcher (drivetrain.training_scripts.launch), which starts the processes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from drivetrain.steps import CheckpointsOfAll, Input, Output, programs
from drivetrain.steps.declaration import component
from drivetrain.training.config import RESUMABLE, Config

_NUMBER = r"([-+0-9.eE]+|nan|inf|-inf)"
# A folder from which the platform copies TensorBoard's files while the training runs; the start file names it.
TENSORBOARD_FOLDER = "DRIVETRAIN_TENSORBOARD_FOLDER"


@component(
    job="training",
    needs=("torch", "pyarrow", "numpy", "safetensors"),
    logs={
        name: rf"{name}={_NUMBER}"
        for name in (
            *("train_loss", "validation_loss", "validation_accuracy"),
            *("samples_per_second", "learning_rate", "gradient_norm", "healthy"),
        )
    },
    resumable=RESUMABLE,
    settings=Config,
)
def train(
    train: Input,
    validation: Input | None,
    weights: Input | None,
    continue_from: Input | None,
    model: Output,
    output: Output,
    checkpoints: CheckpointsOfAll,
    *,
    recipe: str = "digits_cnn",
    processes: int = 0,
    **settings: Any,
) -> None:
    """Train a recipe on data.

    The other parameters are the fields of drivetrain.training.config.Config.

    Args:
        train: the data to learn from.
        validation: data to measure on while training.
        weights: a file to start from (safetensors, or a torch state dict), or the output `model` of a training.
        continue_from: an earlier model whose training goes on, as fetch_previous writes it: its optimizer, averages,
            random numbers and steps, or its weights where it was published without its training state.
        model: gets model.safetensors and model.json; with continue_from also training/, for a later one.
        output: gets history.json (the metrics of each validation), metrics.jsonl, tensorboard/, health/ and
            profile/.
        checkpoints: kept between attempts, a folder for each training; an interrupted one goes on from its newest
            checkpoint. With DRIVETRAIN_MAX_INTERRUPTIONS the launcher counts there how often in a row it was
            interrupted.
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.
    """
    folders: dict[str, Path | None] = {"train": train, "validation": validation, "weights": weights}
    folders["continue_from"] = continue_from
    folders |= {"model": model, "output": output, "checkpoints": checkpoints}
    if TENSORBOARD_FOLDER in os.environ:
        folders["tensorboard"] = Path(os.environ[TENSORBOARD_FOLDER])
    command = programs.launcher(
        "drivetrain.training_scripts.train",
        processes,
        folders,
        {"recipe": recipe, **settings},
        options=(f"--checkpoints={checkpoints}",),
    )
    (programs.become if programs.is_the_step("drivetrain.components.train") else programs.run)(command)


if __name__ == "__main__":
    train.main()
