"""Private keys within a text, also cut ones. Loaded where a text names one."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BEGINS = r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_ENDS = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
# The end of a line, also in a text in JSON in JSON.
_BREAK = r"(?:[\r\n]|\\{1,7}[rn])"
# What may follow the beginning of a key whose end is not there: lines of base64, and headers.
_LINES = (
    rf"(?:[ \t]*{_BREAK}+[ \t]*(?:[A-Z][\w-]{{1,30}}: [^\r\n]*"
    rf"|[A-Za-z0-9+/=]{{16,}}(?!\w|[.-]\w)|[A-Za-z0-9+/=]+(?=[ \t\"']*(?:{_BREAK}|$))))*"
)
# A line of a key in a log, perhaps behind the time and the like.
_LINE = r"\s*(?:\S{1,40}\s+){0,3}[A-Za-z0-9+/=]*\s*"
_HEADER = r"\s*(?:[A-Z][\w-]{1,30}: |-----).*"
_LONGEST = 16 * 1024


def private_keys(text: str) -> Iterator[tuple[int, int]]:
    """The places of keys, up to their end lines. Without an end line, or with other text in between, a place goes as
    far as the text looks like a key, so that the rest of the message stays."""
    place = 0
    while begins := re.compile(_BEGINS).search(text, place):
        ends = re.compile(_ENDS).search(text, begins.end(), begins.end() + _LONGEST)
        last = re.compile(_LINES).match(text, begins.end())
        assert last is not None  # the lines may be none
        if ends is not None and _is_key(text[begins.end() : ends.start()]):
            last = ends
        yield begins.start(), last.end()
        place = last.end()


def _is_key(between: str) -> bool:
    return all(re.fullmatch(_LINE, line) or re.fullmatch(_HEADER, line) for line in re.split(rf"{_BREAK}+", between))
