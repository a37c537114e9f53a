"""Secrets, told by their name or by their shape: refused in a pipeline, and masked in what a run leaves behind.

By shape, whatever their name: credentials in URLs, keys of services, private keys, JWTs. Each pattern takes linear
time, for it begins with a literal that it cannot meet again before it has ended. The standard library only, and quick
to import, since the supervisors of steps use it: `re` compiles a pattern, and keeps it, when a text has the literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

# Whole words only, after splitting names like apiKey, API_KEY and api-key: max_tokens and tokenizer are no secrets.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    [
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "credential",
        "credentials",
        "token",
        "apikey",
        "auth",
        "authorization",
    ]
)
# Unmistakable inside longer words, too: dbpassword, APITOKEN, MYSECRET.
_SECRET_PARTS = ("secret", "password", "passwd", "passphrase", "credential", "apikey", "apitoken", "authtoken")
_KEY_OWNERS = frozenset(["access", "api", "private", "secret", "account", "encryption", "signing", "license", "ssh"])
# eos_token, pad_token: words of a tokenizer's vocabulary.
_VOCABULARY = frozenset(
    ["eos", "bos", "pad", "unk", "sep", "cls", "mask", "special", "additional", "stop", "start", "end", "per"]
)


@lru_cache(maxsize=4096)
def looks_secret(name: str) -> bool:
    """Whether a variable, parameter or flag of this name would hold a secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if any(part in word for part in _SECRET_PARTS):
            return True
        if word in _SECRET_WORDS and not (word == "token" and before in _VOCABULARY):
            return True
        if word in ("key", "keys") and before in _KEY_OWNERS:
            return True
    return False


MASK = "***"
# https://user:password@host, and https://TOKEN@host
_IN_URL = r"://(?:([^/\s:@\"<>]*:)([^/\s@\"<>]+)|([\w-]{20,}))@"
# The names of signatures in the query of a signed URL; others look like secrets by themselves.
_SIGNATURES = frozenset(["sig", "signature", "x-amz-signature", "x-goog-signature"])
_IN_QUERY = r"(?<=[?&])([\w.-]{1,64}=)([^&\s\"'<>#]+)"
# Literals, one of which stands in every text that the pattern fits, and the pattern.
_SHAPES = (
    (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    (("glpat-",), r"\bglpat-[\w-]{20,}"),
    (("xox",), r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    (("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    (("eyJ",), r"(?<![\w.-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
)
# One of these stands in every text that has a secret's shape.
_LITERALS = ("://", "PRIVATE KEY", *(literal for literals, _ in _SHAPES for literal in literals))
_KEY_BEGINS = r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_KEY_ENDS = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
# What may follow the beginning of a key whose end is not there: lines of base64, and headers.
_KEY_LINES = r"(?:[ \t]*(?:[\r\n]|\\[rn])+(?:[A-Z][\w-]{1,30}: [^\r\n]*|[A-Za-z0-9+/=]+(?![^\s\\])))*"


def without(text: str, secrets: Iterable[str], found: list[str] | None = None) -> str:
    """The text with `***` for these secrets (the longer ones first), and for what has the shape of one; what was
    masked is added to `found`."""
    found = [] if found is None else found
    for secret in secrets:
        if secret in text:
            found.append(secret)
            text = text.replace(secret, MASK)
    return without_shapes(text, found)


def without_shapes(text: str, found: list[str] | None = None) -> str:
    """The text with `***` for what has the shape of a secret; a password's or token's own text is added to `found`."""
    for literal in _LITERALS:
        if literal in text:
            return _without_shapes(text, [] if found is None else found)
    return text


def _without_shapes(text: str, found: list[str]) -> str:
    def in_url(match: re.Match[str]) -> str:
        user, password, token = match.groups()
        found.append(password or token)
        return f"://{user or ''}{MASK}@"

    def in_query(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name[:-1].lower() not in _SIGNATURES and not looks_secret(name[:-1]):
            return match.group()
        found.append(value)
        return name + MASK

    def whole(match: re.Match[str]) -> str:
        found.append(match.group())
        return MASK

    if "://" in text:
        text = re.sub(_IN_QUERY, in_query, re.sub(_IN_URL, in_url, text))
    for literals, pattern in _SHAPES:
        if any(literal in text for literal in literals):
            text = re.sub(pattern, whole, text)
    return _without_keys(text, found) if "PRIVATE KEY" in text else text


def _without_keys(text: str, found: list[str]) -> str:
    """Private keys go up to their ends; where there is none, as far as what follows looks like a key: a message that
    names such a line takes nothing else with it."""
    kept: list[str] = []
    place, has_end = 0, True
    while begins := re.compile(_KEY_BEGINS).search(text, place):
        ends = re.compile(_KEY_ENDS).search(text, begins.end()) if has_end else None
        has_end = ends is not None
        last = ends or re.compile(_KEY_LINES).match(text, begins.end())
        assert last is not None  # the lines may be none
        found.append(text[begins.start() : last.end()])
        kept += (text[place : begins.start()], MASK)
        place = last.end()
    return "".join((*kept, text[place:]))
