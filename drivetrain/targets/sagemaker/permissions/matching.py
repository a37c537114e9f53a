"""Match the wildcards of IAM policies.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
"""

from __future__ import annotations


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
