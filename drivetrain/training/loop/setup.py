"""Apply a Config to the data at hand: the data sets, the order of samples, the schedule, the common options."""

from __future__ import annotations

from typing import NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.cursor import Order
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.loader import Loader
from drivetrain.training.loop.schedule import Schedule
from drivetrain.training.process import Process
from drivetrain.training.recipe import Recipe
from drivetrain.training.strategy import Strategy


class Position(NamedTuple):
    """The position of a training after a step.

    Attributes:
        epoch: of the step, counted from 0.
        ends_epoch: the step was its last one.
        ends: the step was the last of all.
        validates: what was learnt is measured now.
        reports: a line is due, or a validation.
    """

    epoch: int
    ends_epoch: bool
    ends: bool
    validates: bool
    reports: bool


def open_data(config: Config, folders: Folders, recipe: Recipe, process: Process) -> tuple[Dataset, Dataset | None]:
    """The data to learn from, and the data to validate on (read as the former is), if there is any."""
    train = Dataset(
        folders.train,
        recipe,
        process,
        reader=config.reader,
        reader_options=config.reader_options,
        shuffle_window=config.shuffle_window,
        columns=[config.weight_column] if config.weight_column else [],
    )
    if folders.validation is None:
        return train, None
    validation = Dataset(
        folders.validation,
        recipe,
        process,
        reader=config.reader,
        reader_options=config.reader_options,
        split="test",
        fitted=train.fitted,
    )
    return train, validation


def build_order(config: Config, dataset: Dataset) -> Order:
    """The order that `sampling` and `drop_last` ask for, in the windows that the data was opened with."""
    return dataset.order(
        global_batch=config.global_batch,
        seed=config.seed,
        drop_last=config.drop_last,
        sampling=config.sampling,
        weight_column=config.weight_column,
    )


def build_schedule(config: Config, steps_per_epoch: int) -> Schedule:
    """The schedule in steps."""
    total_steps = config.epochs * steps_per_epoch
    return Schedule(
        kind=config.schedule,
        warmup_steps=round(config.warmup_epochs * steps_per_epoch),
        total_steps=min(total_steps, config.max_steps or total_steps),
        cycle_steps=max(1, round(config.cycle_epochs * steps_per_epoch)),
        cycle_growth=config.cycle_growth,
    )


def samples_until(step: int, order: Order) -> int:
    """How many samples are consumed after `step` steps: where in an epoch a batch is smaller is known."""
    epochs, steps = divmod(step, order.steps_per_epoch)
    return epochs * order.num_samples + min(steps * order.global_batch, order.num_samples)


def open_loader(config: Config, dataset: Dataset, order: Order, strategy: Strategy, consumed: int, end: int) -> Loader:
    """This rank's batches from `consumed` samples on, until `end`."""
    return Loader(
        dataset,
        order,
        consumed,
        data_rank=strategy.layout.data_rank,
        data_size=strategy.layout.data_size,
        end=end,
        device=strategy.process.device,
        prefetch=config.prefetch,
        workers=config.workers,
    )


def is_watched(config: Config, folders: Folders) -> bool:
    """Return True if anything depends on the best validation.

    Raises:
        InputError: early_stopping, keep_best or keep_best_n without data to validate on.
    """
    asked = [name for name in ("early_stopping", "keep_best", "keep_best_n") if getattr(config, name)]
    if asked and folders.validation is None:
        name = asked[0]
        raise InputError(
            f"{name}={getattr(config, name)} watches {config.monitor}, but there is no validation data. "
            f"Give --validation (an input `validation` of the step), or leave {name} out."
        )
    return bool(asked)
