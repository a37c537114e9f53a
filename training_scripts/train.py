"""Train a recipe on data.

    python -m drivetrain.training_scripts.train --train build/train --model build/model --recipe digits_cnn
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.train --train build/train ...

A restarted run goes on from its newest checkpoint. The same training gives the same model, byte for byte.
"""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from torch import Tensor

from drivetrain.training_scripts.checkpointing.checkpointer import Checkpointer, CheckpointOptions
from drivetrain.training_scripts.checkpointing.generators import kept_generators
from drivetrain.training_scripts.checkpointing.places import open_place
from drivetrain.training_scripts.checkpointing.tensors import model_parts
from drivetrain.training_scripts.data.dataset import Dataset
from drivetrain.training_scripts.distribution import state
from drivetrain.training_scripts.evaluation import evaluate
from drivetrain.training_scripts.launching.failure import run_rank
from drivetrain.training_scripts.launching.heartbeat import beat
from drivetrain.training_scripts.launching.parent import die_with_parent
from drivetrain.training_scripts.loop import plan
from drivetrain.training_scripts.loop.command_line import parser
from drivetrain.training_scripts.loop.config import Config, Folders, refuse_changes, refuse_shorter
from drivetrain.training_scripts.loop.divergence import refuse_divergence, refuse_infinite_loss
from drivetrain.training_scripts.loop.identity import training_identity
from drivetrain.training_scripts.loop.journal import Journal
from drivetrain.training_scripts.loop.profiling import Profile
from drivetrain.training_scripts.loop.result import HISTORY_FILE, History, save_result
from drivetrain.training_scripts.loop.running_loss import RunningLoss
from drivetrain.training_scripts.loop.seeding import StepSeeds, seed_everything
from drivetrain.training_scripts.loop.watch import Watch
from drivetrain.training_scripts.models.weights import load_weights
from drivetrain.training_scripts.options import parse_options
from drivetrain.training_scripts.process import Process, join_group
from drivetrain.training_scripts.recipe import build_model, load_recipe
from drivetrain.training_scripts.strategy import Strategy, load_strategy

VALIDATION_BATCH = 512

__all__ = ["HISTORY_FILE", "Config", "Folders", "main", "train"]


def train(config: Config, folders: Folders, process: Process) -> None:
    """Train on all processes together; rank 0 prints, keeps checkpoints and writes the model folder.

    Raises:
        InputError: a field, a file or a folder that cannot be, a loss that is no number.
    """
    watched = plan.is_watched(config, folders)
    recipe = load_recipe(config.recipe, parse_options(config.recipe_options, "recipe"))
    strategy_class, options = load_strategy(config.strategy, parse_options(config.strategy_options, "strategy"))
    dataset, validation = plan.open_data(config, folders, recipe, process)
    if process.is_main:
        folders.refuse_unwritable()
    order = plan.build_order(config, dataset)
    schedule = plan.build_schedule(config, order.steps_per_epoch)

    identity = training_identity(dataset, recipe, folders.weights, process)
    with open_checkpoints(config, folders, identity, process) as checkpoints:
        seed_everything(config.seed)
        model = build_model(recipe)
        told = load_weights(model, folders.weights) if folders.weights else []
        strategy = strategy_class(recipe, model, process, plan.common_options(config), options)
        layout, optimizer = strategy.layout, strategy.optimizer
        seeds = StepSeeds(process.device, config.seed, layout.data_rank)
        losses, watch = RunningLoss(process), Watch(config.monitor, config.early_stopping)
        step, consumed = 0, 0
        history: History = []
        best: dict[str, Tensor] = {}  # this rank's parts of the best model
        saved = None
        if checkpoints:

            def check(values: dict[str, Any]) -> None:
                refuse_changes(values["config"], config, checkpoints.place.uri)
                refuse_shorter(values["step"], schedule.total_steps, checkpoints.place.uri)

            saved = checkpoints.load_newest(strategy, best=best, check=check)
        if saved:
            step, consumed, history = saved["step"], saved["consumed"], saved["history"]
            watch.load_state(saved["watch"])
            losses.load_state(saved["losses"])
        finished = watch.gives_up or step == schedule.total_steps
        if validation and not finished:  # what is wrong with the metrics is known before an epoch is spent
            with kept_generators(process.device):  # which a training that was not interrupted would not have asked here
                measured = validate(strategy, validation, num_rows=VALIDATION_BATCH)
            if watched:
                watch.check(measured)
        end = consumed if finished else plan.samples_until(schedule.total_steps, order)

        with (
            Journal(
                process, folders.output, folders.tensorboard, epochs=config.epochs, total_steps=schedule.total_steps
            ) as journal,
            Profile(process, folders.output, config.profile) as profile,
            plan.open_loader(config, dataset, order, strategy, consumed, end) as batches,
        ):
            journal.say(*layout.describe(), *([] if saved else told))
            journal.begin(step, consumed, history)
            strategy.model.train()
            for given in batches:
                epoch = consumed // order.num_samples
                if consumed % order.num_samples == 0:
                    losses.start_epoch()
                step, consumed = step + 1, consumed + given.num_global_samples
                ends_epoch, ends = consumed % order.num_samples == 0, step == schedule.total_steps
                validates = ends or (step % config.validate_every == 0 if config.validate_every else ends_epoch)
                reports = validates or step % config.log_every == 0

                learning_rate = schedule.apply(optimizer, step - 1)
                seeds.start(step)
                taken = strategy.train_step(
                    given.batch.to(process.device, strategy.precision.parameters),
                    num_samples=given.num_samples,
                    num_global_samples=given.num_global_samples,
                    measure=reports,
                )
                losses.add(taken.loss, given.num_global_samples)
                if step == 1:
                    refuse_infinite_loss(taken.loss, process)
                profile.step()
                beat()

                if reports:
                    metrics = {"train_loss": losses.of_epoch() if validates else losses.since_last()}
                    if validates and validation:
                        metrics |= validate(strategy, validation)
                    norm = None if taken.gradient_norm is None else float(taken.gradient_norm)
                    journal.progress(epoch, step, consumed, metrics, learning_rate=learning_rate, gradient_norm=norm)
                    refuse_divergence(metrics, epoch, step)
                    if validates:
                        history.append({"epoch": epoch + 1, "step": step, **metrics})
                        if watched and watch.improves(step, metrics) and config.keep_best:
                            best = model_parts(strategy)
                        ends = ends or watch.gives_up
                if checkpoints and (ends_epoch or ends):
                    refuse_divergence({"train_loss": losses.of_epoch()}, epoch, step)  # perhaps no report was due since
                    values = {
                        "step": step,
                        "consumed": consumed,
                        "history": history,
                        "losses": losses.state(),
                        "watch": watch.state(),
                        "config": asdict(config),
                        "world_size": process.world_size,
                    }
                    measured = history[-1] if history else {}
                    checkpoints.save(step, values, strategy, best=best, metrics=measured, finished=ends)
                if validates or ends_epoch:
                    journal.resume_pace(consumed)
                if ends:
                    break
            if watch.gives_up:
                journal.say(watch.describe())

        weights = state.gather(strategy, best) if best else state.gather_model(strategy)
        if process.is_main:
            save_result(config, folders, process, dataset, weights, history, watch)


def open_checkpoints(
    config: Config, folders: Folders, identity: str, process: Process
) -> AbstractContextManager[Checkpointer | None]:
    """The checkpoints of this training, locked against a second run; None where it keeps none."""
    if folders.checkpoints is None:
        return nullcontext()
    say = partial(print, flush=True)
    return Checkpointer(
        open_place(folders.checkpoints / identity), process, options=CheckpointOptions(seed=config.seed), say=say
    )


def validate(strategy: Strategy, validation: Dataset, *, num_rows: int | None = None) -> dict[str, float]:
    """The means over the validation data (its first `num_rows`), on all ranks together, as `validation_<metric>`."""
    strategy.model.eval()
    with strategy.in_evaluation():
        result = evaluate(
            strategy.forward,
            validation,
            strategy.layout,
            batch_size=VALIDATION_BATCH,
            dtype=strategy.precision.parameters,
            num_rows=num_rows,
        )
    strategy.model.train()
    return {f"validation_{name}": value for name, value in result.means.items()}


def main() -> None:
    die_with_parent(signal.SIGKILL)

    def program() -> None:
        given: dict[str, Any] = vars(parser("python -m drivetrain.training_scripts.train", __doc__).parse_args())
        folders = Folders(**{field.name: given.pop(field.name) for field in fields(Folders)})
        config = Config(**given)
        with join_group(config.collective_timeout) as process:
            train(config, folders, process)

    run_rank(program)


if __name__ == "__main__":
    main()
