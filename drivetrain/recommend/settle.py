"""Settle what compiling decides by a recipe's facts: `strategy: auto`, and memory.

    pipeline with strategy='auto' -> the same pipeline with the strategy that was chosen, visible in the definition

Memory is checked where facts are: those of the shipped recipes as they are, and those in a file beside the pipeline.
Who has written such a file wants the check, so there a stale one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drivetrain.base.degrees import World, fill
from drivetrain.base.errors import SpecError, UserError
from drivetrain.base.json_options import parse_options
from drivetrain.base.records import dataclass
from drivetrain.catalog.instances import GIB, get_instance
from drivetrain.catalog.strategies import (
    AUTO,
    TORCH,
    all_strategies,
    framework_of_recipe,
    read_strategy,
    recipe_file,
)
from drivetrain.recommend.choice import check_fits, recommend
from drivetrain.recommend.facts import Facts, FactsError
from drivetrain.recommend.facts_places import beside, look_up
from drivetrain.recommend.memory import stages_of_a_rank
from drivetrain.recommend.sizing import DEFAULT_MICRO_BATCHES_A_STAGE, Candidate, Sizing
from drivetrain.spec.pipeline import Pipeline, replaced
from drivetrain.spec.steps import Step, TrainingStep, is_our_training
from drivetrain.spec.trainings import Training, trainings, ways

# Between SIGTERM and SIGKILL the service leaves 120 s; the launcher gives ranks this many of them.
STOP_SECONDS = 90
# A slow disk: what is assumed of an instance type whose checkpoints folder nobody has measured.
ASSUMED_BYTES_PER_SECOND = 100e6
# Assumed times below this are not worth a word: a tenth of the real speed would still do.
WORTH_SAYING_SECONDS = STOP_SECONDS / 10


@dataclass(frozen=True)
class Settled:
    """A pipeline without `auto`, and messages for the user who deploys it."""

    pipeline: Pipeline
    notes: tuple[str, ...] = ()


def settle(pipeline: Pipeline, folder: Path) -> Settled:
    """Replace `auto` by the strategy that fits, and hold the others against the memory.

    Args:
        pipeline: the spec; it is left as it is.
        folder: that of the pipeline's file, where facts and recipes of the user's own lie.

    Raises:
        SpecError: no strategy fits, the model is too large for the given strategy, or facts are missing or stale. The
            message names the step and what to do.
    """
    if next(trainings(pipeline), None) is None:
        return Settled(pipeline)
    settler = _Settler(pipeline, folder)
    steps = replaced(pipeline.steps, lambda step: (settler.settled(step),))
    # The spec's own: what changed are two texts of a training step, which the rules have no more to say about.
    return Settled(Pipeline.model_copy(pipeline, update={"steps": steps}), tuple(dict.fromkeys(settler.notes)))


class _Settler:
    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self.pipeline = pipeline
        self.folder = folder
        self.notes: list[str] = []

    def settled(self, step: Step) -> Step:
        if not is_our_training(step):
            return step
        found = list(ways(step, self.pipeline.parameters))
        for training in found:
            with _blamed(training):
                _check_recipe(training, self.folder)
        if found[0].strategy == AUTO:
            return self._chosen(step, found)
        for training in found:
            self._check_memory(training)
        return step

    def _chosen(self, step: TrainingStep, found: Sequence[Training]) -> Step:
        choices: dict[tuple[str, str], Training] = {}
        for training in found:
            with _blamed(training):
                facts = self._facts(training)
                if facts is None or training.number("global_batch") is None:
                    raise UserError(
                        "strategy 'auto' must know recipe, recipe_options and global_batch when the pipeline is "
                        "compiled. Give them as values, or as pipeline parameters with a default."
                    )
                plan = plan_of(training, facts)
                if plan is None:
                    raise UserError(
                        "strategy 'auto' must know the instance type and the number of hosts and processes when the "
                        "pipeline is compiled. Give them as values, or as pipeline parameters with a default."
                    )
                made = recommend(plan, all_strategies(framework=TORCH))
                if made.choice is None:
                    raise UserError(f"strategy 'auto': {made.reason}")
            choices.setdefault((made.choice.strategy, json.dumps(made.options)), training)
            self._note_save_time(training, facts)
        if len(choices) > 1:
            differing = "; ".join(f"{training.where}: {name}" for (name, _), training in choices.items())
            raise SpecError(
                f"Step {step.name!r}: strategy 'auto' would choose differently by pipeline parameter ({differing}). "
                "Name the strategy, or give the value in the settings."
            )
        (strategy, options), _ = next(iter(choices.items()))
        return step.model_copy(
            update={"parameters": {**step.parameters, "strategy": strategy, "strategy_options": options}}
        )

    def _check_memory(self, training: Training) -> None:
        recipe, strategy, text = training.text("recipe"), training.strategy, training.text("strategy_options")
        if recipe is None or strategy is None or strategy == AUTO or text is None:
            return
        if read_strategy(strategy).framework != TORCH:
            return  # what recipes need is measured for torch
        with _blamed(training):
            try:
                facts = self._facts(training)
            except FactsError:
                if beside(recipe, self.folder).is_file():
                    raise
                return  # this recipe was not measured, and the user did not ask for a check
            plan = None if facts is None else plan_of(training, facts)
            if facts is None or plan is None:
                return
            candidate = named_candidate(strategy, text, plan.world)
            check_model(facts, candidate)
            check_fits(plan, read_strategy(strategy), candidate)
        self._note_save_time(training, facts)

    def _facts(self, training: Training) -> Facts | None:
        recipe, options = training.text("recipe"), training.text("recipe_options")
        if recipe is None or options is None:
            return None
        return look_up(recipe, parse_options(options, "recipe_options"), self.folder)

    def _note_save_time(self, training: Training, facts: Facts) -> None:
        instance = training.text("instance_type")
        if training.step.cluster.spot is None or instance is None:
            return
        if note := save_time_note(facts, instance):
            self.notes.append(f"{training.where}: {note}")


def save_time_note(facts: Facts, instance: str) -> str | None:
    """A warning where saving may take longer than a stopped spot machine allows; marked *assumed* where the speed was
    not measured on that instance. Never a refusal."""
    measured = facts.checkpoint_bytes_per_second.get(instance)
    seconds = facts.checkpoint_bytes / (measured or ASSUMED_BYTES_PER_SECOND)
    size = f"a checkpoint of {facts.checkpoint_bytes / GIB:.1f} GiB takes about {seconds:.0f} s to save"
    if measured is None:
        if seconds < WORTH_SAYING_SECONDS:
            return None
        return (
            f"{size} at 100 MB/s (*assumed*: not measured on {instance}); a spot machine that is taken back leaves "
            f"{STOP_SECONDS} s. Measure it there: drivetrain recommend --recipe {facts.recipe} --instance {instance} "
            "--write --write-speed /opt/ml/checkpoints"
        )
    if seconds <= STOP_SECONDS:
        return None
    return (
        f"{size} at the {measured / 1e6:.0f} MB/s measured on {instance}, and a spot machine that is taken back leaves "
        f"{STOP_SECONDS} s: the steps since the checkpoint before would be lost. Save often, or shard the model."
    )


def named_candidate(name: str, options: str, world: World) -> Candidate:
    """A strategy as the user named it, with its options as a JSON text.

    Raises:
        UserError: degrees that the processes cannot be laid out in.
    """
    strategy = read_strategy(name)
    given: dict[str, Any] = {option.name: option.default for option in strategy.options.values()}
    given |= parse_options(options, "strategy_options")
    degrees = fill(name, strategy.dimensions, given, world)
    stages = degrees.get("stage", 1)
    default = DEFAULT_MICRO_BATCHES_A_STAGE * stages if stages > 1 else 1
    return Candidate(name, degrees, int(given.get("micro_batches") or default), given)


def check_model(facts: Facts, candidate: Candidate) -> None:
    """
    Raises:
        UserError: a pipeline of a model that cannot be cut into so many stages, sequences of one that cannot be split.
    """
    if "context" in candidate.degrees and not facts.has_context_plan:
        raise UserError(
            f"strategy {candidate.strategy!r} splits sequences, and recipe {facts.recipe!r} has no context_plan() that "
            "says how its model is split with them. Give it one, or choose another strategy."
        )
    stages = candidate.degree("stage") * stages_of_a_rank(candidate)
    if candidate.degree("stage") == 1:
        return
    if not facts.is_chain:
        raise UserError(
            f"strategy {candidate.strategy!r} cuts a model between its layers, and must know their order: the model of "
            f"recipe {facts.recipe!r} is no nn.Sequential. Choose a strategy without stages."
        )
    if stages > facts.most_stages:
        raise UserError(
            f"strategy {candidate.strategy!r}: {stages} stages, but the model of recipe {facts.recipe!r} has "
            f"{facts.most_stages} layers with parameters, and every stage needs one. Lower strategy_options' stage (or "
            "virtual)."
        )


def plan_of(training: Training, facts: Facts) -> Sizing | None:
    """The plan of a training; None where what it takes is known to the run alone, or the table lacks the instance.

    Raises:
        UserError: a value that cannot be.
    """
    instance, hosts = training.text("instance_type"), training.number("hosts")
    batch, processes, precision = training.number("global_batch"), training.processes, training.text("precision")
    accumulation = training.number("accumulation")
    if instance is None or hosts is None or batch is None or precision is None or accumulation is None:
        return None
    if training.strategy != AUTO and training.instance is None:
        return None  # a type that nothing is known of is nothing against a strategy that was named
    return Sizing(
        facts=facts,
        instance=get_instance(instance),
        hosts=hosts,
        processes=processes or 0,
        global_batch=batch,
        precision=precision,
        accumulation=accumulation,
        activation_checkpointing=bool(training.values["activation_checkpointing"]),
    )


@contextmanager
def _blamed(training: Training) -> Generator[None]:
    """Raise what is wrong with a training as an error of the spec, which names the step."""
    try:
        yield
    except UserError as error:
        raise SpecError(f"{training.where[:1].upper()}{training.where[1:]}: {error}") from None


def _check_recipe(training: Training, folder: Path) -> None:
    """
    Args:
        folder: of the user's pipeline, in which a recipe of their own may lie.

    Raises:
        UserError: the recipe is of another framework than the strategy; or nobody could choose a strategy for it.
    """
    recipe, strategy = training.text("recipe"), training.strategy
    source = recipe_file(recipe, folder) if recipe is not None else None
    if source is None or strategy is None:
        return
    own = framework_of_recipe(source)
    fitting = ", ".join(all_strategies(framework=own)) or "there is none"
    if strategy == AUTO:
        if own != TORCH:
            raise UserError(
                f"strategy 'auto' chooses by what recipes of torch were measured to need, and recipe {recipe!r} is of "
                f"{own}. Name a strategy of {own}: {fitting}."
            )
    elif (wanted := read_strategy(strategy).framework) != own:
        raise UserError(
            f"recipe {recipe!r} is of {own}, and strategy {strategy!r} of {wanted}. Choose a strategy of {own}: "
            f"{fitting}; or a recipe of {wanted}."
        )
