"""IAM's documented rules, each as a request and a policy whose answer the documentation gives."""

from collections.abc import Mapping

import pytest

from drivetrain.targets.sagemaker.permissions.policy import Statement, covers
from tests.fixtures.iam.evaluator import conditions_hold, decide
from tests.fixtures.iam.request import Request

ME = "arn:aws:iam::123456789012:role/me"
OBJECT = "arn:aws:s3:::acme/pipelines/retraining/model.tar.gz"


def statement(
    actions: str | tuple[str, ...] = "s3:GetObject",
    resources: str | tuple[str, ...] = "arn:aws:s3:::acme/pipelines/*",
    **fields: object,
) -> Statement:
    return Statement(
        sid="S",
        actions=(actions,) if isinstance(actions, str) else actions,
        resources=(resources,) if isinstance(resources, str) else resources,
        reason="a test",
        **fields,  # type: ignore[arg-type]
    )


def request(action: str = "s3:GetObject", resource: str = OBJECT, **context: str | tuple[str, ...]) -> Request:
    named = {key.replace("__", ":"): value for key, value in context.items()}
    return Request(role=ME, action=action, resource=resource, why="a test", context=named)


def test_only_stated_actions_are_allowed() -> None:
    assert decide(request(), ()) == "implicitly denied"
    assert decide(request("s3:PutObject"), [statement()]) == "implicitly denied"
    assert decide(request(), [statement()]) == "allowed"


def test_a_deny_counts_before_every_allow() -> None:
    deny = statement(resources="arn:aws:s3:::acme/pipelines/retraining/*", effect="Deny")
    for order in ([statement(), deny], [deny, statement()]):
        assert decide(request(), order) == "explicitly denied"
    assert decide(request(resource="arn:aws:s3:::acme/pipelines/other/x"), [statement(), deny]) == "allowed"


def test_a_deny_under_conditions_that_do_not_hold_is_none() -> None:
    deny = statement(effect="Deny", conditions={"Bool": {"aws:SecureTransport": ("false",)}})
    assert decide(request(aws__SecureTransport="true"), [statement(), deny]) == "allowed"
    assert decide(request(aws__SecureTransport="false"), [statement(), deny]) == "explicitly denied"


def test_a_boundary_bounds_and_gives_nothing() -> None:
    wide = statement("s3:*", "*")
    assert decide(request(), [wide], boundary=[statement()]) == "allowed"
    assert decide(request("s3:PutObject"), [wide], boundary=[statement()]) == "implicitly denied"
    assert decide(request(), [], boundary=[statement()]) == "implicitly denied"
    assert decide(request(), [wide], boundary=[]) == "implicitly denied"
    assert decide(request(), [wide], boundary=[wide, statement(effect="Deny")]) == "explicitly denied"


def test_every_policy_of_the_organization_must_allow() -> None:
    wide = statement("*", "*")
    assert decide(request(), [statement()], service_control=[[wide], [wide]]) == "allowed"
    assert decide(request(), [statement()], service_control=[[wide], [statement("s3:PutObject")]]) == (
        "implicitly denied"
    )


@pytest.mark.parametrize(
    ("pattern", "action", "meant"),
    [
        ("s3:GetObject", "s3:getobject", True),
        ("s3:Get*", "s3:GetObject", True),
        ("s3:Get?bject", "s3:GetObject", True),
        ("s3:Get", "s3:GetObject", False),
        ("*", "iam:PassRole", True),
        ("s3:*", "s3express:GetObject", False),
    ],
)
def test_actions_have_wildcards_and_no_case(pattern: str, action: str, meant: bool) -> None:
    assert (decide(request(action), [statement(pattern)]) == "allowed") is meant


@pytest.mark.parametrize(
    ("pattern", "resource", "meant"),
    [
        ("arn:aws:s3:::acme/*", "arn:aws:s3:::acme/a/b/c", True),
        ("arn:aws:s3:::acme/*/train/*", "arn:aws:s3:::acme/x/y/train/z", True),
        ("arn:aws:s3:::acme/a", "arn:aws:s3:::acme/A", False),
        ("arn:aws:s3:::acme", "arn:aws:s3:::acme/a", False),
        ("arn:aws:s3:::acme/?", "arn:aws:s3:::acme/ab", False),
        ("arn:*:s3:::acme/a", "arn:aws-cn:s3:::acme/a", True),
        # A wildcard does not reach over the colons of the ARN's first parts...
        ("arn:aws:*:pipeline/x", "arn:aws:sagemaker:us-east-1:123456789012:pipeline/x", False),
        ("arn:aws:sagemaker:*:123456789012:pipeline/x", "arn:aws:sagemaker:us-east-1:123456789012:pipeline/x", True),
        # ... but over those of the last one.
        ("arn:aws:logs:r:1:log-group:/a:*", "arn:aws:logs:r:1:log-group:/a:log-stream:b", True),
        ("*", "arn:aws:s3:::acme/a", True),
        ("*", "*", True),
        ("arn:aws:s3:::acme/*", "*", False),
        # A text's own special characters mean themselves.
        ("arn:aws:s3:::acme/a.c", "arn:aws:s3:::acme/abc", False),
    ],
)
def test_resources_are_matched_part_by_part(pattern: str, resource: str, meant: bool) -> None:
    assert covers(pattern, resource) is meant


@pytest.mark.parametrize(
    ("operator", "wanted", "given", "holds"),
    [
        ("StringEquals", ("a", "b"), "b", True),
        ("StringEquals", ("a",), "A", False),
        ("StringEqualsIgnoreCase", ("a",), "A", True),
        ("StringNotEquals", ("a", "b"), "b", False),
        ("StringNotEquals", ("a", "b"), "c", True),
        ("StringLike", ("train/*",), "train/x/y", True),
        ("StringNotLike", ("train/*",), "test/x", True),
        ("ArnEquals", ("arn:aws:sns:*:1:t",), "arn:aws:sns:r:1:t", True),
        ("ArnNotLike", ("arn:aws:sns:*:1:t",), "arn:aws:sns:r:1:t", False),
        ("Bool", ("true",), "True", True),
        ("NumericLessThanEquals", ("5",), "5", True),
        ("NumericLessThan", ("5",), "5", False),
        ("NumericGreaterThan", ("5",), "5.5", True),
        ("NumericGreaterThanEquals", ("5",), "4", False),
        ("NumericEquals", ("5",), "5.0", True),
        ("NumericNotEquals", ("5",), "6", True),
        ("NumericEquals", ("5",), "five", False),
        ("IpAddress", ("10.0.0.0/8",), "10.1.2.3", True),
        ("NotIpAddress", ("10.0.0.0/8",), "11.1.2.3", True),
        ("IpAddress", ("10.0.0.0/8",), "nonsense", False),
        # A key that is not there: no operator holds but the negated ones and those that say so.
        ("StringEquals", ("a",), None, False),
        ("StringNotEquals", ("a",), None, True),
        ("StringEqualsIfExists", ("a",), None, True),
        ("StringEqualsIfExists", ("a",), "b", False),
        ("BoolIfExists", ("true",), None, True),
        ("Null", ("true",), None, True),
        ("Null", ("true",), "a", False),
        ("Null", ("false",), "a", True),
        # Sets of values.
        ("ForAllValues:StringEquals", ("a", "b"), ("a", "b", "a"), True),
        ("ForAllValues:StringEquals", ("a", "b"), ("a", "c"), False),
        ("ForAllValues:StringEquals", ("a",), None, True),
        ("ForAnyValue:StringLike", ("a*",), ("b", "abc"), True),
        ("ForAnyValue:StringLike", ("a*",), ("b",), False),
        ("ForAnyValue:StringLike", ("a*",), None, False),
        ("StringEquals", ("a",), ("a", "b"), False),
    ],
)
def test_condition_operators(
    operator: str, wanted: tuple[str, ...], given: str | tuple[str, ...] | None, holds: bool
) -> None:
    context: Mapping[str, str | tuple[str, ...]] = {} if given is None else {"aws:Key": given}
    assert conditions_hold({operator: {"AWS:key": wanted}}, context) is holds


def test_all_conditions_must_hold() -> None:
    both = {"StringEquals": {"a:one": ("1",), "a:two": ("2",)}}
    assert conditions_hold(both, {"a:one": "1", "a:two": "2"})
    assert not conditions_hold(both, {"a:one": "1", "a:two": "3"})
    assert not conditions_hold({**both, "Bool": {"a:b": ("true",)}}, {"a:one": "1", "a:two": "2"})


def test_an_operator_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="DateLessThan"):
        conditions_hold({"DateLessThan": {"aws:CurrentTime": ("2026-01-01",)}}, {"aws:CurrentTime": "2025"})
