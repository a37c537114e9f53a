"""Whether an image's torch is new enough for a strategy."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.catalog.strategies import AUTO, read_strategy, strategy_names
from drivetrain.spec.pipeline import Parameter
from drivetrain.spec.steps import JobStep, is_our_training
from drivetrain.spec.trainings import ways


def framework_problem(step: JobStep, parameters: Sequence[Parameter], torch: str) -> str | None:
    """Why a training step cannot run with this version of torch (`2.13`); None where it can, or nothing is known."""
    if not is_our_training(step):
        return None
    for name in dict.fromkeys(training.strategy for training in ways(step, tuple(parameters))):
        if name is None or name == AUTO:
            continue
        needed = read_strategy(name).min_torch
        if _numbers(torch) < _numbers(needed):
            possible = [each for each in strategy_names() if _numbers(read_strategy(each).min_torch) <= _numbers(torch)]
            return (
                f"strategy {name!r} needs torch {needed}, and the image has {torch}. Give a newer image "
                f"(deployment.image), or one of these strategies: {', '.join(possible)}."
            )
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The first two: 2.13.0 carries what 2.13 does."""
    return tuple(int(part) for part in version.split(".")[:2])
