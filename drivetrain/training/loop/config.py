"""What a training is told: every field is an option of the train program's command line."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.interval import parse_every
from drivetrain.training.errors import unknown_name
from drivetrain.training.input_pipeline.sampling import check_sampling
from drivetrain.training.loop.schedule import SCALINGS, SCHEDULES
from drivetrain.training.torch.precision import PRECISIONS

ON_CHANGE = ("refuse", "resume", "fresh")


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained, and how. Everything but the fields of `MAY_CHANGE` is fixed for the life of a training."""

    recipe: str
    """A file of recipes/, or a module of the user's own."""
    recipe_options: str = "{}"
    """The recipe's options, a JSON object."""
    strategy: str = "ddp"
    """A file of strategies/."""
    strategy_options: str = "{}"
    """The strategy's options, a JSON object."""
    reader: str = "auto"
    """The format of the data: a file of readers/, or auto for the one that recognises it."""
    reader_options: str = "{}"
    """The reader's options, a JSON object."""
    epochs: int = 12
    """How often each sample is seen."""
    max_steps: int = 0
    """Steps after which training ends, however many epochs are left; 0 for no such bound."""
    global_batch: int = 32
    """Samples a step, over all processes."""
    accumulation: int = 1
    """In how many pieces a process works through its part of a global batch."""
    drop_last: bool = False
    """Leave out the last global batch of an epoch where it is not full."""
    sampling: str = "uniform"
    """uniform (each sample once an epoch), balanced (classes equally often), weighted (by weight_column)."""
    weight_column: str = ""
    """The column of sampling weights."""
    shuffle_window: int = 0
    """Samples that are shuffled together while shards are read one after the other; 0 for all."""
    learning_rate: float = 3e-3
    """The highest learning rate: reached after the warm-up."""
    lr_scaling: str = "none"
    """How the learning rate grows from base_batch to global_batch: none, linear or sqrt."""
    base_batch: int = 32
    """The global batch for which learning_rate was found."""
    weight_decay: float = 1e-2
    """The optimizer's weight decay."""
    warmup_epochs: float = 1.0
    """Epochs over which the learning rate rises from 0."""
    schedule: str = "cosine"
    """After the warm-up: cosine (down to 0), linear (down to 0), constant, sgdr (cosine with warm restarts)."""
    cycle_epochs: float = 1.0
    """Epochs of the first cycle of sgdr."""
    cycle_growth: float = 1.0
    """How many times longer each cycle of sgdr is than the one before."""
    precision: str = "fp32"
    """fp32, fp64, tf32, bf16 or fp16."""
    clip_norm: float = 0.0
    """The longest gradient (Euclidean norm over all parameters) that is applied as it is; 0 for any."""
    ema_decay: float = 0.0
    """Decay a step of the parameters' moving average, which is then evaluated and saved; 0 for none."""
    activation_checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them."""
    compile: bool = False
    """torch.compile each layer."""
    fused: bool = False
    """The optimizer's fused kernel."""
    sync_batchnorm: bool = False
    """Batch statistics over all ranks (GPU only)."""
    seed: int = 0
    """Decides the start of the model and the order of the samples."""
    validate_every: int = 0
    """Steps between validations; 0 for the end of each epoch."""
    early_stopping: int = 0
    """Validations without a better `monitor` after which training ends; 0 for never."""
    monitor: str = "validation_loss"
    """The validation metric that is watched: validation_loss, or validation_ and a metric of which the recipe says
    which way it is better."""
    keep_best: bool = False
    """Hand on the model of the best validation instead of the last one."""
    log_every: int = 50
    """Steps between progress lines."""
    profile: int = 0
    """Steps to record with torch's profiler, from the third on; 0 for none."""
    prefetch: int = 2
    """Batches that are read ahead; 0 to read when needed."""
    workers: int = 0
    """Processes that read ahead; 0 for a thread."""
    collective_timeout: float = 600.0
    """Seconds after which a rank that waits for another gives up."""
    checkpoint_every: str = "auto"
    """auto (by what a save costs and mtbf_hours), epoch, or so many steps or so long: 200steps, 90s, 10m, 2h."""
    mtbf_hours: float = 8.0
    """Hours between interruptions, as far as is known; what earlier attempts met refines it."""
    keep_last: int = 3
    """Checkpoints that are kept: the newest ones."""
    keep_best_n: int = 0
    """Checkpoints that are kept beside them: those of the best validations by `monitor`."""
    keep_every_hours: float = 0.0
    """Keep one checkpoint for each so many hours, too; 0 for none."""
    async_checkpoints: bool = True
    """Write checkpoints while training goes on."""
    on_change: str = "refuse"
    """What to do with an unfinished training of the same data by other code or fields: refuse, resume or fresh."""

    def __post_init__(self) -> None:
        for name in ("epochs", "global_batch", "accumulation", "base_batch", "log_every", "keep_last"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed are whole numbers from 1.")
        for name in (
            "max_steps",
            "shuffle_window",
            "validate_every",
            "early_stopping",
            "profile",
            "prefetch",
            "workers",
            "keep_best_n",
        ):
            if getattr(self, name) < 0:
                raise InputError(f"{name}={getattr(self, name)}; allowed are whole numbers from 0.")
        for name in ("weight_decay", "warmup_epochs", "clip_norm", "keep_every_hours"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name)}; allowed are numbers from 0.")
        for name in ("learning_rate", "cycle_epochs", "collective_timeout", "mtbf_hours"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name)}; allowed are numbers above 0.")
        if not 0 <= self.ema_decay < 1:
            raise InputError(f"ema_decay={self.ema_decay}; allowed are numbers from 0 to below 1.")
        if not 1 <= self.cycle_growth < math.inf:
            raise InputError(f"cycle_growth={self.cycle_growth}; allowed are numbers from 1.")
        for name, allowed in (
            ("precision", PRECISIONS),
            ("schedule", SCHEDULES),
            ("lr_scaling", SCALINGS),
            ("on_change", ON_CHANGE),
        ):
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        parse_every(self.checkpoint_every)
        check_sampling(self.sampling, self.weight_column, self.shuffle_window)
        if self.workers and not self.prefetch:
            raise InputError(
                f"workers={self.workers} read ahead, and prefetch=0 says that nothing is. Give a prefetch from 1."
            )


# What only looks on, or says how the state is kept.
LOOKS_ON = frozenset(
    {"log_every", "profile", "prefetch", "workers", "collective_timeout"}
    | {
        "checkpoint_every",
        "mtbf_hours",
        "keep_last",
        "keep_best_n",
        "keep_every_hours",
        "async_checkpoints",
        "on_change",
    }
)
# A longer training may go on from a checkpoint of a shorter one, and any strategy from that of any other.
MAY_CHANGE = LOOKS_ON | {"epochs", "max_steps", "strategy", "strategy_options", "early_stopping", "validate_every"}


@dataclass(frozen=True)
class Folders:
    """Where a training reads and writes. What is None is not validated, started from, reported or kept."""

    train: Path
    """The data to learn from."""
    model: Path
    """Gets the model: model.safetensors and model.json."""
    validation: Path | None = None
    """Data to measure on while training."""
    weights: Path | None = None
    """What the model starts from: a file of weights, or a folder with one."""
    output: Path | None = None
    """Gets history.json, metrics.jsonl, tensorboard/ and profile/."""
    checkpoints: Path | str | None = None
    """Kept between attempts; a restart goes on from the newest checkpoint. A folder, or s3://BUCKET/PREFIX."""
    tensorboard: Path | None = None
    """A second place for TensorBoard's files, from which the platform copies them while the training runs."""

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
