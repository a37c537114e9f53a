"""Secrets that a text gives to their names: `API_KEY=...`, `"password": "..."`, `--token ...`.

Loaded where a text has a word of such a name. Numbers, placeholders, and names in code or words of sentences are left.
"""

from __future__ import annotations

import os
import re

from drivetrain.base.masking import MASK, is_number, looks_secret, looks_weak

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
# Words that stand where a secret could.
_NO_SECRETS = frozenset([
    "true", "false", "none", "null", "nil", "yes", "no", "on", "off", "undefined", "required", "missing",
    "invalid", "expired", "empty", "set", "unset", "str", "int", "float", "bool", "bytes", "any", "optional",
    "string", "self", "bearer", "basic", "digest", "negotiate", "is", "are", "was", "not", "has", "for", "in",
    "of", "and", "or", "to", "from",
])  # fmt: skip
_CODE = r"[A-Za-z_][A-Za-z_.]*|(?:np|torch|numpy)\.\w+"
_PLACEHOLDER = r"[$%]?$|\$[({]|\$[A-Z_]+\b|%[({sdr]|%[A-Z_]+%|<[\w |/-]*>?$"


def without_named(text: str, found: list[str]) -> str:
    """The text with `***` for the values that it gives to names of secrets: `API_KEY=...`, `"password": "..."`,
    `--token ...`, `Authorization: Basic ...`, and the password of `curl -u name:password`."""

    def after(match: re.Match[str]) -> str:
        if _says_nothing(match.group(2)):
            return match.group()
        found.append(match.group(2))
        return match.group(1) + MASK

    text = re.sub(_SCHEMES, after, text)
    if "curl" in text:
        text = re.sub(_CURL_USER, after, text)
    kept: list[str] = []
    place = 0
    for name in re.finditer(_NAME, text):
        if name.start() < place or not looks_secret(name.group(2)):
            continue
        value = re.compile(_VALUE).match(text, name.end())
        if value is None or (secret := _secret_in(text, name, value)) is None:
            continue
        begins, ends = secret
        found.append(text[begins:ends])
        kept += (text[place:begins], MASK)
        place = ends
    return "".join((*kept, text[place:]))


def _secret_in(text: str, name: re.Match[str], value: re.Match[str]) -> tuple[int, int] | None:
    """Where in the text the secret of a name begins and ends; None where the value is none."""
    given = value.group()
    begins, ends = value.span()
    if quoted := re.match(r"[bBfFrRuU]{0,2}(\\?[\"'])", given):
        begins, ends = begins + quoted.end(), ends - len(quoted.group(1))
    else:
        ends -= len(given) - len(given.rstrip(".:!?"))
    secret, named = text[begins:ends], name.group(2)
    flag, upper = name.group(1), named.isupper()
    if _says_nothing(secret) or secret.lower() in named.lower() or (flag and ":" in name.group(3)):
        return None
    if not upper and not flag and looks_weak(named) and not _is_random(secret):
        return None
    if not quoted and not flag and not upper and re.fullmatch(_CODE, secret):
        # A name in code, or a word of a sentence.
        rest = text[value.end() :].partition("\n")[0]
        after_colon = ":" in name.group(3) and rest.strip()
        if "." in secret or rest[:1] in ("(", "[", ")", ",", "]") or after_colon:
            return None
    return begins, ends


def _is_random(value: str) -> bool:
    """Whether a value looks like a token and no word, path or address."""
    return len(value) >= 20 or (len(value) >= 8 and any(letter.isdigit() for letter in value))


def _says_nothing(value: str) -> bool:
    """Whether a value is no secret: a number, a word that says that there is one, a variable, a file, a mask."""
    return (
        value.lower() in _NO_SECRETS
        or MASK in value
        or re.match(_PLACEHOLDER, value) is not None
        or value.startswith("arn:")
        or (value.startswith("/") and os.path.exists(value))
        or is_number(value)
        or (value.isupper() and value.isidentifier() and not any(letter.isdigit() for letter in value))  # in a usage
    )
