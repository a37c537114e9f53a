"""What the wildcards of IAM policies mean.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
"""

from __future__ import annotations

import re
from functools import lru_cache


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


def like(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern with `*` (any characters) and `?` (one)."""
    return _pattern(pattern).fullmatch(text) is not None


@lru_cache(maxsize=8192)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern), re.DOTALL)
