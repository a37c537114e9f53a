"""How secrets stand in texts: as written in JSON, Python, a shell or a URL; private keys; tokens of Discord's bots.

Loaded where there is a secret, or a text may hold one of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

_LONG_LINE = 16
# A text in a URL from its first quoted letter on: password%3Dabc
_QUOTED = r"%[0-9A-Fa-f]{2}[^\s\"'<>]*"
# So far the text before that is looked at.
_BEFORE = 100
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
_LONGEST_KEY = 16 * 1024
# A token of Discord's begins with the bot's number in base64, and so with nothing that a text could be searched for.
# Its second part, between two dots, is searched for.
_OTHER_PARTS = r"\.[\w-]{6}\.[\w-]{27,}"
_FIRST_PART = r"(?:M[Tjz]|N[DTjz]|O[DT])[\w-]{21,26}"
_LONGEST_PART, _SHORTEST_PART = 28, 23


@lru_cache(maxsize=256)  # those of the environment are asked for with each text
def writings(secret: str) -> frozenset[str]:
    """A secret as it stands in a text, in JSON, in Python, in a shell and in a URL."""
    from json import dumps

    in_json = {dumps(secret)[1:-1], dumps(secret, ensure_ascii=False)[1:-1]}
    in_shell = {secret.replace("'", how) for how in ("'\"'\"'", "'\\''")}
    in_shell |= {re.sub(r"([^\w./:=@%+,-])", r"\\\1", secret), re.sub(r"([\\$\"`])", r"\\\1", secret)}
    in_python = {repr(secret)[1:-1], ascii(secret)[1:-1], repr(secret.encode("utf-8", "surrogateescape"))[2:-1]}
    in_python |= {repr(one)[1:-1] for one in (repr(secret), dumps(secret))}
    again = {dumps(one)[1:-1] for one in in_json}
    # A key of several lines is printed line by line, too.
    lines = {line for line in secret.splitlines() if len(line) >= _LONG_LINE}
    return frozenset({secret, *in_json, *again, *in_python, *in_shell, *_in_urls(secret), *lines})


def quoted_secrets(text: str, secrets_in: Callable[[str], list[str]]) -> Iterator[tuple[int, int]]:
    """The places of what `secrets_in` finds in the unquoted text, in each way of quoting it."""
    for match in re.finditer(_QUOTED, text):
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        begins = match.start() - len(re.split(r"[\s\"'<>]", before)[-1])
        quoted = text[begins : match.end()].replace("+", " ").encode("utf-8", "surrogateescape")
        plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda code: bytes([int(code[1], 16)]), quoted)
        for secret in secrets_in(plain.decode("utf-8", "surrogateescape")):
            for writing in _in_urls(secret):
                yield from (
                    found.span() for found in re.compile(re.escape(writing)).finditer(text, begins, match.end())
                )


def _in_urls(secret: str) -> set[str]:
    """A secret as it stands in a URL."""
    quoted = "".join(
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or byte in b"_.-~" else f"%{byte:02X}"
        for byte in secret.encode("utf-8", "surrogateescape")
    )
    return {quoted, quoted.replace("%20", "+"), quoted.replace("%2F", "/")}


def private_keys(text: str) -> Iterator[tuple[int, int]]:
    """The places of private keys, also cut ones, up to their end lines. Without an end line, or with other text in
    between, a place goes as far as the text looks like a key, so that the rest of the message stays."""
    place = 0
    while begins := re.compile(_BEGINS).search(text, place):
        ends = re.compile(_ENDS).search(text, begins.end(), begins.end() + _LONGEST_KEY)
        last = re.compile(_LINES).match(text, begins.end())
        assert last is not None  # the lines may be none
        if ends is not None and _is_key(text[begins.end() : ends.start()]):
            last = ends
        yield begins.start(), last.end()
        place = last.end()


def _is_key(between: str) -> bool:
    return all(re.fullmatch(_LINE, line) or re.fullmatch(_HEADER, line) for line in re.split(rf"{_BREAK}+", between))


def discord_tokens(text: str, begins_at: Callable[[str, int], bool]) -> Iterator[tuple[int, int]]:
    """The places of tokens of Discord's bots.

    Args:
        begins_at: True where a word may begin.
    """
    for rest in re.finditer(_OTHER_PARTS, text):
        for place in range(max(0, rest.start() - _LONGEST_PART), rest.start() - _SHORTEST_PART + 1):
            if re.compile(_FIRST_PART).fullmatch(text, place, rest.start()) and begins_at(text, place):
                yield place, rest.end()
                break
