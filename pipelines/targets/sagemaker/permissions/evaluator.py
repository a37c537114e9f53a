"""Whether IAM would allow a request: the documented evaluation, for the policies of one account, without an account.

    decide(request, role_policy, boundary=..., ...)  # -> "allowed", "implicitly denied", "explicitly denied"

A deny counts before everything. Else an identity's policy must allow the request, and so must the permissions
boundary and every service control policy, where there are any. Resource policies are not looked at: in one account
they only add, and what is derived here must do without.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal

from drivetrain.pipelines.targets.sagemaker.permissions.policy import Conditions, Request, Statement

Decision = Literal["allowed", "implicitly denied", "explicitly denied"]

_SETS = ("ForAllValues:", "ForAnyValue:")
_IF_EXISTS = "IfExists"


def decide(
    request: Request,
    statements: Iterable[Statement],
    *,
    boundary: Iterable[Statement] | None = None,
    service_control: Iterable[Iterable[Statement]] = (),
) -> Decision:
    """What IAM says to a request of a role with these statements.

    Args:
        boundary: the role's permissions boundary, which must allow the request, too; None where it has none.
        service_control: the organization's policies, each of which must allow it.

    Raises:
        ValueError: a condition operator that is not known here.
    """
    own = tuple(statements)
    limits = [tuple(limit) for limit in ((*service_control, boundary) if boundary is not None else service_control)]
    everything = [own, *limits]
    if any(s.effect == "Deny" and applies(s, request) for group in everything for s in group):
        return "explicitly denied"
    if all(any(s.effect == "Allow" and applies(s, request) for s in group) for group in everything):
        return "allowed"
    return "implicitly denied"


def applies(statement: Statement, request: Request) -> bool:
    """Whether a statement speaks of a request: by its action, its resource and all its conditions."""
    return (
        any(like(pattern.lower(), request.action.lower()) for pattern in statement.actions)
        and any(covers(pattern, request.resource) for pattern in statement.resources)
        and conditions_hold(statement.conditions, request.context)
    )


def covers(pattern: str, resource: str) -> bool:
    """Whether a resource pattern means a resource; `*` and `?` stay within a part of the ARN, but for the last one.

    Also tells whether one pattern covers another one.
    """
    if pattern == "*":
        return True
    wanted, given = pattern.split(":", 5), resource.split(":", 5)
    if len(wanted) != 6 or len(given) != 6:
        return pattern == resource
    return all(like(one, other) for one, other in zip(wanted, given, strict=True))


def conditions_hold(conditions: Conditions, context: Mapping[str, str | tuple[str, ...]]) -> bool:
    """Whether all operators and keys hold; context keys are compared without regard to case.

    Raises:
        ValueError: an operator that is not known here.
    """
    known = {key.lower(): value for key, value in context.items()}
    return all(
        _holds(operator, values, known.get(key.lower()))
        for operator, keys in conditions.items()
        for key, values in keys.items()
    )


def _holds(operator: str, wanted: tuple[str, ...], given: str | tuple[str, ...] | None) -> bool:
    if operator == "Null":
        return all((given is None) == (value.lower() == "true") for value in wanted)
    quantifier = next((each for each in _SETS if operator.startswith(each)), None)
    name = operator.removeprefix(quantifier or "")
    if_exists = name.endswith(_IF_EXISTS)
    name = name.removesuffix(_IF_EXISTS)
    negated = name in _NEGATED
    compare = _OPERATORS.get(_NEGATED.get(name, name))
    if compare is None:
        raise ValueError(f"The condition operator {operator!r} is not known here. Known: {', '.join(_OPERATORS)}.")

    def one(value: str) -> bool:
        return any(compare(each, value) for each in wanted) != negated

    if given is None:
        # A negated operator holds for a key that is not there; for-all-values holds for no values.
        return if_exists or negated or quantifier == "ForAllValues:"
    values = (given,) if isinstance(given, str) else given
    if quantifier == "ForAllValues:":
        return all(one(value) for value in values)
    if quantifier == "ForAnyValue:":
        return any(one(value) for value in values)
    return len(values) == 1 and one(values[0])


@lru_cache(maxsize=8192)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern), re.DOTALL)


def like(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern with `*` (any characters) and `?` (one)."""
    return _pattern(pattern).fullmatch(text) is not None


def _in_network(network: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _number(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    def compared(wanted: str, given: str) -> bool:
        try:
            return compare(float(given), float(wanted))
        except ValueError:
            return False

    return compared


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, given: wanted == given,
    "StringEqualsIgnoreCase": lambda wanted, given: wanted.lower() == given.lower(),
    "StringLike": like,
    # ArnEquals and ArnLike are documented to behave alike.
    "ArnEquals": covers,
    "ArnLike": covers,
    "Bool": lambda wanted, given: wanted.lower() == given.lower(),
    "NumericEquals": _number(lambda given, wanted: given == wanted),
    "NumericLessThan": _number(lambda given, wanted: given < wanted),
    "NumericLessThanEquals": _number(lambda given, wanted: given <= wanted),
    "NumericGreaterThan": _number(lambda given, wanted: given > wanted),
    "NumericGreaterThanEquals": _number(lambda given, wanted: given >= wanted),
    "IpAddress": _in_network,
}
_NEGATED = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NumericNotEquals": "NumericEquals",
    "NotIpAddress": "IpAddress",
}
