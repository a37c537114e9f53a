"""Inspect a pipeline's text: the problems, as the command line shows them."""

from __future__ import annotations

from drivetrain.base.formatting import printable
from drivetrain.targets.kubeflow.ir.check import components_of, problems
from drivetrain.targets.kubeflow.ir.problems import MOST, Problem
from drivetrain.targets.kubeflow.ir.reading import read
from drivetrain.targets.target import Inspection

_MOST_SHOWN = 20


def inspect(text: bytes, source: str) -> Inspection:
    """Everything there is to say of a text: the first MOST problems. What is not known here is a problem, too.

    Raises:
        UserError: it is no pipeline at all.
    """
    documents = read(text, source)
    found = problems(documents)
    num_steps = sum(len(component.tasks) for component in components_of(documents).all)
    facts = {"steps": num_steps, "problems": [problem._asdict() for problem in found]}
    return Inspection(num_steps, num_unchecked=0, problems=_lines(found), notes=(), facts=facts)


def _lines(found: list[Problem]) -> list[str]:
    """What would be refused or done otherwise, with its place, as lines for people."""
    if not found:
        return []
    said = ["A cluster would refuse, or do otherwise:", *(f"    {each}" for each in found[:_MOST_SHOWN])]
    if len(found) > _MOST_SHOWN:
        least = "at least " if len(found) == MOST else ""
        said.append(f"    ... and {least}{len(found) - _MOST_SHOWN} more")
    return [printable(line) for line in said]
