"""Rules about pipelines: one rule, one function, one test. Here is what a rule is, and the list into which
a file of rules writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from drivetrain.base.errors import UserError
from drivetrain.spec import Frozen
from drivetrain.spec.pipeline import Graph

if TYPE_CHECKING:
    from drivetrain.spec.trainings import Training

Rule = Callable[[Graph], Iterator[str]]
RuleOfTraining = Callable[["Training"], Iterator[str]]
S = TypeVar("S", bound=Frozen)
RuleOfOne = Callable[[S, Graph], Iterator[str]]


class RuleBook(list[Rule]):
    """Rules in the order in which they are written, the most basic first; it decorates them: `@rule`,
    `@rule.each(JobStep)` for a rule about one step or trigger of a kind, or `@rule.each_training`.

    Args:
        target: the target whose rules these are; they hold on every target unless given.
    """

    def __init__(self, target: str | None = None) -> None:
        super().__init__()
        self.target = target

    def __call__(self, function: Rule) -> Rule:
        self.append(function)
        return function

    def each(self, kind: type[S]) -> Callable[[RuleOfOne[S]], RuleOfOne[S]]:
        """Write down a rule that is asked about each step, or each trigger, of a kind."""

        def write(function: RuleOfOne[S]) -> RuleOfOne[S]:
            @self
            @wraps(function)
            def rule(graph: Graph) -> Iterator[str]:
                for one in (*graph.steps, *graph.pipeline.triggers):
                    if isinstance(one, kind):
                        yield from function(one, graph)

            return function

        return write

    def each_training(self, function: RuleOfTraining) -> Rule:
        """Write down a rule that is asked about each way in which a training of ours can run. Its messages, and what it
        refuses by a UserError, begin with the training's name."""

        @self
        @wraps(function)
        def rule(graph: Graph) -> Iterator[str]:
            from drivetrain.spec.trainings import trainings

            for training in trainings(graph.pipeline):
                try:
                    yield from (f"{training.where}: {problem}" for problem in function(training))
                except UserError as error:
                    yield f"{training.where}: {error}"

        return rule
