"""Wildcards of IAM policies, case by case."""

import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.targets.sagemaker.permissions.policy import Statement, condensed, covers, fewest, like, minimal
from tests.fixtures.iam.evaluator import applies, decide, permissions
from tests.fixtures.iam.request import Request

ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:ListBucket")
PATTERNS = tuple(f"arn:aws:s3:::{key}" for key in ("a/*", "a/b/*", "a/b/c", "a/*/c", "b/*"))
RESOURCES = tuple(f"arn:aws:s3:::{key}" for key in ("a/x", "a/b/c", "a/b/d", "a/q/c", "b/x", "c/x"))
CONDITIONS = (
    {},
    {"StringLike": {"s3:prefix": ("p/*",)}},
    {"StringLike": {"s3:prefix": ("p/q/*", "r/*")}},
    {"StringEquals": {"aws:RequestedRegion": ("here",)}},
    {"StringEquals": {"aws:RequestedRegion": ("here",)}, "StringLike": {"s3:prefix": ("p/*",)}},
)
CONTEXTS = tuple(
    {"s3:prefix": prefix, "aws:RequestedRegion": region}
    for prefix, region in product(("p/q/x", "r/x"), ("here", "there"))
)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a?c", "abc", True),
        ("a?c", "ac", False),  # `?` is one character, and not none
        ("a?c", "abbc", False),
        ("a*c", "ac", True),
        ("a*c", "abbc", True),
        ("a*c", "acd", False),
        ("a.c", "abc", False),
        ("a*", "a\nb", True),
        ("a*bcd*", "abcbcbcd", True),  # what follows a `*` is tried from every place
        ("*aab", "aaab", True),  # from the very next one
        ("*a*", "", False),
        ("a**", "a", True),
        ("a?*", "a", False),
    ],
)
def test_a_text_is_like_a_pattern(pattern: str, text: str, matches: bool) -> None:
    assert like(pattern, text) is matches


def test_many_wildcards_take_no_exponential_time() -> None:
    began = time.process_time()
    assert not like("*a" * 30 + "b", "a" * 500)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("pattern", "resource", "means"),
    [
        ("*", "anything", True),
        ("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/a/b", True),
        ("arn:aws:s3:*:bucket", "arn:aws:s3:::bucket", False),  # `*` stays within its part
        ("arn:aws:*:eu:1:x", "arn:aws:s3:us:1:x", False),
        ("arn:aws:logs:eu:1:log-group:*", "arn:aws:logs:eu:1:log-group:a:log-stream:b", True),  # the last has colons
        ("arn:aws:logs:eu:1:log-group:a:*", "arn:aws:logs:eu:1:log-group:b:x", False),
        ("not an arn", "not an arn", True),
        ("not an *", "not an arn", False),
    ],
)
def test_a_pattern_means_a_resource(pattern: str, resource: str, means: bool) -> None:
    assert covers(pattern, resource) is means


def statements() -> st.SearchStrategy[Statement]:
    return st.builds(
        Statement,
        sid=st.sampled_from(("One", "Two")),
        actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2, unique=True).map(tuple),
        resources=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3, unique=True).map(tuple),
        conditions=st.sampled_from(CONDITIONS),
        reason=st.just("a test"),
    )


def requests() -> list[Request]:
    return [
        Request(role="me", action=action, resource=resource, why="a test", context=context)
        for action, resource, context in product(ACTIONS, RESOURCES, CONTEXTS)
    ]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(statements(), max_size=6))
def test_the_same_is_allowed(given_statements: list[Statement]) -> None:
    made = condensed(given_statements)
    for request in requests():
        assert decide(request, made) == decide(request, given_statements), request
    assert len({statement.sid for statement in made}) == len(made)
    assert len(condensed(made)) <= len(made)


@settings(max_examples=150, deadline=None)
@given(st.lists(statements(), max_size=6))
def test_no_permission_is_given_twice_under_the_same_conditions(given_statements: list[Statement]) -> None:
    parts = [part for statement in condensed(given_statements) for part in permissions(statement)]
    for n, part in enumerate(parts):
        for other in (*parts[:n], *parts[n + 1 :]):
            same = other.actions == part.actions and other.conditions == part.conditions
            asked = Request(role="me", action=part.actions[0], resource=part.resources[0], why="a test")
            free = Statement(sid="x", actions=other.actions, resources=other.resources, reason="a test")
            assert not (same and applies(free, asked)), (part, other)


def test_two_conditions_that_differ_are_not_mixed() -> None:
    """Here for one beginning, there for another: together they would allow the one there."""
    given_statements = [
        Statement(
            sid="One",
            actions=ACTIONS[:1],
            resources=PATTERNS[:1],
            conditions={"StringEquals": {"aws:RequestedRegion": (region,)}, "StringLike": {"s3:prefix": (prefix,)}},
            reason="a test",
        )
        for region, prefix in (("here", "p/*"), ("there", "r/*"))
    ]
    made = condensed(given_statements)
    for request in requests():
        assert decide(request, made) == decide(request, given_statements), request


def test_patterns_covered_by_others_are_removed() -> None:
    assert minimal(["arn:aws:s3:::a/b", "arn:aws:s3:::a/*", "arn:aws:s3:::b"]) == ("arn:aws:s3:::a/*", "arn:aws:s3:::b")
    assert minimal(["arn:aws:s3:::a/b", "*"]) == ("*",)
    assert fewest(["p/q/*", "p/*", "r", "r"]) == ("p/*", "r")
