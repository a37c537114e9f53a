"""A role's statements without what says the same twice: a role that serves several kinds of work gathers some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from drivetrain.targets.sagemaker.permissions.policy import Conditions, Statement, covers, like, minimal, uncovered


def condensed(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Statements that allow the same as those given, each permission once and each sid once.

    Takes statements that allow (what denies is left to the caller): those with the same actions and conditions share
    their resources, those that differ in the values of one condition share these, and a permission that another
    statement gives under no more conditions is left out.
    """
    found = [replace(statement, resources=minimal(statement.resources)) for statement in statements]
    for both in (_same_but_resources, _same_but_one_condition, _same_but_resources):
        found = _joined(found, both)
    return _named(_without_covered(found))


def fewest(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns that no other pattern covers."""
    return uncovered(patterns, like)


def _joined(
    statements: Sequence[Statement], both: Callable[[Statement, Statement], Statement | None]
) -> list[Statement]:
    """With each statement joined to the first one that it can be joined to."""
    kept: list[Statement] = []
    for statement in statements:
        for n, other in enumerate(kept):
            if (together := both(other, statement)) is not None:
                kept[n] = together
                break
        else:
            kept.append(statement)
    return kept


def _same_but_resources(one: Statement, other: Statement) -> Statement | None:
    if one.actions != other.actions or one.conditions != other.conditions:
        return None
    return replace(one, resources=minimal((*one.resources, *other.resources)))


def _same_but_one_condition(one: Statement, other: Statement) -> Statement | None:
    if (one.actions, one.resources) != (other.actions, other.resources) or _keys(one) != _keys(other):
        return None
    places = [(op, key) for op, keys in one.conditions.items() for key in keys]
    differing = [(op, key) for op, key in places if one.conditions[op][key] != other.conditions[op][key]]
    if len(differing) != 1:
        return None
    op, key = differing[0]
    values = (*one.conditions[op][key], *other.conditions[op][key])
    joined = fewest(values) if op == "StringLike" else tuple(dict.fromkeys(values))
    conditions: Conditions = {**one.conditions, op: {**one.conditions[op], key: joined}}
    return replace(one, conditions=conditions)


def _keys(statement: Statement) -> set[tuple[str, str]]:
    return {(op, key) for op, keys in statement.conditions.items() for key in keys}


def _without_covered(statements: Sequence[Statement]) -> Iterator[Statement]:
    kept = list(statements)
    for n, statement in enumerate(statements):
        left: dict[str, tuple[str, ...]] = {}
        for action in statement.actions:
            left[action] = tuple(
                resource
                for resource in statement.resources
                if not any(
                    other is not statement
                    and action in other.actions
                    and (not other.conditions or other.conditions == statement.conditions)
                    and any(covers(pattern, resource) for pattern in other.resources)
                    for other in kept
                )
            )
        parts = [
            replace(statement, actions=tuple(a for a in statement.actions if left[a] == resources), resources=resources)
            for resources in dict.fromkeys(left.values())
            if resources
        ]
        kept[n] = replace(statement, actions=(), resources=())  # so that of two alike one stays
        kept.extend(parts)
        yield from parts


def _named(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """A sid stands once in a policy: the second of a name gets a number."""
    seen: dict[str, int] = {}
    named: list[Statement] = []
    for statement in statements:
        count = seen[statement.sid] = seen.get(statement.sid, 0) + 1
        named.append(statement if count == 1 else replace(statement, sid=f"{statement.sid}{count}"))
    return tuple(named)
