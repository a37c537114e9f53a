"""How a secret is written in other texts: in JSON, Python, a shell, a URL. Loaded where there is a secret, or a `%`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

_LONG_LINE = 16
# A text in a URL from its first quoted letter on: password%3Dabc
_QUOTED = r"%[0-9A-Fa-f]{2}[^\s\"'<>]*"
# So far the text before that is looked at.
_BEFORE = 100


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
