"""Train a recipe on data, on as many processes and hosts as the step is given.

    python -m drivetrain.components.train --train build/train --model build/model --output build/output \\
        --checkpoints build/checkpoints --recipe digits_cnn --processes 2

Every host runs this command; it becomes the launcher (drivetrain.training_scripts.launch), which starts the processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from drivetrain.steps.contract import Checkpoints, Input, Output
from drivetrain.steps.declaration import component

_NUMBER = r"([-+0-9.eE]+|nan|inf|-inf)"
# A folder from which the platform copies TensorBoard's files while the training runs; the start file names it.
TENSORBOARD_FOLDER = "DRIVETRAIN_TENSORBOARD_FOLDER"
# All other parameters are the training program's own, under the same names.
_NOT_SETTINGS = ("train", "validation", "weights", "model", "output", "checkpoints", "processes")


@component(
    job="training",
    needs=("torch", "pyarrow", "numpy", "safetensors"),
    logs={
        name: rf"{name}={_NUMBER}"
        for name in (
            *("train_loss", "validation_loss", "validation_accuracy"),
            *("samples_per_second", "learning_rate", "gradient_norm"),
        )
    },
    # What looks on, how the state is kept, and what a training may go on with: longer, and by another strategy.
    resumable=(
        *("log_every", "profile", "prefetch", "workers", "collective_timeout"),
        *("checkpoint_every", "mtbf_hours", "keep_last", "keep_best_n", "keep_every_hours", "async_checkpoints"),
        *("on_change", "epochs", "max_steps", "strategy", "strategy_options"),
    ),
)
def train(
    train: Input,
    validation: Input | None,
    weights: Input | None,
    model: Output,
    output: Output,
    checkpoints: Checkpoints,
    *,
    recipe: str = "digits_cnn",
    recipe_options: str = "{}",
    strategy: str = "ddp",
    strategy_options: str = "{}",
    reader: str = "auto",
    reader_options: str = "{}",
    epochs: int = 12,
    max_steps: int = 0,
    global_batch: int = 32,
    accumulation: int = 1,
    drop_last: bool = False,
    sampling: str = "uniform",
    weight_column: str = "",
    shuffle_window: int = 0,
    learning_rate: float = 3e-3,
    lr_scaling: str = "none",
    base_batch: int = 32,
    weight_decay: float = 1e-2,
    warmup_epochs: float = 1.0,
    schedule: str = "cosine",
    cycle_epochs: float = 1.0,
    cycle_growth: float = 1.0,
    precision: str = "fp32",
    clip_norm: float = 0.0,
    ema_decay: float = 0.0,
    activation_checkpointing: bool = False,
    compile: bool = False,
    fused: bool = False,
    sync_batchnorm: bool = False,
    seed: int = 0,
    validate_every: int = 0,
    early_stopping: int = 0,
    monitor: str = "validation_loss",
    keep_best: bool = False,
    log_every: int = 50,
    profile: int = 0,
    prefetch: int = 2,
    workers: int = 0,
    collective_timeout: float = 600.0,
    checkpoint_every: str = "auto",
    mtbf_hours: float = 8.0,
    keep_last: int = 3,
    keep_best_n: int = 0,
    keep_every_hours: float = 0.0,
    async_checkpoints: bool = True,
    on_change: str = "refuse",
    processes: int = 0,
) -> None:
    """Train a recipe on data.

    Args:
        train: the data to learn from.
        validation: data to measure on while training.
        weights: a file to start from (safetensors, or a torch state dict), or the output `model` of a training.
        model: gets model.safetensors and model.json.
        output: gets history.json (the metrics of each validation), metrics.jsonl, tensorboard/ and profile/.
        checkpoints: kept between attempts; a restart on the same data goes on from the newest checkpoint. With
            DRIVETRAIN_MAX_INTERRUPTIONS the launcher counts there how often in a row it was interrupted.
        recipe: what is learnt: a recipe of the package, or a module of your own.
        recipe_options: the recipe's options, a JSON object.
        strategy: how the model is distributed: single, dp, ddp, fsdp, hsdp, tp, fsdp_tp, pp, pp_ddp, tp_pp_fsdp,
            cp, or auto for the one that `drivetrain recommend` would choose.
        strategy_options: the strategy's options, a JSON object: '{"tensor": 2}'.
        reader: the format of the data: prepared, npz, image_folder, mnist, cifar10, imdb, text, or auto for the
            one that recognises it.
        reader_options: the reader's options, a JSON object.
        epochs: how often each sample is seen.
        max_steps: steps after which training ends, however many epochs are left; 0 for no such bound.
        global_batch: samples a step, over all processes.
        accumulation: in how many pieces a process works through its part of a global batch.
        drop_last: leave out the last global batch of an epoch where it is not full.
        sampling: uniform (each sample once an epoch), balanced (classes equally often), weighted (by
            weight_column).
        weight_column: the column of sampling weights.
        shuffle_window: samples that are shuffled together while shards are read one after the other; 0 for all.
        learning_rate: the highest learning rate: reached after the warm-up.
        lr_scaling: how the learning rate grows from base_batch to global_batch: none, linear or sqrt.
        base_batch: the global batch for which learning_rate was found.
        weight_decay: the optimizer's weight decay.
        warmup_epochs: epochs over which the learning rate rises from 0.
        schedule: after the warm-up: cosine (down to 0), linear (down to 0), constant, sgdr (cosine with warm
            restarts).
        cycle_epochs: epochs of the first cycle of sgdr.
        cycle_growth: how many times longer each cycle of sgdr is than the one before.
        precision: fp32, fp64, tf32, bf16 or fp16.
        clip_norm: the longest gradient (Euclidean norm over all parameters) that is applied as it is; 0 for
            any.
        ema_decay: decay a step of the parameters' moving average, which is then evaluated and saved; 0 for
            none.
        activation_checkpointing: compute activations again in the backward pass instead of keeping them.
        compile: torch.compile each layer.
        fused: the optimizer's fused kernel.
        sync_batchnorm: batch statistics over all ranks (GPU only).
        seed: decides the start of the model and the order of the samples.
        validate_every: steps between validations; 0 for the end of each epoch.
        early_stopping: validations without a better `monitor` after which training ends; 0 for never.
        monitor: the validation metric that is watched: validation_loss, or validation_ and a metric of which the recipe
            says which way it is better.
        keep_best: hand on the model of the best validation instead of the last one.
        log_every: steps between progress lines.
        profile: steps to record with torch's profiler, from the third on; 0 for none.
        prefetch: batches that are read ahead; 0 to read when needed.
        workers: processes that read ahead; 0 for a thread.
        collective_timeout: seconds after which a rank that waits for another gives up.
        checkpoint_every: auto (by what a save costs and mtbf_hours), epoch, or so many steps or so long: 200steps,
            90s, 10m, 2h.
        mtbf_hours: hours between interruptions, as far as is known; what earlier attempts met refines it.
        keep_last: checkpoints that are kept: the newest ones.
        keep_best_n: checkpoints that are kept beside them: those of the best validations by `monitor`.
        keep_every_hours: keep one checkpoint for each so many hours, too; 0 for none.
        async_checkpoints: write checkpoints while training goes on.
        on_change: what to do with an unfinished training of the same data by other code or fields: refuse, resume
            or fresh.
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.
    """
    settings = {name: value for name, value in locals().items() if name not in _NOT_SETTINGS}
    folders = {"train": train, "validation": validation, "weights": weights}
    folders |= {"model": model, "output": output, "checkpoints": checkpoints}
    if TENSORBOARD_FOLDER in os.environ:
        folders["tensorboard"] = Path(os.environ[TENSORBOARD_FOLDER])
    command = [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch", f"--processes={processes}"),
        f"--checkpoints={checkpoints}",
        "drivetrain.training_scripts.train",
        # One argument each, joined by "=": a value may begin with a dash.
        *(f"--{name}={path}" for name, path in folders.items() if path is not None),
        *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()),
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
    return spec is not None and spec.name in ("drivetrain.steps.call", "drivetrain.components.train")


if __name__ == "__main__":
    train.main()
