"""Conditions as the definition spells them.

The service ANDs the list of a Condition step and knows Or and Not, but no And inside them; so a condition is brought
into conjunctive normal form: a list of clauses, each one literal or an Or of literals.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from drivetrain.base.errors import SpecError
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.values import All, Comparison, Condition, In, Not
from drivetrain.targets.sagemaker.compile import spell

MAX_CLAUSES = 200
# Numbers have no NaN here (metrics are finite), so an order is negated by its opposite. `Not` itself stays rare: the
# SDK writes it, but a report says that the service refused it (sagemaker-python-sdk issue 2746).
OPPOSITE = {
    "GreaterThan": "LessThanOrEqualTo",
    "GreaterThanOrEqualTo": "LessThan",
    "LessThan": "GreaterThanOrEqualTo",
    "LessThanOrEqualTo": "GreaterThan",
}

Clause = list[dict[str, Any]]


def spell_conditions(condition: Condition, graph: Graph) -> list[dict[str, Any]]:
    """The Conditions list of a Condition step.

    Raises:
        SpecError: when the condition needs more than MAX_CLAUSES clauses.
    """
    clauses = _clauses(condition, graph, negated=False)
    return [clause[0] if len(clause) == 1 else {"Type": "Or", "Conditions": clause} for clause in clauses]


def _clauses(condition: Condition, graph: Graph, *, negated: bool) -> list[Clause]:
    if isinstance(condition, Not):
        return _clauses(condition.condition, graph, negated=not negated)
    if isinstance(condition, Comparison | In):
        literal = _literal(condition, graph)
        return [[_negated(literal) if negated else literal]]
    parts = [_clauses(part, graph, negated=negated) for part in condition.conditions]
    if isinstance(condition, All) != negated:  # an AND: every clause of every part
        found = [clause for part in parts for clause in part]
    else:  # an OR: distribute it over the parts' clauses
        _check_size(prod(map(len, parts)))
        found = [[literal for clause in choice for literal in clause] for choice in product(*parts)]
    _check_size(len(found))
    return found


def _check_size(clauses: int) -> None:
    if clauses > MAX_CLAUSES:
        raise SpecError(
            f"A condition needs more than {MAX_CLAUSES} clauses in the form that the service knows (ANDs of ORs). "
            "Nest when(...) steps instead."
        )


def _negated(literal: dict[str, Any]) -> dict[str, Any]:
    opposite = OPPOSITE.get(literal["Type"])
    return {**literal, "Type": opposite} if opposite else {"Type": "Not", "Condition": literal}


def _literal(condition: Comparison | In, graph: Graph) -> dict[str, Any]:
    if isinstance(condition, In):
        return {
            "Type": "In",
            "QueryValue": spell(condition.value, graph),
            "Values": [spell(option, graph) for option in condition.options],
        }
    return {
        "Type": condition.operator,
        "LeftValue": spell(condition.left, graph),
        "RightValue": spell(condition.right, graph),
    }
