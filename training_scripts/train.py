"""Train a recipe on data.

    python -m drivetrain.training_scripts.train --train build/train --model build/model --recipe digits_cnn
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.train --train build/train ...

A restarted run goes on from its newest checkpoint. The same training gives the same model, byte for byte.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import fields
from itertools import chain
from typing import Any

from torch import Tensor

from drivetrain.training.checkpointing.store.retention import watched as watched_before
from drivetrain.training.checkpointing.tensors.generators import kept_generators
from drivetrain.training.checkpointing.tensors.tensors import model_parts
from drivetrain.training.evaluation.run import evaluate
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.launch.processes.parent import die_with_parent
from drivetrain.training.loop import setup
from drivetrain.training.loop.command_line import parser
from drivetrain.training.loop.config import Config, Folders
from drivetrain.training.loop.divergence import refuse_divergence, refuse_infinite_loss
from drivetrain.training.loop.identity import training_identity
from drivetrain.training.loop.journal import Journal
from drivetrain.training.loop.profiling import Profile
from drivetrain.training.loop.result import HISTORY_FILE, History, describe, save_result
from drivetrain.training.loop.resumption import find_training
from drivetrain.training.loop.running_loss import RunningLoss
from drivetrain.training.loop.saving import Saving
from drivetrain.training.loop.seeding import StepSeeds, seed_everything
from drivetrain.training.loop.watch import PREFIX, Watch
from drivetrain.training.metric import Amount
from drivetrain.training.options import parse_options
from drivetrain.training.process import Process, join_group
from drivetrain.training.recipe import build_model, direction, load_recipe
from drivetrain.training.strategy import Strategy, load_strategy
from drivetrain.training.torch import state
from drivetrain.training.torch.models.weights import load_weights

VALIDATION_BATCH = 512

__all__ = ["HISTORY_FILE", "Config", "Folders", "main", "train"]


def train(config: Config, folders: Folders, process: Process) -> None:
    """Train on all processes together; rank 0 prints, keeps checkpoints and writes the model folder.

    Raises:
        InputError: a field, a file or a folder that cannot be, a loss that is no number, another training in the way.
        StoppedError: by SIGTERM, after all ranks have saved the same step.
    """
    watched = setup.is_watched(config, folders)
    recipe = load_recipe(config.recipe, parse_options(config.recipe_options, "recipe"))
    strategy_class, options = load_strategy(config.strategy, parse_options(config.strategy_options, "strategy"))
    dataset, validation = setup.open_data(config, folders, recipe, process)
    if process.is_main:
        folders.refuse_unwritable()
    order = setup.build_order(config, dataset)
    schedule = setup.build_schedule(config, order.steps_per_epoch)

    identity = training_identity(config, dataset, recipe, folders.weights, process)
    training = find_training(folders.checkpoints, identity, config, schedule.total_steps, process)
    higher_is_better = direction(recipe, config.monitor.removeprefix(PREFIX))
    journal = Journal(
        process, folders.output, folders.tensorboard, epochs=config.epochs, total_steps=schedule.total_steps
    )
    greater = bool(higher_is_better)  # (where nobody knows, `watch.check` refuses to choose)
    with Saving(config, training.place, process, greater_is_better=greater, say=journal.say) as saving:
        seed_everything(config.seed)
        model = build_model(recipe)
        told = load_weights(model, folders.weights) if folders.weights else []
        strategy = strategy_class(recipe, model, process, setup.common_options(config), options)
        layout, optimizer = strategy.layout, strategy.optimizer
        seeds = StepSeeds(process.device, config.seed, layout.data_rank)
        losses = RunningLoss(process)
        watch = Watch(config.monitor, config.early_stopping, higher_is_better=higher_is_better)
        step, consumed = 0, 0
        history: History = []
        best: dict[str, Tensor] = {}  # this rank's parts of the best model
        owed: dict[str, Any] | None = None  # what there is still to report of the last step
        values: dict[str, Amount] = {}  # of the recipe's own metrics

        journal.say(*training.lines)
        saved = saving.load_newest(strategy, best=best, check=training.check)
        if saved:
            step, consumed, history, owed = saved["step"], saved["consumed"], saved["history"], saved["owed"]
            losses.load_state(saved["losses"])
            kept = saved["config"].get("keep_best") == config.keep_best
            if kept and watched_before(saved) == (config.monitor, higher_is_better):
                watch.load_state(saved["watch"])
            else:  # what was best by another metric or the other way round, or was not kept
                best.clear()
        finished = watch.gives_up or (step == schedule.total_steps and not owed)
        if validation and not finished:  # what is wrong with the metrics is known before an epoch is spent
            with kept_generators(process.device):  # which a training that was not interrupted would not have asked here
                measured = validate(strategy, validation, values=values, num_rows=VALIDATION_BATCH)
            if watched:
                watch.check(measured)
        end = consumed if finished else setup.samples_until(schedule.total_steps, order)

        with (
            journal,
            Profile(process, folders.output, config.profile) as profile,
            setup.open_loader(config, dataset, order, strategy, consumed, end) as batches,
        ):
            journal.say(*layout.describe(), *([] if saved else told))
            journal.begin(step, consumed, history)
            strategy.model.train()
            saving.begin(step)
            for given in chain([None] if owed else [], batches):
                if given and consumed % order.num_samples == 0:
                    losses.start_epoch()
                if given:
                    step, consumed = step + 1, consumed + given.num_global_samples
                at = setup.position(config, order, step, consumed, schedule.total_steps)
                if given:
                    learning_rate = schedule.apply(optimizer, step - 1)
                    seeds.start(step)
                    taken = strategy.train_step(
                        given.batch.to(process.device, strategy.precision.parameters),
                        num_samples=given.num_samples,
                        num_global_samples=given.num_global_samples,
                        measure=at.reports,
                    )
                    losses.add(taken.loss, given.num_global_samples, taken.weight)
                    if step == 1:
                        refuse_infinite_loss(taken.loss, process)
                    profile.step()
                    beat()
                    norm = None if taken.gradient_norm is None else float(taken.gradient_norm)
                    owed = {"learning_rate": learning_rate, "gradient_norm": norm} if at.reports else None
                saving.took(step, at)

                metrics: dict[str, float] = {}
                if owed and not (at.validates and saving.stops):
                    metrics = {"train_loss": losses.of_epoch() if at.validates else losses.since_last()}
                    if at.validates and validation:
                        measured = validate(strategy, validation, values=values, breaks_off=saving.evaluated)
                        saving.validated()
                        metrics = {**metrics, **measured} if measured else {}
                if owed and metrics:  # else the next start validates before it takes a step
                    losses.mark()
                    journal.progress(at.epoch, step, consumed, metrics, **owed)
                    refuse_divergence(metrics, at.epoch, step)
                    owed = None
                    if at.validates:
                        history.append({"epoch": at.epoch + 1, "step": step, **metrics})
                        if watched and watch.improves(step, metrics) and config.keep_best:
                            best = model_parts(strategy)
                ends = (at.ends or watch.gives_up) and not owed
                if saving.keeps and (saving.is_due or ends):
                    refuse_divergence({"train_loss": losses.of_epoch()}, at.epoch, step)  # perhaps none was due since
                    state_after_step = {
                        "step": step,
                        "epoch": at.epoch + 1,
                        "consumed": consumed,
                        "history": history,
                        "owed": owed,
                        "losses": losses.state(),
                        "watch": watch.state(),
                        "config": identity.saved,
                        "world_size": process.world_size,
                        "description": describe(config, process, dataset, history, watch, steps=step),
                    }
                    validated = history[-1] if history and history[-1]["step"] == step else {}
                    saving.save(step, state_after_step, strategy, best=best, metrics=validated, finished=ends)
                if at.validates or at.ends_epoch:
                    journal.resume_pace(consumed)
                if ends:
                    break
                if saving.stops:
                    saving.leave(step)
            if watch.gives_up:
                journal.say(watch.describe())

        weights = state.gather(strategy, best) if best else state.gather_model(strategy)
        if process.is_main:
            save_result(config, folders, process, dataset, weights, history, watch)


class BrokenOffError(Exception):
    """A validation ends before its end, on all ranks after the same batch."""


def validate(
    strategy: Strategy,
    validation: Dataset,
    *,
    values: dict[str, Amount],
    num_rows: int | None = None,
    breaks_off: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """The means over the validation data (its first `num_rows`), on all ranks together, as `validation_<metric>`; none
    where `breaks_off`, which is asked before each batch, says so on all ranks.

    Args:
        values: what the recipe's own metrics are, which the first validation finds out for those that follow.
    """

    def forward(inputs: Tensor) -> Tensor | None:
        if breaks_off():
            raise BrokenOffError
        return strategy.forward(inputs)

    strategy.model.eval()
    try:
        with strategy.in_evaluation():
            result = evaluate(
                forward,
                validation,
                strategy.layout,
                batch_size=VALIDATION_BATCH,
                dtype=strategy.precision.parameters,
                num_rows=num_rows,
                values=values or None,
            )
    except BrokenOffError:
        return {}
    finally:
        strategy.model.train()
    values.update(result.values)
    return {f"{PREFIX}{name}": value for name, value in result.means.items()}


def main() -> None:
    die_with_parent(signal.SIGKILL)

    def program() -> None:
        given: dict[str, Any] = vars(parser(__doc__).parse_args())
        folders = Folders(**{field.name: given.pop(field.name) for field in fields(Folders)})
        config = Config(**given)
        with join_group(config.collective_timeout) as process:
            train(config, folders, process)

    run_rank(program)


if __name__ == "__main__":
    main()
