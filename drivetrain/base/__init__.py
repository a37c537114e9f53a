"""Errors, texts and files: what every room may use. Standard library only."""

from __future__ import annotations


def partition_of(region: str) -> str:
    """The partition of AWS that a region belongs to, which ARNs name.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
    """
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
