"""The framework that a step runs on, the packages that it needs, and whether torch is new enough for its strategy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.catalog.strategies import (
    TENSORFLOW,
    TORCH,
    StrategyFacts,
    all_strategies,
    estimator_literals,
    needs_of_recipe,
    read_strategy,
    recipe_file,
    strategy_names,
)
from drivetrain.spec.pipeline import Graph, Parameter, Pipeline
from drivetrain.spec.resources import (
    BATCH_PREDICT,
    CALIBRATE,
    COMPARE,
    DESCRIBE_MODEL,
    EVALUATE,
    MAKE_MODELS_OF_FUNCTIONS,
    TRAIN_TABLE,
)
from drivetrain.spec.steps import JobStep, is_our_training
from drivetrain.spec.trainings import estimators_of, trainings, ways

_ASK_MODELS = (EVALUATE, BATCH_PREDICT, COMPARE, CALIBRATE)
# What these steps declare only for models of our frameworks.
_OF_OUR_FRAMEWORKS = (TORCH, "safetensors")


def framework_of_step(step: JobStep, graph: Graph) -> str:
    """The framework that a step's program runs on: of a training that of its strategy; of another step that needs one
    (evaluate, batch_predict, compare) that of the trainings whose outputs it reads.

    Raises:
        UserError: it would be several.
    """
    found = frameworks_of(step, graph)
    if len(found) > 1:
        raise UserError(
            f"step {step.name!r} would run on several frameworks: {', '.join(sorted(found))}. No stock image holds "
            "both: give an own one that does (the step's image), or a step for each."
        )
    return next(iter(found), TORCH)


def frameworks_of(step: JobStep, graph: Graph) -> frozenset[str]:
    """As `framework_of_step`, all of them; empty where nothing says which."""
    if is_our_training(step):
        return frozenset(facts.framework for facts in strategies_of(step, graph.pipeline.parameters))
    needs = declared_needs(step, graph)
    if TENSORFLOW in needs or step.parameters.get("launcher") == "tf_config":  # a script of the user's own
        return frozenset((TENSORFLOW,))
    if TORCH not in needs and step.program.target not in (DESCRIBE_MODEL, *_ASK_MODELS):
        return frozenset()
    found: set[str] = set()
    for value in step.inputs.values():
        made = graph.producer(value)
        if made is not None and made is not step:
            found |= frameworks_of(made, graph)
    return frozenset(found)


def needs_of(step: JobStep, graph: Graph, framework: str) -> tuple[str, ...]:
    """The requirements of a step's program where it runs on `framework`: programs declare torch for whichever
    it is, and a training's strategy names packages of its own."""
    own = (framework if need == TORCH else need for need in declared_needs(step, graph))
    facts = [each for each in strategies_of(step, graph.pipeline.parameters) if each.framework == framework]
    return _each_once(tuple(own), *(each.needs for each in facts))


def declared_needs(step: JobStep, graph: Graph) -> tuple[str, ...]:
    """The requirements that a step's program declares. A step that asks a model of functions needs what that model
    needs, and neither torch nor safetensors, which models of our frameworks need. Nor does a step that takes answers
    need them: processes without a framework join over TCP."""
    own = step.program.needs
    if step.program.target == DESCRIBE_MODEL:
        trained = graph.producer(step.inputs.get("trained"))
        return own if trained is None else _each_once(own, declared_needs(trained, graph))
    if step.program.target == TRAIN_TABLE:
        return _each_once(own, *(estimator_literals(name).get("NEEDS", ()) for name in estimators_of(step, graph)))
    made = graph.maker(step.inputs.get("trained" if step.program.target == CALIBRATE else "model"))
    if step.program.target not in _ASK_MODELS:
        return own
    of_functions = made is not None and made.program.target in MAKE_MODELS_OF_FUNCTIONS
    takes_answers = _takes_answers(step, graph)
    if of_functions or takes_answers:
        own = tuple(need for need in own if need not in _OF_OUR_FRAMEWORKS)
    return _each_once(own, declared_needs(made, graph)) if of_functions and not takes_answers and made else own


def _takes_answers(step: JobStep, graph: Graph) -> bool:
    """Return True if a step asks no model: it counts answers, or compares by the report of such a step."""
    if step.program.target == COMPARE:
        made = graph.producer(step.inputs.get("evaluation"))
        return made is not None and _takes_answers(made, graph)
    return "answers" in step.inputs


def _each_once(*needs: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(need for each in needs for need in each))


def recipe_needs(pipeline: Pipeline, folder: Path) -> tuple[str, ...]:
    """The requirements of a pipeline's recipes besides torch, sorted.

    Args:
        folder: of the user's pipeline, in which a recipe of their own may lie.
    """
    named = {recipe for training in trainings(pipeline) if (recipe := training.text("recipe"))}
    files = (recipe_file(recipe, folder) for recipe in named)
    return tuple(sorted({need for file in files if file is not None for need in needs_of_recipe(file)}))


def strategies_of(step: JobStep, parameters: Sequence[Parameter]) -> list[StrategyFacts]:
    """The strategies that a training step of ours may run with; unknown ones are refused elsewhere."""
    if not is_our_training(step):
        return []
    names = dict.fromkeys(training.strategy for training in ways(step, tuple(parameters)))
    known = strategy_names()
    return [read_strategy(name) for name in names if name in known]


def framework_problem(step: JobStep, parameters: Sequence[Parameter], torch: str) -> str | None:
    """Why a training step cannot run in a stock image with this version of torch (`2.13`); None where it can, nothing
    is known, or it runs on another framework."""
    for facts in strategies_of(step, parameters):
        if facts.framework == TORCH and _numbers(torch) < _numbers(facts.min_torch):
            strategies = all_strategies(framework=TORCH).values()
            possible = [each.name for each in strategies if _numbers(each.min_torch) <= _numbers(torch)]
            return (
                f"strategy {facts.name!r} needs torch {facts.min_torch}, and the image has {torch}. Give a newer image "
                f"(deployment.targets.sagemaker.image), or one of these strategies: {', '.join(possible)}."
            )
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The first two: 2.13.0 carries what 2.13 does."""
    return tuple(int(part) for part in version.split(".")[:2])
