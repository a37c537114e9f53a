"""Train a recipe on prepared data, on as many processes and hosts as the step is given.

    python -m drivetrain.components.train --train build/train --model build/model --output build/output \\
        --checkpoints build/checkpoints --recipe digits_cnn --processes 2

Every host runs this command; it becomes the launcher (drivetrain.training_scripts.launch), which starts the processes.
"""

from __future__ import annotations

import os
import subprocess
import sys

from drivetrain.components.declaration import Checkpoints, Input, Output, component

_NUMBER = r"([-+0-9.eE]+|nan|inf|-inf)"


@component(
    job="training",
    needs=("torch", "pyarrow", "numpy", "safetensors"),
    logs={
        "train_loss": rf"train_loss={_NUMBER}",
        "validation_loss": rf"validation_loss={_NUMBER}",
        "validation_accuracy": rf"validation_accuracy={_NUMBER}",
        "samples_per_second": rf"samples_per_second={_NUMBER}",
    },
)
def train(
    train: Input,
    validation: Input | None,
    model: Output,
    output: Output,
    checkpoints: Checkpoints,
    *,
    recipe: str = "digits_cnn",
    recipe_options: str = "{}",
    strategy: str = "ddp",
    epochs: int = 12,
    global_batch: int = 32,
    learning_rate: float = 3e-3,
    weight_decay: float = 1e-2,
    warmup_epochs: float = 1.0,
    seed: int = 0,
    precision: str = "fp32",
    log_every: int = 50,
    processes: int = 0,
) -> None:
    """Train a recipe on prepared data.

    Args:
        train: the prepared data to learn from.
        validation: prepared data to measure on after each epoch.
        model: gets model.safetensors and model.json.
        output: gets history.json, the metrics of each epoch.
        checkpoints: kept between attempts; a restart on the same data goes on from the newest checkpoint.
        recipe: what is learnt: a recipe of the package, or a module of your own.
        recipe_options: the recipe's options, a JSON object.
        strategy: how the model is distributed: single or ddp.
        epochs: how often each sample is seen.
        global_batch: samples a step, over all processes.
        learning_rate: the highest learning rate, after the warm-up.
        weight_decay: the optimizer's weight decay.
        warmup_epochs: epochs over which the learning rate rises from 0.
        seed: decides the start of the model and the order of the samples.
        precision: fp32 or fp64.
        log_every: steps between progress lines inside an epoch.
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.
    """
    settings = {
        "recipe": recipe,
        "recipe-options": recipe_options,
        "strategy": strategy,
        "epochs": epochs,
        "global-batch": global_batch,
        "learning-rate": learning_rate,
        "weight-decay": weight_decay,
        "warmup-epochs": warmup_epochs,
        "seed": seed,
        "precision": precision,
        "log-every": log_every,
    }
    folders = {"train": train, "validation": validation, "model": model, "output": output, "checkpoints": checkpoints}
    command = [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch", f"--processes={processes}"),
        "drivetrain.training_scripts.train",
        # One argument each, joined by "=": a value may begin with a dash.
        *(f"--{name}={path}" for name, path in folders.items() if path is not None),
        *(f"--{name}={value}" for name, value in settings.items()),
    ]
    if _is_the_step():
        # The launcher takes this process over: the platform's signals and the exit code need nobody in between.
        sys.stdout.flush()
        os.execv(command[0], command)
    # The launcher ends when this process does: it is told who started it.
    environment = {**os.environ, "DRIVETRAIN_PARENT_PID": str(os.getpid())}
    code = subprocess.run(command, env=environment, check=False).returncode
    if code:
        sys.exit(code)  # the launcher has said why


def _is_the_step() -> bool:
    """Whether this process was started to run the step, and not to do other things too, such as a notebook."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name in ("drivetrain.components.call", "drivetrain.components.train")


if __name__ == "__main__":
    train.main()
