"""Inspect a pipeline's text: the problems, as the command line shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drivetrain.base.formatting import printable
from drivetrain.targets.kubeflow.ir.check import components_of, problems
from drivetrain.targets.kubeflow.ir.problems import MOST, Problem
from drivetrain.targets.kubeflow.ir.reading import read

_MOST_SHOWN = 20


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection: the first MOST problems."""

    num_steps: int
    """The tasks of all DAGs; those of a loop's body count once."""
    found: tuple[Problem, ...]

    @property
    def is_sound(self) -> bool:
        """True if nothing would be refused."""
        return not self.found

    @property
    def num_unchecked(self) -> int:
        """None: what is not known in a text of this kind is a problem."""
        return 0

    def problems(self) -> list[str]:
        """List what would be refused or done otherwise, with its place, as lines for people."""
        if not self.found:
            return []
        said = ["A cluster would refuse, or do otherwise:", *(f"    {each}" for each in self.found[:_MOST_SHOWN])]
        if len(self.found) > _MOST_SHOWN:
            least = "at least " if len(self.found) == MOST else ""
            said.append(f"    ... and {least}{len(self.found) - _MOST_SHOWN} more")
        return [printable(line) for line in said]

    def notes(self) -> list[str]:
        """Nothing: what is not known in a text of this kind is a problem."""
        return []

    def to_json(self) -> dict[str, Any]:
        """The problems, each with its place."""
        return {
            "steps": self.num_steps,
            "problems": [{"place": problem.place, "reason": problem.reason} for problem in self.found],
        }


def inspect(text: bytes, source: str) -> Inspection:
    """Everything there is to say of a text.

    Raises:
        UserError: it is no pipeline at all.
    """
    documents = read(text, source)
    num_steps = sum(len(component.tasks) for component in components_of(documents).all)
    return Inspection(num_steps, tuple(problems(documents)))
