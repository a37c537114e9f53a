"""Rules about how a training is distributed: strategy, options, degrees, links, batches.

They hold for steps of drivetrain's own train component. What needs a recipe's facts or the image is looked at when the
pipeline is compiled (drivetrain.recommend.settle); the training program checks all of it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drivetrain.base.degrees import World, data_size, fill
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.catalog.json_options import parse_options, wrong_type
from drivetrain.catalog.strategies import (
    AUTO,
    DEFAULT_SCHEDULE,
    SINGLE_STAGE,
    THREADS,
    StrategyFacts,
    all_strategies,
    options_of_recipe,
    read_strategy,
    recipe_file,
    recipes_folder,
    refused_fields,
    strategy_names,
)
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.trainings import Training, trainings
from drivetrain.spec.values import ParameterRef

rule = RuleBook()


@rule
def strategies_exist(graph: Graph) -> Iterator[str]:
    known = None
    for training in trainings(graph.pipeline):
        if training.strategy is None:
            continue
        known = known or {*strategy_names(), AUTO}
        if training.strategy not in known:
            yield f"{training.where}: no strategy {training.strategy!r}. {did_you_mean(training.strategy, known)}"


@rule
def auto_is_settled_when_compiled(graph: Graph) -> Iterator[str]:
    for training in trainings(graph.pipeline):
        if training.strategy != AUTO:
            continue
        if isinstance(training.step.parameters["strategy"], ParameterRef):
            yield (
                f"{training.where}: strategy 'auto' is settled when the pipeline is compiled, so a pipeline parameter "
                "cannot bring it. Give strategy='auto' in the pipeline's code or settings."
            )
        elif training.text("strategy_options") not in ("{}", ""):
            yield (
                f"{training.where}: strategy_options say how one strategy works, but 'auto' chooses which. Leave them "
                "out, or name the strategy."
            )


@rule
def strategy_options_exist(graph: Graph) -> Iterator[str]:
    for training in trainings(graph.pipeline):
        text = training.text("strategy_options")
        if training.strategy in (None, AUTO) or text is None:
            continue
        assert training.strategy is not None
        try:
            given = parse_options(text, "strategy_options")
        except UserError as error:
            yield f"{training.where}: {error}"
            continue
        options = read_strategy(training.strategy).options
        for name, value in given.items():
            if name not in options:
                yield (
                    f"{training.where}: strategy {training.strategy!r} has no option {name!r}. "
                    f"{did_you_mean(name, options)}"
                )
            elif wanted := wrong_type(value, options[name].annotation):
                yield f"{training.where}: strategy {training.strategy!r}: {name}={value!r} should be of type {wanted}."
            elif allowed := options[name].refuses(value):
                yield f"{training.where}: strategy {training.strategy!r}: {name}={value!r}; allowed are {allowed}."


@rule
def recipe_options_exist(graph: Graph) -> Iterator[str]:
    for training in trainings(graph.pipeline):
        recipe, text = training.text("recipe"), training.text("recipe_options")
        path = recipe_file(recipe, recipes_folder()) if recipe and text else None
        options = options_of_recipe(path) if path else None
        if options is None or text is None:  # one of one's own: the training itself says what is wrong
            continue
        try:
            given = parse_options(text, "recipe_options")
        except UserError as error:
            yield f"{training.where}: {error}"
            continue
        for name in given:
            if name not in options:
                yield f"{training.where}: recipe {recipe!r} has no option {name!r}. {did_you_mean(name, options)}"


@rule
def fields_fit_the_framework(graph: Graph) -> Iterator[str]:
    known = None
    for training in trainings(graph.pipeline):
        known = known or {*strategy_names()}
        if training.strategy not in known:
            continue
        assert training.strategy is not None
        framework = read_strategy(training.strategy).framework
        for name, (without, advice) in refused_fields(framework).items():
            given = training.values[name]
            if given is not None and given != without:
                yield (
                    f"{training.where}: {name}={given}, which strategies of {framework} do not have "
                    f"(strategy {training.strategy!r}). {advice}"
                )


@rule
def processes_have_a_gpu_each(graph: Graph) -> Iterator[str]:
    for training in trainings(graph.pipeline):
        instance, processes = training.instance, training.processes
        if instance and instance.gpus and processes and processes > instance.gpus:
            yield (
                f"{training.where}: {processes} processes, but {instance.name} has {instance.gpus} GPUs and each "
                "process needs its own. Lower processes, or leave it out for one a GPU."
            )


@rule
def lone_strategies_have_one_process(graph: Graph) -> Iterator[str]:
    for training, strategy, _, world in _distributed(graph):
        if not strategy.dimensions and not strategy.roles and world.size > 1:
            yield (
                f"{training.where}: strategy {strategy.name!r} is for one process, but there are {world.described()}; "
                f"each would train a model of its own. Use strategy {_several(strategy)}, or one host with processes 1."
            )


@rule
def roles_have_their_processes(graph: Graph) -> Iterator[str]:
    for training, strategy, _, world in _distributed(graph):
        least = strategy.roles.count("=")
        if world.size < least:
            yield (
                f"{training.where}: strategy {strategy.name!r} has processes in the roles {strategy.roles}, {least} at "
                f"least, but there are {world.described()}. Give more hosts or processes, or use strategy "
                "'tf_mirrored'."
            )


@rule
def threads_have_several_gpus(graph: Graph) -> Iterator[str]:
    for training in trainings(graph.pipeline):
        instance = training.instance
        if training.strategy == THREADS and instance and instance.gpus < 2:
            yield (
                f"{training.where}: strategy {THREADS!r} copies the model to several GPUs, and {instance.name} has "
                f"{instance.gpus}. Use strategy 'single', or 'ddp' with several processes."
            )


@rule
def degrees_fit_the_processes(graph: Graph) -> Iterator[str]:
    for training, strategy, options, world in _distributed(graph):
        try:
            fill(strategy.name, strategy.dimensions, options, world)
        except UserError as error:
            yield f"{training.where}: {error}"


@rule
def tensor_ranks_share_a_host(graph: Graph) -> Iterator[str]:
    for training, strategy, options, world in _distributed(graph):
        tensor = fill(strategy.name, strategy.dimensions, options, world).get("tensor", 1)
        if world.processes % tensor:
            yield (
                f"{training.where}: strategy {strategy.name!r}: tensor {tensor} would leave the host, which has "
                f"{world.processes} processes; those ranks wait for each other inside every layer. Choose a tensor "
                f"degree that divides {world.processes}."
            )


@rule
def tensor_ranks_have_fast_links(graph: Graph) -> Iterator[str]:
    for training, strategy, options, world in _distributed(graph):
        tensor = fill(strategy.name, strategy.dimensions, options, world).get("tensor", 1)
        instance = training.instance
        # A host without GPUs is where such a training is tried out: nothing there is fast.
        if tensor > 1 and instance and instance.gpus and not instance.nvlink:
            yield (
                f"{training.where}: strategy {strategy.name!r}: tensor {tensor} needs NVLink between the GPUs of a "
                f"host, since its ranks wait for each other inside every layer; {instance.name} has {instance.link} "
                f"({instance.link_rate / 1e9:g} GB/s). Use fsdp there, or a p4 or p5 machine."
            )


@rule
def stages_have_enough_micro_batches(graph: Graph) -> Iterator[str]:
    for training, strategy, options, world in _distributed(graph):
        stages = fill(strategy.name, strategy.dimensions, options, world).get("stage", 1)
        micro_batches = options.get("micro_batches") or stages
        if micro_batches < stages:
            yield (
                f"{training.where}: strategy {strategy.name!r}: {micro_batches} micro-batches for {stages} stages; "
                f"some stages would always wait. Give micro_batches {stages} or more (4 a stage is usual)."
            )


@rule
def virtual_stages_have_a_schedule(graph: Graph) -> Iterator[str]:
    for training, strategy, options, _ in _distributed(graph):
        virtual, schedule = options.get("virtual") or 0, options.get("schedule")
        if virtual > 1 and schedule in SINGLE_STAGE:
            others = [each for each in strategy.options["schedule"].choices if each not in SINGLE_STAGE]
            yield (
                f"{training.where}: strategy {strategy.name!r}: virtual={virtual} with schedule {schedule!r}; only "
                f"{' and '.join(map(repr, others))} cut a rank's part into several stages."
            )


@rule
def interleaved_schedules_get_whole_rounds(graph: Graph) -> Iterator[str]:
    for training, strategy, options, world in _distributed(graph):
        stages = fill(strategy.name, strategy.dimensions, options, world).get("stage", 1)
        schedule, micro_batches = options.get("schedule", DEFAULT_SCHEDULE), options.get("micro_batches") or 0
        if stages > 1 and schedule not in SINGLE_STAGE and micro_batches % stages:
            yield (
                f"{training.where}: strategy {strategy.name!r}: micro_batches={micro_batches} with schedule "
                f"{schedule!r}, which sends them in rounds of one a rank; allowed are multiples of {stages}."
            )


@rule
def micro_batches_divide_the_batch(graph: Graph) -> Iterator[str]:
    for training, strategy, options, world in _distributed(graph):
        degrees = fill(strategy.name, strategy.dimensions, options, world)
        batch, micro_batches = training.number("global_batch"), options.get("micro_batches")
        accumulation = training.number("accumulation")
        if degrees.get("stage", 1) == 1 or not (batch and micro_batches and accumulation):
            continue
        parts = data_size(degrees)
        pieces = micro_batches * parts * accumulation
        if batch % pieces:
            accumulated = f" x accumulation {accumulation}" if accumulation > 1 else ""
            yield (
                f"{training.where}: strategy {strategy.name!r}: a global batch of {batch} cannot be cut into "
                f"{micro_batches} micro-batches x {parts} data ranks{accumulated}. Give a multiple of {pieces}."
            )


def _several(lone: StrategyFacts) -> str:
    """The strategies with which several processes can share what one trains alone."""
    own = all_strategies(framework=lone.framework).values()
    fitting = [repr(each.name) for each in own if each.dimensions == ("replicate",)]
    return " or ".join(fitting) or "of several processes"


def _distributed(graph: Graph) -> Iterator[tuple[Training, StrategyFacts, dict[str, Any], World]]:
    """The trainings whose strategy, options and number of processes are known, with all options filled in."""
    for training in trainings(graph.pipeline):
        name, text, world = training.strategy, training.text("strategy_options"), training.world
        if name is None or name == AUTO or text is None or world is None:
            continue
        strategy = read_strategy(name)
        defaults = {option.name: option.default for option in strategy.options.values()}
        yield training, strategy, {**defaults, **parse_options(text, "strategy_options")}, world
