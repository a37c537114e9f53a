"""Whether something is a secret, told by its name: refused in a pipeline, and masked in what a run leaves behind."""

from __future__ import annotations

import re
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
