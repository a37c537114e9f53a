"""What a pipeline must not be: one rule, one function, one test. Here is what a rule is, and the list into which
a file of rules writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from drivetrain.spec.pipeline import Graph

Rule = Callable[[Graph], Iterator[str]]


class RuleBook(list[Rule]):
    """Rules in the order in which they are written, the most basic first; it decorates them: `@rule`.

    Args:
        target: the target whose rules these are; they hold on every target unless given.
    """

    def __init__(self, target: str | None = None) -> None:
        super().__init__()
        self.target = target

    def __call__(self, function: Rule) -> Rule:
        self.append(function)
        return function
