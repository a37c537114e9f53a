"""Rules about how a training is distributed: strategy, options, degrees, links, batches.

They hold for steps of drivetrain's own train component. What needs a recipe's facts or the image is looked at when the
pipeline is compiled (drivetrain.recommend.settle); the training program checks all of it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple

from drivetrain.base.degrees import World, data_size, fill
from drivetrain.base.errors import did_you_mean
from drivetrain.base.json_options import parse_options, wrong_type
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
from drivetrain.rules import Rule, RuleBook
from drivetrain.spec.trainings import Training
from drivetrain.spec.values import ParameterRef

rule = RuleBook()


class _Distributed(NamedTuple):
    """A training whose strategy, options and number of processes are known, with all options filled in."""

    training: Training
    strategy: StrategyFacts
    options: dict[str, Any]
    world: World

    @property
    def degrees(self) -> dict[str, int]:
        return fill(self.strategy.name, self.strategy.dimensions, self.options, self.world)


def _distributed(function: Callable[[_Distributed], Iterator[str]]) -> Rule:
    """Write down a rule that is asked about each such training."""

    @wraps(function)
    def of_training(training: Training) -> Iterator[str]:
        name, text, world = training.strategy, training.text("strategy_options"), training.world
        if name is None or name == AUTO or text is None or world is None:
            return
        strategy = read_strategy(name)
        defaults = {option.name: option.default for option in strategy.options.values()}
        options = {**defaults, **parse_options(text, "strategy_options")}
        yield from function(_Distributed(training, strategy, options, world))

    return rule.each_training(of_training)


@rule.each_training
def strategies_exist(training: Training) -> Iterator[str]:
    known = {*strategy_names(), AUTO}
    if training.strategy is not None and training.strategy not in known:
        yield f"no strategy {training.strategy!r}. {did_you_mean(training.strategy, known)}"


@rule.each_training
def auto_is_settled_when_compiled(training: Training) -> Iterator[str]:
    if training.strategy != AUTO:
        return
    if isinstance(training.step.parameters["strategy"], ParameterRef):
        yield (
            "strategy 'auto' is settled when the pipeline is compiled, so a pipeline parameter cannot bring it. Give "
            "strategy='auto' in the pipeline's code or settings."
        )
    elif training.text("strategy_options") not in ("{}", ""):
        yield (
            "strategy_options say how one strategy works, but 'auto' chooses which. Leave them out, or name the "
            "strategy."
        )


@rule.each_training
def strategy_options_exist(training: Training) -> Iterator[str]:
    text = training.text("strategy_options")
    if training.strategy in (None, AUTO) or text is None:
        return
    assert training.strategy is not None
    given, options = parse_options(text, "strategy_options"), read_strategy(training.strategy).options
    for name, value in given.items():
        if name not in options:
            yield f"strategy {training.strategy!r} has no option {name!r}. {did_you_mean(name, options)}"
        elif wanted := wrong_type(value, options[name].annotation):
            yield f"strategy {training.strategy!r}: {name}={value!r}; allowed is {wanted}."
        elif allowed := options[name].refuses(value):
            yield f"strategy {training.strategy!r}: {name}={value!r}; allowed are {allowed}."


@rule.each_training
def recipe_options_exist(training: Training) -> Iterator[str]:
    recipe, text = training.text("recipe"), training.text("recipe_options")
    path = recipe_file(recipe, recipes_folder()) if recipe and text else None
    options = options_of_recipe(path) if path else None
    if options is None or text is None:  # one of one's own: the training itself says what is wrong
        return
    for name in parse_options(text, "recipe_options"):
        if name not in options:
            yield f"recipe {recipe!r} has no option {name!r}. {did_you_mean(name, options)}"


@rule.each_training
def fields_fit_the_framework(training: Training) -> Iterator[str]:
    if training.strategy is None or training.strategy not in strategy_names():
        return
    framework = read_strategy(training.strategy).framework
    for name, (without, advice) in refused_fields(framework).items():
        given = training.values[name]
        if given is not None and given != without:
            yield (
                f"{name}={given}, which strategies of {framework} do not have (strategy {training.strategy!r}). "
                f"{advice}"
            )


@rule.each_training
def processes_have_a_gpu_each(training: Training) -> Iterator[str]:
    instance, processes = training.instance, training.processes
    if instance and instance.gpus and processes and processes > instance.gpus:
        yield (
            f"{processes} processes, but {instance.name} has {instance.gpus} GPUs and each process needs its own. "
            "Lower processes, or leave it out for one a GPU."
        )


@_distributed
def lone_strategies_have_one_process(found: _Distributed) -> Iterator[str]:
    strategy, world = found.strategy, found.world
    if not strategy.dimensions and not strategy.roles and world.size > 1:
        yield (
            f"strategy {strategy.name!r} is for one process, but there are {world.described()}; each would train a "
            f"model of its own. Use strategy {_several(strategy)}, or one host with processes 1."
        )


@_distributed
def roles_have_their_processes(found: _Distributed) -> Iterator[str]:
    strategy, world = found.strategy, found.world
    least = strategy.roles.count("=")
    if world.size < least:
        yield (
            f"strategy {strategy.name!r} has processes in the roles {strategy.roles}, {least} at least, but there are "
            f"{world.described()}. Give more hosts or processes, or use strategy 'tf_mirrored'."
        )


@rule.each_training
def threads_have_several_gpus(training: Training) -> Iterator[str]:
    instance = training.instance
    if training.strategy == THREADS and instance and instance.gpus < 2:
        yield (
            f"strategy {THREADS!r} copies the model to several GPUs, and {instance.name} has {instance.gpus}. Use "
            "strategy 'single', or 'ddp' with several processes."
        )


@_distributed
def degrees_fit_the_processes(found: _Distributed) -> Iterator[str]:
    """`fill` refuses those that do not."""
    _ = found.degrees
    return iter(())


@_distributed
def tensor_ranks_share_a_host(found: _Distributed) -> Iterator[str]:
    tensor, processes = found.degrees.get("tensor", 1), found.world.processes
    if processes % tensor:
        yield (
            f"strategy {found.strategy.name!r}: tensor {tensor} would leave the host, which has {processes} processes; "
            "those ranks wait for each other inside every layer. Choose a tensor degree that divides "
            f"{processes}."
        )


@_distributed
def tensor_ranks_have_fast_links(found: _Distributed) -> Iterator[str]:
    tensor, instance = found.degrees.get("tensor", 1), found.training.instance
    # A host without GPUs is where such a training is tried out: nothing there is fast.
    if tensor > 1 and instance and instance.gpus and not instance.nvlink:
        yield (
            f"strategy {found.strategy.name!r}: tensor {tensor} needs NVLink between the GPUs of a host, since its "
            f"ranks wait for each other inside every layer; {instance.name} has {instance.link} "
            f"({instance.link_rate / 1e9:g} GB/s). Use fsdp there, or a p4 or p5 machine."
        )


@_distributed
def stages_have_enough_micro_batches(found: _Distributed) -> Iterator[str]:
    stages = found.degrees.get("stage", 1)
    micro_batches = found.options.get("micro_batches") or stages
    if micro_batches < stages:
        yield (
            f"strategy {found.strategy.name!r}: {micro_batches} micro-batches for {stages} stages; some stages would "
            f"always wait. Give micro_batches {stages} or more (4 a stage is usual)."
        )


@_distributed
def virtual_stages_have_a_schedule(found: _Distributed) -> Iterator[str]:
    virtual, schedule = found.options.get("virtual") or 0, found.options.get("schedule")
    if virtual > 1 and schedule in SINGLE_STAGE:
        others = [each for each in found.strategy.options["schedule"].choices if each not in SINGLE_STAGE]
        yield (
            f"strategy {found.strategy.name!r}: virtual={virtual} with schedule {schedule!r}; only "
            f"{' and '.join(map(repr, others))} cut a rank's part into several stages."
        )


@_distributed
def interleaved_schedules_get_whole_rounds(found: _Distributed) -> Iterator[str]:
    stages, schedule = found.degrees.get("stage", 1), found.options.get("schedule", DEFAULT_SCHEDULE)
    micro_batches = found.options.get("micro_batches") or 0
    if stages > 1 and schedule not in SINGLE_STAGE and micro_batches % stages:
        yield (
            f"strategy {found.strategy.name!r}: micro_batches={micro_batches} with schedule {schedule!r}, which sends "
            f"them in rounds of one a rank; allowed are multiples of {stages}."
        )


@_distributed
def micro_batches_divide_the_batch(found: _Distributed) -> Iterator[str]:
    batch, accumulation = found.training.number("global_batch"), found.training.number("accumulation")
    micro_batches = found.options.get("micro_batches")
    if found.degrees.get("stage", 1) == 1 or not (batch and micro_batches and accumulation):
        return
    parts = data_size(found.degrees)
    pieces = micro_batches * parts * accumulation
    if batch % pieces:
        accumulated = f" x accumulation {accumulation}" if accumulation > 1 else ""
        yield (
            f"strategy {found.strategy.name!r}: a global batch of {batch} cannot be cut into {micro_batches} "
            f"micro-batches x {parts} data ranks{accumulated}. Give a multiple of {pieces}."
        )


def _several(lone: StrategyFacts) -> str:
    """The strategies with which several processes can share what one trains alone."""
    own = all_strategies(framework=lone.framework).values()
    fitting = [repr(each.name) for each in own if each.dimensions == ("replicate",)]
    return " or ".join(fitting) or "of several processes"
