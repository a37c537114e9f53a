"""Settings of a training, declared once for the component, the program, its checkpoints and the strategies.

A new field is one line, with its meaning in the docstring. Where trainings of before are to go on, and checkpoints to
stay where they are, it says what its absence meant: `Annotated[float, Since(before=0.0)]`.

Pipelines are compiled with it, and steps are started: neither torch nor numpy is imported here.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.steps import Since
from drivetrain.steps.programs import check

if TYPE_CHECKING:
    from drivetrain.training.command_line import Parser

Sampling = Literal["uniform", "balanced", "weighted"]
Schedule = Literal["cosine", "constant", "linear", "sgdr"]
ClassWeights = Literal["none", "balanced"]
Scaling = Literal["none", "linear", "sqrt"]
Precision = Literal["fp32", "fp64", "tf32", "bf16", "fp16"]

# What only looks on, or says how the state is kept.
LOOKS_ON = (
    *("log_every", "profile", "prefetch", "workers", "collective_timeout"),
    *("health", "health_cost", "health_rules"),
    *("checkpoint_every", "mtbf_hours", "keep_last", "keep_best_n", "keep_every_hours", "async_checkpoints"),
)
# Changing one of these keeps the training the same: any strategy goes on from a checkpoint of any other.
SAME_TRAINING = (*LOOKS_ON, "strategy", "strategy_options")
# A resumed run may change these: a longer training goes on from a shorter one's checkpoints if the user asks for it.
RESUMABLE = (*SAME_TRAINING, "epochs", "max_steps")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a training. Another value of a field that is not in `SAME_TRAINING` makes another training.

    Attributes:
        recipe: what is learnt: a recipe of the package, or a module of your own.
        recipe_options: the recipe's options, a JSON object.
        strategy: how the model is distributed: single, dp, ddp, fsdp, hsdp, tp, fsdp_tp, pp, pp_ddp, tp_pp_fsdp, cp,
            deepspeed, deepspeed_pp, horovod, over SageMaker's own libraries smddp, smddp_fsdp, smp, or auto for the
            one that `drivetrain recommend` would choose; for recipes of TensorFlow tf_single, tf_mirrored,
            tf_central_storage, tf_multi_worker, tf_horovod, tf_parameter_server.
        strategy_options: the strategy's options, a JSON object: '{"tensor": 2}'.
        reader: the format of the data: prepared, npz, image_folder, mnist, cifar10, imdb, text, tokenized,
            huggingface, webdataset, or auto for the reader that recognises it.
        reader_options: the reader's options, a JSON object.
        epochs: how often each sample is seen.
        max_steps: steps after which training ends, however many epochs are left; 0 for no such bound.
        global_batch: samples a step, over all processes.
        accumulation: in how many pieces a process works through its part of a global batch.
        drop_last: leave out the last global batch of an epoch where it is not full.
        sampling: uniform (each sample once an epoch), balanced (classes equally often), weighted (by weight_column).
        weight_column: the column of sampling weights.
        class_weights: balanced weighs each sample's loss by its class, so that classes count alike however many samples
            they have; metrics and evaluations are not weighted.
        shuffle_window: samples that are shuffled together while shards are read one after the other; 0 for all.
        learning_rate: the highest learning rate: reached after the warm-up.
        lr_scaling: how the learning rate grows from base_batch to global_batch: none, linear or sqrt.
        base_batch: the global batch for which learning_rate was found.
        weight_decay: the optimizer's weight decay.
        warmup_epochs: epochs over which the learning rate rises from 0.
        schedule: after the warm-up: cosine (down to 0), linear (down to 0), constant, sgdr (cosine with warm restarts).
        cycle_epochs: epochs of the first cycle of sgdr.
        cycle_growth: how many times longer each cycle of sgdr is than the one before.
        precision: fp32, fp64, tf32, bf16 or fp16.
        clip_norm: the longest gradient (Euclidean norm over all parameters) that is applied as it is; 0 for any.
        ema_decay: decay a step of the parameters' moving average, which is then evaluated and saved; 0 for none.
        activation_checkpointing: compute activations again in the backward pass instead of keeping them.
        compile: torch.compile each layer.
        fused: the optimizer's fused kernel.
        sync_batchnorm: batch statistics over all ranks (GPU only).
        seed: decides the start of the model and the order of the samples.
        validate_every: steps between validations; 0 for the end of each epoch.
        early_stopping: validations without a better `monitor` after which training ends; 0 for never.
        monitor: the watched validation metric: validation_loss, or validation_ and a metric with a better direction in
            the recipe.
        keep_best: hand on the model of the best validation instead of the last one.
        log_every: steps between progress lines.
        profile: steps to record with the framework's profiler, from the third on; 0 for none.
        health: watch the training with the health rules (docs/health.md); it changes no number of the training.
        health_cost: the highest share of the time that watching tensors and layers may take; 1 looks at every step.
        health_rules: what the rules do, a JSON object: '{"overfitting": {"action": "stop"}, "slow_input": "off"}'. A
            name of a module adds a rule of your own.
        prefetch: batches that are read ahead; 0 to read when needed.
        workers: processes that read ahead; 0 for a thread.
        collective_timeout: seconds after which a rank that waits for another gives up.
        checkpoint_every: auto (by what a save costs and mtbf_hours), epoch, or so many steps or so long: 200steps, 90s,
            10m, 2h.
        mtbf_hours: hours between interruptions, as far as is known; what earlier attempts met refines it.
        keep_last: checkpoints that are kept: the newest ones.
        keep_best_n: checkpoints that are kept beside them: those of the best validations by `monitor`.
        keep_every_hours: keep one checkpoint for each so many hours, too; 0 for none.
        async_checkpoints: write checkpoints while training goes on.

    Raises:
        InputError: a value that cannot be, or two that do not go together.
    """

    recipe: str
    recipe_options: str = "{}"
    strategy: str = "ddp"
    strategy_options: str = "{}"
    reader: str = "auto"
    reader_options: str = "{}"
    epochs: Annotated[int, Bounds(1)] = 12
    max_steps: Annotated[int, Bounds(0)] = 0
    global_batch: Annotated[int, Bounds(1)] = 32
    accumulation: Annotated[int, Bounds(1)] = 1
    drop_last: bool = False
    sampling: Sampling = "uniform"
    weight_column: str = ""
    class_weights: Annotated[ClassWeights, Since(before="none")] = "none"
    shuffle_window: Annotated[int, Bounds(0)] = 0
    learning_rate: Annotated[float, Bounds(above=0)] = 3e-3
    lr_scaling: Scaling = "none"
    base_batch: Annotated[int, Bounds(1)] = 32
    weight_decay: Annotated[float, Bounds(0)] = 1e-2
    warmup_epochs: Annotated[float, Bounds(0)] = 1.0
    schedule: Schedule = "cosine"
    cycle_epochs: Annotated[float, Bounds(above=0)] = 1.0
    cycle_growth: Annotated[float, Bounds(1)] = 1.0
    precision: Precision = "fp32"
    clip_norm: Annotated[float, Bounds(0)] = 0.0
    ema_decay: Annotated[float, Bounds(0, below=1)] = 0.0
    activation_checkpointing: bool = False
    compile: bool = False
    fused: bool = False
    sync_batchnorm: bool = False
    seed: int = 0
    validate_every: Annotated[int, Bounds(0)] = 0
    early_stopping: Annotated[int, Bounds(0)] = 0
    monitor: str = "validation_loss"
    keep_best: bool = False
    log_every: Annotated[int, Bounds(1)] = 50
    profile: Annotated[int, Bounds(0)] = 0
    health: Annotated[bool, Since(before=False)] = True
    health_cost: Annotated[float, Bounds(above=0, most=1), Since(before=0.01)] = 0.01
    health_rules: Annotated[str, Since(before="{}")] = "{}"
    prefetch: Annotated[int, Bounds(0)] = 2
    workers: Annotated[int, Bounds(0)] = 0
    collective_timeout: Annotated[float, Bounds(above=0)] = 600.0
    checkpoint_every: str = "auto"
    mtbf_hours: Annotated[float, Bounds(above=0)] = 8.0
    keep_last: Annotated[int, Bounds(1)] = 3
    keep_best_n: Annotated[int, Bounds(0)] = 0
    keep_every_hours: Annotated[float, Bounds(0)] = 0.0
    async_checkpoints: bool = True

    def __post_init__(self) -> None:
        from drivetrain.training.checkpointing.interval import parse_every

        check(self)
        parse_every(self.checkpoint_every)
        check_sampling(self.sampling, self.weight_column, self.shuffle_window)
        if self.workers and not self.prefetch:
            raise InputError(
                f"workers={self.workers} read ahead, and prefetch=0 says that nothing is. Give a prefetch from 1."
            )

    @property
    def highest_learning_rate(self) -> float:
        """`learning_rate`, which was found with `base_batch`, for `global_batch`."""
        ratio = self.global_batch / self.base_batch
        return self.learning_rate * {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[self.lr_scaling]


def check_sampling(sampling: str, weight_column: str, shuffle_window: int) -> None:
    """
    Raises:
        InputError: what says how samples are drawn does not go together.
    """
    if (sampling == "weighted") != bool(weight_column):
        raise InputError(
            f"sampling={sampling!r} with weight_column={weight_column!r}; sampling 'weighted' needs a weight_column, "
            "and no other sampling takes one."
        )
    if shuffle_window and sampling != "uniform":
        raise InputError(
            f"shuffle_window={shuffle_window} is for sampling 'uniform', not {sampling!r}: rows that come through a "
            "window cannot be drawn from all of them. Leave one of the two out."
        )


@dataclass(frozen=True)
class Folders:
    """The folders that a training reads and writes. One that is None is not validated, started from, reported or kept.

    Attributes:
        train: the data to learn from.
        model: gets the model: model.safetensors and model.json.
        validation: data to measure on while training.
        weights: what the model starts from: a file of weights, or a folder with one.
        continue_from: an earlier model to go on from, as fetch_previous writes it: with its training state, if it was
            published with one, else with its weights.
        output: gets history.json, metrics.jsonl, tensorboard/, health/ and profile/.
        checkpoints: kept between attempts; a restart goes on from the newest checkpoint. A folder, or
            s3://BUCKET/PREFIX.
        tensorboard: a second place for TensorBoard's files, from which the platform copies them while the training
            runs.
    """

    train: Path
    model: Path
    validation: Path | None = None
    weights: Path | None = None
    continue_from: Path | None = None
    output: Path | None = None
    checkpoints: Path | str | None = None
    tensorboard: Path | None = None

    def refuse_unwritable(self) -> None:
        """Find out before the training what would stop it after hours. Makes nothing.

        Raises:
            InputError: naming the folder.
        """
        for name in ("model", "output", "checkpoints", "tensorboard"):
            folder: Path | str | None = getattr(self, name)
            if folder is None or "://" in str(folder):
                continue
            folder = Path(folder)
            there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
            if not there.is_dir():
                raise InputError(f"--{name} {folder} cannot be a folder: {there} is a file. Give another.")
            if not os.access(there, os.W_OK | os.X_OK):
                raise InputError(f"--{name} {folder} cannot be written: {there} is not writable here. Give another.")


def parser(description: str | None) -> Parser:
    """The command line of the train program: the folders, and every field of Config."""
    from drivetrain.training.command_line import Parser  # where a pipeline is compiled, nobody asks for it

    built = Parser(
        program="drivetrain.training_scripts.train",
        description=description,
        usage="--train FOLDER --model FOLDER --recipe NAME [OPTION ...]",
    )
    built.add_fields(Folders, metavar="FOLDER")
    built.add_fields(Config)
    return built
