"""What a training's strategy asks for: its framework, the packages that it needs, and a torch that is new enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.catalog.strategies import (
    AUTO,
    TORCH,
    StrategyFacts,
    all_strategies,
    framework_of_recipe,
    read_strategy,
    strategy_names,
)
from drivetrain.recommend.facts_places import recipe_file
from drivetrain.spec.pipeline import Parameter
from drivetrain.spec.steps import JobStep, is_our_training
from drivetrain.spec.trainings import Training, ways


def check_recipe(training: Training, folder: Path) -> None:
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


def needs_of(step: JobStep, parameters: Sequence[Parameter]) -> tuple[str, ...]:
    """What a step's program imports, as requirements: a training's strategy names packages of its own."""
    of_strategies = [need for facts in strategies_of(step, parameters) for need in facts.needs]
    return tuple(dict.fromkeys((*step.program.needs, *of_strategies)))


def strategies_of(step: JobStep, parameters: Sequence[Parameter]) -> list[StrategyFacts]:
    """Those that a training step of ours may run with; none that nobody knows, which is refused elsewhere."""
    if not is_our_training(step):
        return []
    names = dict.fromkeys(training.strategy for training in ways(step, tuple(parameters)))
    known = strategy_names()
    return [read_strategy(name) for name in names if name in known]


def framework_problem(step: JobStep, parameters: Sequence[Parameter], torch: str) -> str | None:
    """Why a training step cannot run in a stock image with this version of torch (`2.13`); None where it can, or
    nothing is known."""
    if not is_our_training(step):
        return None
    for name in dict.fromkeys(training.strategy for training in ways(step, tuple(parameters))):
        if name is None or name == AUTO:
            continue
        facts, strategies = read_strategy(name), all_strategies(framework=TORCH)
        if facts.framework != TORCH:
            return (
                f"strategy {name!r} runs on {facts.framework}, and the stock image holds torch. Give an image with "
                f"{facts.framework} (deployment.targets.sagemaker.image, or the step's image), or a recipe and a "
                f"strategy of torch: {', '.join(strategies)}."
            )
        if _numbers(torch) < _numbers(facts.min_torch):
            possible = [each.name for each in strategies.values() if _numbers(each.min_torch) <= _numbers(torch)]
            return (
                f"strategy {name!r} needs torch {facts.min_torch}, and the image has {torch}. Give a newer image "
                f"(deployment.targets.sagemaker.image), or one of these strategies: {', '.join(possible)}."
            )
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The first two: 2.13.0 carries what 2.13 does."""
    return tuple(int(part) for part in version.split(".")[:2])
