"""The comments that reviewers wrote into a patch: they are kept when it is written again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

_COMMENT = re.compile("#[^\r\n\x85\u2028\u2029]*")

NO_EDIT = ""
"""Stands for the place of what belongs to no edit."""


def comments(text: str) -> dict[str, tuple[str, ...]]:
    """Place of an edit, as it is written, -> the comments above it, beside it and in it; in the text of a patch."""
    import yaml

    if "#" not in text:
        return {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    edits = _edits(yaml.compose(text, Loader=loader))
    starts = [node.start_mark.line for node, _ in edits]
    end = max((node.end_mark.line for node, _ in edits), default=0)
    found: dict[str, list[str]] = {}
    for line, comment in _comments(text, list(yaml.scan(text, Loader=loader))):
        at = bisect_right(starts, line) - 1
        found.setdefault(edits[at][1] if at >= 0 and line < end else NO_EDIT, []).append(comment)
    return {place: tuple(said) for place, said in found.items()}


def _edits(root: Any) -> list[tuple[Any, str]]:
    """The node of every edit, and its place."""
    fields = {key.value: value for key, value in root.value}
    items = fields["edits"].value
    return [(item, next(str(value.value) for key, value in item.value if key.value == "place")) for item in items]


def _comments(text: str, tokens: list[Any]) -> Iterator[tuple[int, str]]:
    """Every comment, and the line of what it is about: its own, or that of what follows where it stands alone."""
    for before, after in pairwise(tokens):
        # Between tokens there are only spaces, line breaks and comments.
        for comment in _COMMENT.finditer(text, before.end_mark.index, after.start_mark.index):
            is_beside = "\n" not in text[before.end_mark.index : comment.start()] and before.end_mark.column > 0
            yield (before.end_mark if is_beside else after.start_mark).line, comment.group().rstrip()
