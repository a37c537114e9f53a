"""IAM policies as plain values: statements, what their wildcards match, and the policy of a role without what says the
same twice: a role that serves several kinds of work gathers some.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Conditions = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Operator -> context key -> the allowed values."""

# Of all inline policies of a role together, white space not counted:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
MAX_POLICY_CHARACTERS = 10_240

MOST_COMPARED = 256

_WILDCARD = re.compile(r"[*?]")


def covers(pattern: str, resource: str) -> bool:
    """Return True if a resource pattern covers a resource; `*` and `?` stay within a part of the ARN, but for the last
    one.

    Also tells whether one pattern covers another one.
    """
    if pattern == "*":
        return True
    wanted, given = pattern.split(":", 5), resource.split(":", 5)
    if len(wanted) != 6 or len(given) != 6:
        return pattern == resource
    return all(like(one, other) for one, other in zip(wanted, given, strict=True))


def like(pattern: str, text: str) -> bool:
    """Return True if a text matches a pattern with `*` (any characters) and `?` (one), in at most quadratic time."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == text
    place = at = 0
    star, resumed = -1, 0  # the last `*`, and where in the text what follows it was tried
    while at < len(text):
        if place < len(pattern) and pattern[place] == "*":
            star, resumed = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", text[at]):
            place += 1
            at += 1
        elif star >= 0:
            resumed += 1
            place, at = star + 1, resumed
        else:
            return False
    return not pattern[place:].strip("*")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Actions on resources, allowed or denied under conditions; `reason` says what needs it, for people."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    reason: str
    conditions: Conditions = field(default_factory=dict[str, Mapping[str, tuple[str, ...]]])
    effect: Literal["Allow", "Deny"] = "Allow"

    def to_json(self) -> dict[str, Any]:
        """The statement in a policy document."""
        built: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": self.effect,
            "Action": _one_or_all(self.actions),
            "Resource": _one_or_all(self.resources),
        }
        if self.conditions:
            built["Condition"] = conditions_json(self.conditions)
        return built


@dataclass(frozen=True, kw_only=True)
class Trust:
    """A principal that may assume a role: an AWS service, or the bearer of a token of an OpenID provider."""

    service: str | None = None
    provider: str | None = None
    """ARN of the provider."""
    conditions: Conditions = field(default_factory=dict[str, Mapping[str, tuple[str, ...]]])


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The permissions of one role, and the principals that may assume it."""

    role: str
    """The role's ARN."""
    kinds: tuple[str, ...]
    """The purposes of the role: pipeline, training, processing, registry, serving, scheduler, starter, ci."""
    statements: tuple[Statement, ...]
    trust: tuple[Trust, ...] = ()

    @property
    def name(self) -> str:
        """The role's name, without its path."""
        return self.role.rpartition("/")[2]

    def to_json(self) -> dict[str, Any]:
        """The policy document."""
        return {"Version": "2012-10-17", "Statement": [statement.to_json() for statement in self.statements]}


def conditions_json(conditions: Conditions) -> dict[str, dict[str, str | list[str]]]:
    """Conditions in a policy document."""
    return {
        operator: {key: _one_or_all(values) for key, values in keys.items()} for operator, keys in conditions.items()
    }


def minimal(resources: Iterable[str]) -> tuple[str, ...]:
    """The resources, each once and without those that another one covers already."""
    return uncovered(resources, covers)


def uncovered(patterns: Iterable[str], covering: Callable[[str, str], bool]) -> tuple[str, ...]:
    """The patterns, each once and without those that another one covers already.

    What a pattern covers begins with the text before its first wildcard, so that few need comparing. So many that no
    policy has room for them are left as they are: comparing them would take a minute.
    """
    unique = tuple(dict.fromkeys(patterns))
    if len(unique) > MOST_COMPARED:
        return unique
    by_beginning: dict[str, list[str]] = {}
    for pattern in unique:
        by_beginning.setdefault(_WILDCARD.split(pattern, maxsplit=1)[0], []).append(pattern)

    def is_covered(one: str) -> bool:
        return any(
            other != one and covering(other, one)
            for end in range(len(one) + 1)
            for other in by_beginning.get(one[:end], ())
        )

    return tuple(one for one in unique if not is_covered(one))


def _one_or_all(values: tuple[str, ...]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


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
