"""Rules about how a training saves its state and goes on from it.

They hold for steps of drivetrain's own train component, which checks the same again; here a mistake costs no machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import TrainingStep, is_our_training
from drivetrain.spec.values import ParameterRef

rule = RuleBook()

# As drivetrain.training.checkpointing.interval has it, which is never imported here.
_EVERY = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?(steps?|s|m|h)", re.ASCII)


@rule
def checkpoint_every_is_known(graph: Graph) -> Iterator[str]:
    for step, value in _given(graph, "checkpoint_every"):
        if not is_every(value):
            yield (
                f"step {step.name!r}: checkpoint_every={value!r}; allowed are auto, epoch, or a number of steps or a "
                'time such as "200steps", "90s", "10m", "2h".'
            )


def is_every(text: str) -> bool:
    """Return True if a text says how often to save."""
    if text in ("auto", "epoch"):
        return True
    match = _EVERY.fullmatch(text.strip())
    number = float(match[1]) if match else 0.0
    return match is not None and number > 0 and (match[2] in ("s", "m", "h") or number.is_integer())


def is_longer(text: str, seconds: float) -> bool:
    """True where a training that saves so often may go on for longer than `seconds` without a save, as far as the text
    says: an epoch has any length, and a number of steps says nothing."""
    match = _EVERY.fullmatch(text.strip())
    factor = {"s": 1, "m": 60, "h": 3600}.get(match[2], 0) if match else 0
    return text == "epoch" or (match is not None and float(match[1]) * factor > seconds)


def _given(graph: Graph, name: str) -> Iterator[tuple[TrainingStep, str]]:
    """The texts that our trainings get for a parameter, also by default or choice of a pipeline's parameter."""
    declared = {parameter.name: parameter for parameter in graph.pipeline.parameters}
    for step in graph.steps:
        if not is_our_training(step):
            continue
        value = step.parameters.get(name)
        parameter = declared.get(value.name) if isinstance(value, ParameterRef) else None
        values = (value,) if parameter is None else (parameter.default, *parameter.choices)
        yield from ((step, each) for each in dict.fromkeys(values) if isinstance(each, str))
