"""What a pipeline must not be: one rule, one function, one test. Here is what a rule is, and the list into which
a file of rules writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TypeVar

from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import BaseStep

Rule = Callable[[Graph], Iterator[str]]
S = TypeVar("S", bound=BaseStep)
StepRule = Callable[[S, Graph], Iterator[str]]


class RuleBook(list[Rule]):
    """Rules in the order in which they are written, the most basic first; it decorates them: `@rule`, or
    `@rule.each(JobStep)` for a rule about one step of a kind.

    Args:
        target: the target whose rules these are; they hold on every target unless given.
    """

    def __init__(self, target: str | None = None) -> None:
        super().__init__()
        self.target = target

    def __call__(self, function: Rule) -> Rule:
        self.append(function)
        return function

    def each(self, kind: type[S]) -> Callable[[StepRule[S]], StepRule[S]]:
        """Write down a rule that is asked about each step of a kind."""

        def write(function: StepRule[S]) -> StepRule[S]:
            @self
            @wraps(function)
            def rule(graph: Graph) -> Iterator[str]:
                for step in graph.steps:
                    if isinstance(step, kind):
                        yield from function(step, graph)

            return function

        return write
