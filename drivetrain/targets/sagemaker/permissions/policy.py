"""IAM policies as plain values: statements, the policy of a role, and what their wildcards match.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
