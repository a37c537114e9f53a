"""Train a recipe on data.

    python -m drivetrain.training_scripts.train --train build/train --model build/model --recipe digits_cnn
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.train --train build/train ...

A restarted run goes on from its newest checkpoint. The same training gives the same model, byte for byte.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn

from drivetrain.base.errors import InputError
from drivetrain.base.json_options import parse_options
from drivetrain.registry.model_package import CONTINUES
from drivetrain.training.checkpointing.store.retention import watched as watched_before
from drivetrain.training.class_weights import weigh_classes
from drivetrain.training.config import Config, Folders, parser
from drivetrain.training.continuation import STATE, Continuation, read_continuation
from drivetrain.training.health.monitor import Health
from drivetrain.training.health.opening import open_health
from drivetrain.training.health.rule import Finding
from drivetrain.training.input_pipeline.chunks import Step
from drivetrain.training.input_pipeline.cursor import Order
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.launch.processes.parent import die_with_parent
from drivetrain.training.loop import setup
from drivetrain.training.loop.continuing import Start, find_start, load_start
from drivetrain.training.loop.divergence import refuse_divergence, refuse_infinite_loss
from drivetrain.training.loop.identity import Identity, training_identity
from drivetrain.training.loop.journal import Journal
from drivetrain.training.loop.profiling import Profile
from drivetrain.training.loop.result import HISTORY_FILE, History, describe, save_result
from drivetrain.training.loop.resumption import find_training
from drivetrain.training.loop.running_loss import RunningLoss
from drivetrain.training.loop.saving import Saving
from drivetrain.training.loop.schedule import Schedules, schedules_of
from drivetrain.training.loop.validation import VALIDATION_BATCH, validate
from drivetrain.training.loop.watch import PREFIX, Watch
from drivetrain.training.metric import Amount
from drivetrain.training.process import Process, join_group
from drivetrain.training.recipe import HasFolder, direction, load_recipe
from drivetrain.training.strategy import Strategy, joining_of, load_strategy, refuse_other_framework

__all__ = ["HISTORY_FILE", "Config", "Folders", "main", "train"]


def train(config: Config, folders: Folders, process: Process) -> None:
    """Train on all processes together; rank 0 prints, keeps checkpoints and writes the model folder.

    Raises:
        InputError: a field, a file or a folder that cannot be, a loss that is no number.
        StoppedError: by SIGTERM, after all ranks have saved the same step.
    """
    watched = setup.is_watched(config, folders)
    refuse_other_framework(config.recipe, config.strategy)
    recipe = load_recipe(config.recipe, parse_options(config.recipe_options, "recipe_options"))
    given = read_continuation(folders.continue_from) if folders.continue_from else Continuation()
    weights = folders.weights if given.state or given.model is None else given.model
    if isinstance(recipe, HasFolder) and weights:
        recipe = recipe.started_from(weights)
    strategy_class, options = load_strategy(config.strategy, parse_options(config.strategy_options, "strategy_options"))
    framework = strategy_class.framework
    strategy_class.set_up(process, options)
    dataset, validation = setup.open_data(config, folders, recipe, process)
    if process.is_main:
        folders.refuse_unwritable()
    order = setup.build_order(config, dataset)
    schedule = schedules_of(recipe, setup.build_schedule(config, order.steps_per_epoch))

    identity = training_identity(config, dataset, recipe, weights, process)
    identity = replace(identity, continues=given.about.get("content_hash", ""))
    start = find_start(given, identity)
    identity, total_steps = replace(identity, first_step=start.first_step), start.first_step + schedule.total_steps
    earlier = find_training(folders.checkpoints, identity, total_steps, process)
    higher_is_better = direction(recipe, config.monitor.removeprefix(PREFIX))
    journal = Journal(process, folders.output, folders.tensorboard, epochs=config.epochs, total_steps=total_steps)
    greater = bool(higher_is_better)  # if unknown, `watch.check` refuses to choose
    with Saving(config, earlier.place, process, greater_is_better=greater, say=journal.say) as saving:
        framework.seed_everything(config.seed)
        model = framework.build_model(recipe)
        about_weights = framework.load_weights(model, weights) if weights and not isinstance(recipe, HasFolder) else []
        weighing = weigh_classes(recipe, dataset) if config.class_weights == "balanced" else recipe
        strategy = strategy_class(weighing, model, process, config, options)
        state = State(
            losses=RunningLoss(process, on_host=framework.device_kind(process.device) == "cpu"),
            watch=Watch(config.monitor, config.early_stopping, higher_is_better=higher_is_better),
        )
        health = open_health(config, strategy, process, folders.output, journal, recipe)
        training = Training(
            config=config,
            process=process,
            strategy=strategy,
            dataset=dataset,
            validation=validation,
            order=order,
            schedule=schedule,
            start=start,
            identity=identity,
            watched=watched,
            journal=journal,
            saving=saving,
            health=health,
            state=state,
        )

        journal.say(*earlier.lines)
        saved = saving.load_newest(strategy, best=state.best)
        if folders.continue_from and not saved:
            journal.say(f"starts from: {start.line(total_steps, config.epochs)}")
            state.step = start.step
            saved = load_start(start, strategy, state.best, process, config.seed, journal.say)
        else:
            journal.say(f"starts from: {earlier.starts(saved['step'] if saved else 0)}")
        if saved:
            state.load(saved, config)
            health.load_state(saved)
        finished = state.watch.gives_up or (state.step >= total_steps and not state.pending_report)
        if validation and not finished:
            training.try_validation(validation)
        end = state.consumed if finished else setup.samples_until(schedule.total_steps, order)

        with (
            journal,
            health,
            Profile(framework, process, folders.output, config.profile) as profile,
            setup.open_loader(config, dataset, order, strategy, state.consumed, end) as batches,
        ):
            journal.say(*strategy.layout.describe(), *([] if saved else about_weights))
            journal.begin(state.step, state.consumed, state.history)
            strategy.set_training(True)
            saving.begin(state.step)
            health.begin(state.step)
            # A step that an earlier start took, and was stopped before its report.
            ended = bool(state.pending_report) and training.after_step(training.position())
            for batch in health.timed(() if ended else batches):
                at = training.take_step(batch)
                profile.step()
                beat()
                if training.after_step(at):
                    break
            if state.watch.gives_up:
                journal.say(state.watch.describe())
            health.finish()

        weights = framework.gather(strategy, state.best) if state.best else framework.gather_model(strategy)
        if process.is_main:
            about = {**health.about_model(), **training.about}
            save_result(framework, config, folders, process, dataset, weights, state.history, state.watch, about)
        if folders.continue_from:
            saving.publish(folders.model / STATE, start.place)
        if process.is_main:
            earlier.end()


@dataclass(kw_only=True)
class Training:
    """One rank's training: it takes steps, and does what comes after each. `state` alone changes."""

    config: Config
    process: Process
    strategy: Strategy
    dataset: Dataset
    validation: Dataset | None
    order: Order
    schedule: Schedules
    start: Start
    identity: Identity
    watched: bool
    journal: Journal
    saving: Saving
    health: Health
    state: State
    values: dict[str, Amount] = field(default_factory=dict[str, Amount])
    """The kinds of the recipe's own metrics: the first validation finds out."""

    def __post_init__(self) -> None:
        framework, device = self.strategy.framework, self.process.device
        self._seeds = framework.step_seeds(device, self.config.seed, self.strategy.layout.data_rank)
        self._on_host = framework.device_kind(device) == "cpu"
        self._first_step = self.start.first_step
        self._total_steps = self._first_step + self.schedule.total_steps

    @property
    def about(self) -> dict[str, Any]:
        """The part of model.json about the training's start."""
        return {CONTINUES: self.start.about} if self.start.about else {}

    def position(self) -> setup.Position:
        """The position of the training after the steps that it has taken, at least one."""
        config, step, consumed = self.config, self.state.step, self.state.consumed
        ends_epoch, ends = consumed % self.order.num_samples == 0, step == self._total_steps
        validates = ends or (step % config.validate_every == 0 if config.validate_every else ends_epoch)
        reports = validates or step % config.log_every == 0
        return setup.Position((consumed - 1) // self.order.num_samples, ends_epoch, ends, validates, reports)

    def take_step(self, batch: Step) -> setup.Position:
        """Consume a global batch; this rank has its part of it."""
        state, strategy = self.state, self.strategy
        if state.consumed % self.order.num_samples == 0:
            state.losses.start_epoch()
        state.step, state.consumed = state.step + 1, state.consumed + batch.num_global_samples
        at = self.position()
        factor, *others = self.schedule.factors(state.step - 1 - self._first_step)
        learning_rate = strategy.set_learning_rate(factor, *others)
        self._seeds.start(state.step)
        if state.step >= self.health.due:
            self.health.before_step(state.step)
        taken = strategy.train_step(
            strategy.on_device(batch.batch),
            num_samples=batch.num_samples,
            num_global_samples=batch.num_global_samples,
            measure=at.reports,
        )
        # Read once: each look at a scalar costs as much as a call. (On a GPU it would wait, and the sum stays there.)
        loss = float(taken.loss) if self._on_host else taken.loss
        self.health.took(
            state.step,
            loss,
            batch.batch,
            consumed=state.consumed,
            num_samples=batch.num_samples,
            weight=batch.num_global_samples if taken.weight is None else taken.weight,
            learning_rate=learning_rate,
            factor=factor,
        )
        state.losses.add(loss, batch.num_global_samples, taken.weight)
        if state.step == self._first_step + 1:
            refuse_infinite_loss(float(loss), self.process, self.health.why_not_finite)
        state.pending_report = None
        if at.reports:
            norm = None if taken.gradient_norm is None else float(taken.gradient_norm)
            state.pending_report = {"learning_rate": learning_rate, "gradient_norm": norm}
        return at

    def after_step(self, at: setup.Position) -> bool:
        """Report, validate and save, each where it is due; whether the training ends here.

        Raises:
            StoppedError: all ranks were told to stop, and have saved.
        """
        state, saving = self.state, self.saving
        saving.took(state.step, at)
        if self.health.stops:
            self.stop_unhealthy(at, self.health.stops)
        if state.pending_report and not (at.validates and saving.stops):  # else the next start validates first
            self.report(at, state.pending_report)
        ends = (at.ends or state.watch.gives_up) and not state.pending_report
        if (saving.is_due or ends) and saving.keeps:
            with self.health.phase("save"):
                self.save(at, finished=ends)
        if at.validates or at.ends_epoch:
            self.journal.resume_pace(state.consumed)
        if saving.stops and not ends:
            saving.leave(state.step)
        return ends

    def report(self, at: setup.Position, about_step: Mapping[str, Any]) -> None:
        """Write down the loss since the last report, and the validation that is due; one that is broken off, because
        all ranks are to stop, leaves the report pending."""
        state = self.state
        metrics = {"train_loss": state.losses.of_epoch() if at.validates else state.losses.since_last()}
        if at.validates and self.validation:
            # First: the validation data would be blamed for weights that are no numbers any more. (In fp16 the step is
            # skipped; a length without a bound can be cut.)
            norm = about_step["gradient_norm"]
            spoils = norm is not None and math.isnan(norm) and self.config.precision != "fp16"
            known = {**metrics, "gradient_norm": norm} if spoils else metrics
            refuse_divergence(known, at.epoch, state.step, self.health.why_not_finite)
            breaks_off = self.saving.evaluated
            with self.health.phase("validation"):
                measured = validate(self.strategy, self.validation, values=self.values, breaks_off=breaks_off)
            self.saving.validated()
            if not measured:
                return
            metrics |= measured
        state.losses.mark()
        self.journal.progress(at.epoch, state.step, state.consumed, metrics, **about_step)
        refuse_divergence(metrics, at.epoch, state.step, self.health.why_not_finite)
        state.pending_report = None
        if at.validates:
            state.history.append({"epoch": at.epoch + 1, "step": state.step, **metrics})
            self.health.validated(state.step, metrics)
            if self.watched and state.watch.improves(state.step, metrics) and self.config.keep_best:
                state.best = self.strategy.framework.model_parts(self.strategy)

    def save(self, at: setup.Position, *, finished: bool) -> None:
        """Begin a checkpoint: everything that a later start goes on from."""
        state = self.state
        loss, why = state.losses.of_epoch(), self.health.why_not_finite
        refuse_divergence({"train_loss": loss}, at.epoch, state.step, why)  # perhaps none was due since
        values = {
            "step": state.step,
            "epoch": at.epoch + 1,
            "consumed": state.consumed,
            "history": state.history,
            "owed": state.pending_report,
            "losses": state.losses.state(),
            "watch": state.watch.state(),
            **self.health.state(),
            "config": self.identity.saved,
            "world_size": self.process.world_size,
            "description": describe(
                self.strategy.framework,
                self.config,
                self.process,
                self.dataset,
                state.history,
                state.watch,
                steps=state.step,
            )
            | self.about,
        }
        validated = state.history[-1] if state.history and state.history[-1]["step"] == state.step else {}
        self.saving.save(state.step, values, self.strategy, best=state.best, metrics=validated, finished=finished)

    def stop_unhealthy(self, at: setup.Position, finding: Finding) -> NoReturn:
        """End the training because of a health rule, on all ranks after the same step.

        Raises:
            InputError: always.
        """
        saved = ""
        if self.saving.keeps and not finding.spoils:
            self.save(at, finished=False)
            saved = ", which is saved"
        raise InputError(f"stopped at step {self.state.step}{saved}, by the health rule {finding.describe()}")

    def try_validation(self, validation: Dataset) -> None:
        """Validate a few rows before the first step: what is wrong with the metrics is known before an epoch is spent.

        Raises:
            InputError: the metric that is watched is not among them, or nothing says which way it is better.
        """
        # (Which a training that was not interrupted would not have asked here.)
        with self.strategy.framework.kept_generators(self.process.device):
            measured = validate(self.strategy, validation, values=self.values, num_rows=VALIDATION_BATCH)
        if self.watched:
            self.state.watch.check(measured)


@dataclass(kw_only=True)
class State:
    """The state of a training that a checkpoint keeps beside the strategy's tensors.

    Attributes:
        step: the steps taken.
        consumed: the samples consumed, which is the data cursor.
        history: a row for each validation.
        pending_report: learning rate and gradient norm of the last step, while its report is still to be written.
        losses: the training loss since the last report, and of the epoch.
        watch: the best validation so far.
        best: this rank's parts of the best model, where it is kept.
    """

    losses: RunningLoss
    watch: Watch
    step: int = 0
    consumed: int = 0
    history: History = field(default_factory=list[dict[str, Any]])
    pending_report: dict[str, Any] | None = None
    best: dict[str, Any] = field(default_factory=dict[str, Any])

    def load(self, saved: Mapping[str, Any], config: Config) -> None:
        """Go on from what `Training.save` wrote; `best` is loaded already."""
        self.step, self.consumed, self.history = saved["step"], saved["consumed"], saved["history"]
        self.pending_report = saved["owed"]
        self.losses.load_state(saved["losses"])
        kept = saved["config"].get("keep_best") == config.keep_best
        if kept and watched_before(saved) == (config.monitor, self.watch.higher_is_better):
            self.watch.load_state(saved["watch"])
        else:  # what was best by another metric or the other way round, or was not kept
            self.best.clear()


def main() -> None:
    die_with_parent(signal.SIGKILL)

    def program() -> None:
        given: dict[str, Any] = vars(parser(__doc__).parse_args())
        folders = Folders(**{field.name: given.pop(field.name) for field in fields(Folders)})
        config = Config(**given)
        with join_group(config.collective_timeout, *joining_of(config.strategy)) as process:
            train(config, folders, process)

    run_rank(program)


if __name__ == "__main__":
    main()
