"""Tokens of Discord's bots within a text. Loaded where a text may have one.

They begin with the bot's number in base64, and so with nothing that a text could be searched for: what is searched for
is the second part, between two dots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_REST = r"\.[\w-]{6}\.[\w-]{27,}"
_FIRST_PART = r"(?:M[Tjz]|N[DTjz]|O[DT])[\w-]{21,26}"
_LONGEST, _SHORTEST = 28, 23


def discord_tokens(text: str, begins_at: Callable[[str, int], bool]) -> Iterator[tuple[int, int]]:
    """The places of tokens.

    Args:
        begins_at: True where a word may begin.
    """
    for rest in re.finditer(_REST, text):
        for place in range(max(0, rest.start() - _LONGEST), rest.start() - _SHORTEST + 1):
            if re.compile(_FIRST_PART).fullmatch(text, place, rest.start()) and begins_at(text, place):
                yield place, rest.end()
                break
