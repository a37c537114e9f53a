"""Rules about a training beside its strategy: how it saves its state, its health rules (docs/health.md), the pretrained
model that it starts from, the roles of its processes.

The training checks the same again; here a mistake costs no machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import InputError, did_you_mean, nearest
from drivetrain.base.json_options import parse_options
from drivetrain.catalog.strategies import (
    estimator_literals,
    health_rules_folder,
    options_of_estimator,
    options_of_recipe,
    strategy_names,
)
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import TRAIN_TABLE
from drivetrain.spec.steps import TRAIN_SCRIPT, TrainingStep, TuningStep
from drivetrain.spec.training_options import Between
from drivetrain.spec.trainings import Training, estimators_of
from drivetrain.training import plugins
from drivetrain.training.checkpointing.interval import parse_every
from drivetrain.training.options import build_options
from drivetrain.training.pretrained_folder import PretrainedFolder
from drivetrain.training.table_config import one_host

rule = RuleBook()

ACTIONS = ("note", "warn", "fail", "stop")
RECIPE = "huggingface"
# The recipe's own defaults, which are read without importing torch (a test compares them).
DEFAULTS: dict[str, Any] = {
    "pretrained": "",
    "head": "sequence_classification",
    "length": 256,
    "lora_rank": 0,
    "lora_targets": (),
}
KINDS: dict[str, tuple[Any, str]] = {
    "pretrained": (str, "a text"),
    "head": (str, "a text"),
    "length": (int, "a whole number"),
    "lora_rank": (int, "a whole number"),
    "lora_targets": ((list, tuple), "a list of texts"),
}


@rule.each_training
def health_rules_are_told_what_they_take(training: Training) -> Iterator[str]:
    for name, options in parse_options(training.text("health_rules") or "", "health_rules").items():
        if problem := _problem_of_health_rule(name, options):
            yield f"health_rules: {problem}"


@rule.each_training
def checkpoint_every_is_known(training: Training) -> Iterator[str]:
    """`parse_every` refuses what is not."""
    if (text := training.text("checkpoint_every")) is not None:
        parse_every(text)
    return iter(())


@rule.each_training
def pretrained_models_fit(training: Training) -> Iterator[str]:
    """A folder that lies on this machine is looked at; of one elsewhere the training itself says what is wrong."""
    text = training.text("recipe_options")
    if training.text("recipe") != RECIPE or text is None:
        return
    options = DEFAULTS | parse_options(text, "recipe_options")
    weights = training.step.inputs.get("weights")
    if not options["pretrained"] and weights is None:
        yield (
            f"recipe {RECIPE!r} starts from the folder of a pretrained model. Give the step weights=..., or "
            'recipe_options {"pretrained": "/a/folder"}.'
        )
    for name, (kind, wanted) in KINDS.items():
        if not isinstance(options[name], kind):
            yield f"recipe {RECIPE!r}: {name}={options[name]!r} should be {wanted}."
            return
    given = options["pretrained"] or weights
    if not isinstance(given, str) or "://" in given or not Path(given).is_dir():
        return
    folder = PretrainedFolder(Path(given), f"recipe {RECIPE!r}")
    folder.check(options["head"], options["length"], options["lora_targets"] if options["lora_rank"] else ())


@rule.each(TrainingStep)
def roles_fit_the_processes(step: TrainingStep, graph: Graph) -> Iterator[str]:
    """For trainings by a script of the user's own (the component train_script)."""
    roles = step.parameters.get("roles")
    if step.program.target != TRAIN_SCRIPT or not isinstance(roles, str) or not roles:
        return
    launcher = step.parameters.get("launcher", "torchrun")
    if isinstance(launcher, str) and launcher != "tf_config":
        yield (
            f"step {step.name!r}: roles={roles!r} are those of TF_CONFIG, and launcher={launcher!r} writes none. "
            "Give launcher='tf_config', or leave roles out."
        )
        return
    from drivetrain.training.launch.cluster import Cluster
    from drivetrain.training.launch.tf_config import read_roles, with_processes

    hosts, processes = step.cluster.count, step.parameters.get("processes") or step.cluster.processes or 0
    try:
        read = read_roles(roles)
        if isinstance(hosts, int) and isinstance(processes, int):
            with_processes(Cluster(tuple(map(str, range(hosts)))), read, processes)
    except InputError as error:
        yield f"step {step.name!r}: {error}"


@rule.each(TrainingStep)
def estimators_take_the_processes(step: TrainingStep, graph: Graph) -> Iterator[str]:
    """For trainings on a table (the component train_table)."""
    if step.program.target != TRAIN_TABLE:
        return
    hosts, given = step.cluster.count, step.parameters.get("processes") or step.cluster.processes or 1
    processes = (hosts if isinstance(hosts, int) else 1) * (given if isinstance(given, int) else 1)
    for name in estimators_of(step, graph):
        if processes > estimator_literals(name).get("MOST_PROCESSES", processes):
            yield f"step {step.name!r}: {one_host(name, processes)}"


@rule.each(TrainingStep)
def estimator_options_exist(step: TrainingStep, graph: Graph) -> Iterator[str]:
    text = step.parameters.get("estimator_options")
    if step.program.target != TRAIN_TABLE or not isinstance(text, str):
        return
    names = estimators_of(step, graph)
    options = options_of_estimator(names[0]) if len(names) == 1 else None
    if options is None:  # one of several, or one of one's own: the training itself says what is wrong
        return
    given = parse_options(text, "estimator_options")
    if unknown := next((option for option in given if option not in options), None):
        yield f"step {step.name!r}: estimator {names[0]!r} has no option {unknown!r}. {did_you_mean(unknown, options)}"
        return
    try:
        for each in _chosen(given, step):
            _refuse_values(names[0], each)
    except InputError as error:
        yield f"step {step.name!r}: {error}"


def _chosen(given: dict[str, Any], step: TrainingStep) -> Iterator[dict[str, Any]]:
    """The options that an estimator is given, if any: in a search those with the first values of all ranges, and with
    each last one."""
    ranges = step.search.ranges.items() if isinstance(step, TuningStep) else ()
    values = {
        name.removeprefix("estimator_options."): (each.low, each.high) if isinstance(each, Between) else each.values
        for name, each in ranges
        if name.startswith("estimator_options.") and name.count(".") == 1
    }
    first = {**given, **{name: each[0] for name, each in values.items()}}
    yield from filter(None, (first, *({**first, name: value} for name, each in values.items() for value in each[1:])))


def _refuse_values(estimator: str, given: dict[str, Any]) -> None:
    """
    Raises:
        InputError: a value that one of our estimators does not take. Of one's own, and where numpy is missing, the
            training itself says it.
    """
    with suppress(ImportError):
        if estimator in plugins.names("estimators"):
            module: Any = plugins.load("estimators", estimator, kind="estimator")
            build_options(module.Options, given, f"estimator {estimator!r}")


def is_longer(text: str, seconds: float) -> bool:
    """True where a training that saves so often may go on for longer than `seconds` without a save, as far as the text
    says: an epoch has any length, and a number of steps says nothing."""
    every = parse_every(text)
    return every.epoch or every.seconds > seconds


def _problem_of_health_rule(name: str, options: Any) -> str:
    if options != "off" and not isinstance(options, Mapping):
        return (
            f'{name!r} is {json.dumps(options)}. Allowed: "off", or an object with its action and options: '
            '{"action": "stop"}.'
        )
    folder = health_rules_folder()
    shipped = strategy_names(folder)
    if name not in shipped:  # a module of the user's own, or a slip
        is_slip = nearest(name, shipped) is not None and not _is_own(name)
        return f"no rule {name!r}. {did_you_mean(name, shipped)}" if is_slip else ""
    if options == "off":
        return ""
    own_options = dict(cast("Mapping[str, Any]", options))
    action = own_options.pop("action", ACTIONS[0])
    if action not in ACTIONS:
        return f"{name!r} has no action {action!r}. {did_you_mean(str(action), ACTIONS)}"
    allowed = options_of_recipe(folder / f"{name}.py", kind="Rule")
    unknown = next((option for option in own_options if allowed is not None and option not in allowed), None)
    if unknown is None:
        return ""
    return f"no option of {name!r} {unknown!r}. {did_you_mean(unknown, ('action', *(allowed or ())))}"


def _is_own(name: str) -> bool:
    """Return True if a module of that name lies beside the pipeline, or where Python finds it."""
    try:
        return Path(f"{name}.py").exists() or find_spec(name) is not None
    except (ImportError, ValueError):
        return False
