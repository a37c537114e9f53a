"""The service's patterns, which are written for Java, read by Python's `re`.

    matches(r"[\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]*", "kosten: müller")  -> True

A pattern is translated and compiled once, when a value is first held against it. Differences that remain: Java's `.`
also stops at \\r, U+0085, U+2028 and U+2029; here it does not, so that we refuse less than the service, never more.
"""

from __future__ import annotations

import re
from functools import lru_cache

# None of the service's patterns needs more than linear time for a value of this length (a test measures every one);
# longer values are refused by their maximum length or not held against the pattern at all.
MAX_CHARACTERS = 16_384

# Java's Unicode classes, here with their ASCII members; the others are added as a value brings them.
_ASCII_MEMBERS = {
    "L": "a-zA-Z",
    "M": "",
    "N": "0-9",
    "P": r"!-#%-*,-/:;?@\[-\]_{}",
    "S": r"$+<=>\^`|~",
    "Z": " ",
    "Alnum": "a-zA-Z0-9",
}
_CLASS = re.compile(r"\\p\{(\w+)\}")
# `$` cannot be repeated in Python; after it there is nothing to match, so its count says nothing.
_REPEATED_END = re.compile(r"\$\{\d+,\d*\}")
# Java reads a pair of surrogates as the code point that it encodes.
_SURROGATE_RANGE = r"\uD800\uDC00-\uDBFF\uDFFF"


def matches(pattern: str, value: str) -> bool:
    """Whether the whole value matches, as the service means it."""
    if len(value) > MAX_CHARACTERS:
        return True
    extra = "" if value.isascii() or r"\p{" not in pattern else "".join(sorted({c for c in value if not c.isascii()}))
    return _compiled(pattern, extra).fullmatch(value) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str, extra: str) -> re.Pattern[str]:
    """The pattern, its Unicode classes holding the ASCII members and those of `extra`.

    Python's re knows no \\p{...}, and spelling the classes out takes thousands of ranges; the few characters beyond
    ASCII that one value has are enough to decide about it.
    """

    def members(found: re.Match[str]) -> str:
        name = found.group(1)
        return _ASCII_MEMBERS[name] + "".join(re.escape(c) for c in extra if _category(c).startswith(name))

    pattern = _REPEATED_END.sub("$", pattern).replace(_SURROGATE_RANGE, r"\U00010000-\U0010FFFF")
    return re.compile(_CLASS.sub(members, pattern), re.ASCII)


def _category(character: str) -> str:
    import unicodedata

    return unicodedata.category(character)
