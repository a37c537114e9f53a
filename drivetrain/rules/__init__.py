"""Rules about pipelines: one rule, one function, one test. Here is what a rule is, and the list into which
a file of rules writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TypeVar

from drivetrain.spec import Frozen
from drivetrain.spec.pipeline import Graph

Rule = Callable[[Graph], Iterator[str]]
S = TypeVar("S", bound=Frozen)
RuleOfOne = Callable[[S, Graph], Iterator[str]]


class RuleBook(list[Rule]):
    """Rules in the order in which they are written, the most basic first; it decorates them: `@rule`, or
    `@rule.each(JobStep)` for a rule about one step or trigger of a kind.

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
