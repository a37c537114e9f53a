"""Wildcards of IAM policies, case by case."""

import time

import pytest

from drivetrain.targets.sagemaker.permissions.policy import covers, like


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
