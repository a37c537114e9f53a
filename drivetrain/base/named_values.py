"""Values that a text gives to names: `API_KEY=...`, `"password": "..."`, `--token ...`.

Loaded where a text has a word of a secret's name. Placeholders, names in code and words of sentences are no values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# What stands before a value within a text: NAME=, name: , {"name": , --name
_BETWEEN = (
    r"(\\?[\"']?\]?[ \t]{0,8}(?:=>|:=|=(?![=~])|:(?![:=]))[ \t]{0,8}"
    r"|(?(1)(?:[ \t]{1,3}(?=[^\s=:-])|\\?[\"'],[ \t]{1,3}(?=\\?[\"']))|(?!)))"
)
_NAME = r"(?<![\w.:-])(-{1,2})?([A-Za-z_][\w.-]{0,63})" + _BETWEEN
_VALUE = (
    r"[bBfFrRuU]{0,2}(?:\\\"(?:[^\"\\\n]|\\[^\"\n]){1,4096}\\\"|\"(?:[^\"\\\n]|\\.){1,4096}\"|'(?:[^'\\\n]|\\.){1,4096}')"
    r"|[^\s\"'<>{}\[\](),;&|]+"
)
_SCHEMES = (
    r"(?i)\b((?:Bearer|Authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?[A-Za-z]{3,20})[ \t]{1,3})([\w.~+/=-]{8,})"
)
_CURL_USER = r"((?<!\S)(?:-u|--user|--proxy-user|-U)[ =]?[\"']?[^\s:\"']{0,200}:)([^\s\"']+)"
# Words that stand where a value could.
_NO_VALUES = frozenset([
    "true", "false", "none", "null", "nil", "yes", "no", "on", "off", "undefined", "required", "missing",
    "invalid", "expired", "empty", "set", "unset", "str", "int", "float", "bool", "bytes", "any", "optional",
    "string", "self", "bearer", "basic", "digest", "negotiate", "is", "are", "was", "not", "has", "for", "in",
    "of", "and", "or", "to", "from",
])  # fmt: skip
# So far a line is looked at behind a value.
_SOON = 80
_CODE = r"[A-Za-z_][A-Za-z_.]*|(?:np|torch|numpy)\.\w+"
_PLACEHOLDER = r"[$%]?$|\$[({]|\$[A-Z_]+\b|%[({sdr]|%[A-Z_]+%|<[\w |/-]*>?$"


class Named(NamedTuple):
    """A value in a text: its name, its place, and whether the name alone says enough (of a variable, a flag, a scheme
    of HTTP)."""

    name: str
    begins: int
    ends: int
    certain: bool


def named_values(text: str, wanted: Callable[[str], bool]) -> Iterator[Named]:
    """The values of the names that are `wanted`, and of `Authorization: SCHEME ...`, `Bearer ...` and
    `curl -u user:...`, in the order of their places."""
    found = [_after(text, match) for match in re.finditer(_SCHEMES, text)]
    if "curl" in text:
        found += [_after(text, match) for match in re.finditer(_CURL_USER, text)]
    for name in re.finditer(_NAME, text):
        if wanted(name.group(2)) and (value := re.compile(_VALUE).match(text, name.end())):
            found.append(_of_name(text, name, value))
    yield from sorted((one for one in found if one is not None), key=lambda one: one.begins)


def _after(text: str, match: re.Match[str]) -> Named | None:
    begins, ends = match.span(2)
    return None if _says_nothing(text[begins:ends]) else Named(match.group(1), begins, ends, True)


def _of_name(text: str, name: re.Match[str], value: re.Match[str]) -> Named | None:
    given = value.group()
    begins, ends = value.span()
    if quoted := re.match(r"[bBfFrRuU]{0,2}(\\?[\"'])", given):
        begins, ends = begins + quoted.end(), ends - len(quoted.group(1))
    else:
        ends -= len(given) - len(given.rstrip(".:!?"))
    inner, named, flag = text[begins:ends], name.group(2), name.group(1)
    if _says_nothing(inner) or inner.lower() in named.lower() or (flag and ":" in name.group(3)):
        return None
    certain = bool(flag) or named.isupper()
    if not quoted and not certain and re.fullmatch(_CODE, inner):
        # A name in code, or a word of a sentence.
        rest = text[value.end() : value.end() + _SOON].partition("\n")[0]
        after_colon = ":" in name.group(3) and rest.strip()
        if "." in inner or rest[:1] in ("(", "[", ")", ",", "]") or after_colon:
            return None
    return Named(named, begins, ends, certain)


def _says_nothing(value: str) -> bool:
    """True of a word that says that there is a value, a variable, a file that exists, an ARN."""
    return (
        value.lower() in _NO_VALUES
        or re.match(_PLACEHOLDER, value) is not None
        or value.startswith("arn:")
        or (value.startswith("/") and os.path.exists(value))
        or (value.isupper() and value.isidentifier() and not any(letter.isdigit() for letter in value))  # in a usage
    )
