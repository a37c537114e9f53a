"""Secrets, told by name or by shape: refused in a pipeline, and kept out of everything that is kept or shown.

A secret does not belong in a definition (the service shows its parameters and environment to whoever may describe the
pipeline), but people put them there all the same. What looks like one by its name is passed to the program and to
nothing else; where its value turns up under another name, or in a message, it is masked as well. So is what looks like
one by its shape, whatever its name (credentials in URLs, keys of services, private keys, JWTs), and the value of each
variable of this process whose name looks like a secret's.

A message and a log are also searched for values under the names of secrets (`--password=...`, `{"api_key": "..."}`).

Each pattern takes linear time: it begins with a literal that it cannot meet again before it has ended, or is bounded.
The standard library only, and quick to import, since the supervisors of steps use it: `re` compiles a pattern, and
keeps it, when a text has the literal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

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
_KEY_OWNERS = frozenset([
    "access", "api", "private", "secret", "account", "encryption", "signing", "license", "ssh",
    "openai", "anthropic", "stripe", "sendgrid", "jwt",
])  # fmt: skip
_PASS_OWNERS = frozenset(
    ["db", "smtp", "mail", "email", "user", "admin", "root", "mysql", "pg", "postgres", "redis", "ftp"]
)
# Of these alone many things are named that are no secrets: token_type, auth_method.
_WEAK = frozenset(["token", "auth", "authorization"])
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
        if (word in ("key", "keys") and before in _KEY_OWNERS) or (word == "pass" and before in _PASS_OWNERS):
            return True
    return False


@lru_cache(maxsize=4096)
def _looks_weak(name: str) -> bool:
    """True where only weak words make a name look like a secret's."""
    words = [word.lower() for word in _WORDS.findall(name)]
    strong = "_".join(word for word in words if word not in _WEAK)
    joined = "".join(words)
    return not looks_secret(strong) and not any(part in joined for part in _SECRET_PARTS)


MASK = "***"
# https://user:password@host, and https://TOKEN@host
_IN_URL = r"://(?:([^/\s:@\"<>]*:)([^/\s@\"<>]+)|([\w-]{20,}))@"
# The names of signatures in the query of a signed URL; others look like secrets by themselves.
_SIGNATURES = frozenset(["sig", "signature", "x-amz-signature", "x-goog-signature"])
_IN_QUERY = r"(?<=[?&])([\w.-]{1,64}=)([^&\s\"'<>#]+)"
# Literals, one of which stands in every text that the pattern fits, and the pattern: keys as their issuers print them.
_SHAPES = (
    (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    (("FwoG", "IQoJ"), r"(?<![\w+/])(?:FwoG|IQoJ)[\w+/]{100,}={0,2}"),  # session tokens of AWS
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    (("gl",), r"\bgl(?:pat|rt|dt|ptt|ft|soat|cbt|agent|imt|oas)-[\w-]{20,}"),
    (("xox", "xapp-"), r"\bx(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,}"),
    (("hooks.slack.com/",), r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/+-]{16,}"),
    (("discord",), r"(?<=/webhooks/)\d{5,}/[\w-]{20,}"),
    (("hf_", "api_org_"), r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    (("sk-",), r"(?<![\w-])sk-(?=[\w-]*\d)[\w-]{20,}"),  # OpenAI, Anthropic
    (("AIza",), r"(?<![\w-])AIza[\w-]{35}"),
    (("ya29.",), r"(?<![\w-])ya29\.[\w-]{20,}"),
    (("GOCSPX-",), r"(?<![\w-])GOCSPX-[\w-]{20,}"),
    (("k_live_", "k_test_"), r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"),  # Stripe
    (("SG.",), r"(?<![\w-])SG\.[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    (("SK",), r"\bSK[0-9a-f]{32}\b"),  # Twilio
    (("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    (("pypi-",), r"(?<![\w-])pypi-[\w-]{40,}"),
    (("dapi",), r"\bdapi[0-9a-f]{32}\b(?:-\d+)?"),  # Databricks
    (("hvs.", "hvb.", "hvr."), r"(?<![\w-])hv[sbr]\.[\w-]{20,}"),  # Vault
    (("_v1_",), r"\bdo[por]_v1_[0-9a-f]{40,}"),  # DigitalOcean
    (("dp.",), r"(?<![\w-])dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,40}\.)?[A-Za-z0-9]{40,}"),  # Doppler
    (("AGE-SECRET-KEY-1",), r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    (("sig=",), r"(?<![\w-])(?<=sig=)[A-Za-z0-9%+/=]{20,}"),  # Azure
    (("eyJ",), r"(?<![\w.-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
)
# One of these stands in every text that has a secret's shape.
_LITERALS = ("://", "PRIVATE KEY", *(literal for literals, _ in _SHAPES for literal in literals))
_KEY_BEGINS = r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_KEY_ENDS = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
# What may follow the beginning of a key whose end is not there: lines of base64, and headers.
_KEY_LINES = (
    r"(?:[ \t]*(?:[\r\n]|\\[rn])+[ \t]*(?:[A-Z][\w-]{1,30}: [^\r\n]*|[A-Za-z0-9+/=]+(?=[ \t\"']*(?:[\r\n]|\\[rn]|$))))*"
)
# A line of a key in a log, perhaps behind the time and the like.
_KEY_LINE = r"\s*(?:\S{1,40}\s+){0,3}[A-Za-z0-9+/=]*\s*"
_LONGEST_KEY = 16 * 1024


# A text that names a secret has one of these, in small letters.
_HINTS = ("passw", "passphrase", "_pass", "pwd", "secret", "token", "credential", "apikey", "key", "auth", "curl")
# With a unit, bounds, of a total, a date or a time.
_UNIT = r"%|[munµ]?s|min|[hdx]|[kmgt]i?b?(?:/s)?|b|it/s|/s"
_NUMBER = r"[-+±]?(?:nan|inf|infinity)|[-+±]?[\d.][\d.,_/±:+-]*(?:e[-+]?\d+)?(?:±[\d.]+)?(?:" + _UNIT + ")?"


def without(text: str, secrets: Iterable[str], found: list[str] | None = None) -> str:
    """The text with `***` for these secrets (the longer ones first), for what has the shape of one, and for what stands
    in it under the name of one; what was masked is added to `found`."""
    found = [] if found is None else found
    for secret in secrets:
        if secret in text:
            found.append(secret)
            text = text.replace(secret, MASK)
    small = text.lower()
    for hint in _HINTS:
        if hint in small:
            text = _without_named(text, found)
            break
    return without_shapes(text, found)


def _without_named(text: str, found: list[str]) -> str:
    """The text with `***` for the values that it gives to names of secrets."""
    from drivetrain.base.named_values import named_values

    kept: list[str] = []
    place = 0
    for name, begins, ends, certain in named_values(text, looks_secret):
        value = text[begins:ends]
        if begins < place or MASK in value or _is_number(value):
            continue
        if certain or not _looks_weak(name) or _is_random(value):
            found.append(value)
            kept += (text[place:begins], MASK)
            place = ends
    return "".join((*kept, text[place:]))


def _is_random(value: str) -> bool:
    """True of what looks like a token rather than a word, a path or an address."""
    return len(value) >= 20 or (len(value) >= 8 and any(letter.isdigit() for letter in value))


def _is_number(value: str) -> bool:
    """True of a number, also with a unit or bounds, of a total, a date or a time."""
    return re.fullmatch(_NUMBER, value, re.IGNORECASE) is not None


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
    """Private keys go up to their ends; where there is none, or where what stands between is no key, as far as what
    follows looks like a key: a message that names such a line takes nothing else with it."""
    kept: list[str] = []
    place = 0
    while begins := re.compile(_KEY_BEGINS).search(text, place):
        ends = re.compile(_KEY_ENDS).search(text, begins.end(), begins.end() + _LONGEST_KEY)
        last = re.compile(_KEY_LINES).match(text, begins.end())
        assert last is not None  # the lines may be none
        if ends is not None and _is_key(text[begins.end() : ends.start()]):
            last = ends
        found.append(text[begins.start() : last.end()])
        kept += (text[place : begins.start()], MASK)
        place = last.end()
    return "".join((*kept, text[place:]))


def _is_key(between: str) -> bool:
    lines = re.split(r"[\r\n]+|\\[rn]", between)
    headers = r"\s*(?:[A-Z][\w-]{1,30}: |-----).*"
    return all(re.fullmatch(_KEY_LINE, line) or re.fullmatch(headers, line) for line in lines)


# Shorter values (true, admin, 1234) stand in other places by chance.
_SHORTEST = 8
_LONG_LINE = 16
# The variable that holds secrets of one's own, one in each line.
OWN = "DRIVETRAIN_MASK"


class Masking:
    """Masks what looks like a secret by its name or shape, and the values in `secrets` and of the environment, as it is
    when this is made, wherever they turn up."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {text for text in secrets if len(text) >= _SHORTEST} | environment_secrets()
        known = {written for text in known for written in _writings(text)}
        # The longest first: one may begin with another.
        self.secrets: tuple[str, ...] = tuple(sorted(known, key=lambda text: (-len(text), text)))

    @staticmethod
    def of(*given: Any) -> Masking:
        """For all that looks like a secret in the values."""
        return Masking().including(*given)

    def including(self, *given: Any) -> Masking:
        """This one, and for all that looks like a secret in further values."""
        found: list[str] = []
        for value in given:
            mask(value, found=found)
        return Masking([*self.secrets, *found]) if found else self

    def __call__(self, value: Any) -> Any:
        """A copy of a JSON value without secrets."""
        return _in_texts(_by_name(value, "", []), self.secrets, [])

    def message(self, text: str) -> str:
        """A text without secrets."""
        return without(text, self.secrets)


def _writings(secret: str) -> set[str]:
    """A secret as it stands in a text, in JSON, in Python, in a shell and in a URL."""
    from json import dumps

    in_json = {dumps(secret)[1:-1], dumps(secret, ensure_ascii=False)[1:-1]}
    in_url = "".join(
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or byte in b"_.-~" else f"%{byte:02X}"
        for byte in secret.encode("utf-8", "surrogateescape")
    )
    in_shell = {secret.replace("'", how) for how in ("'\"'\"'", "'\\''")}
    in_shell |= {re.sub(r"([^\w./:=@%+,-])", r"\\\1", secret), re.sub(r"([\\$\"`])", r"\\\1", secret)}
    in_python = {repr(secret)[1:-1], ascii(secret)[1:-1], repr(secret.encode("utf-8", "surrogateescape"))[2:-1]}
    in_python |= {repr(one)[1:-1] for one in (repr(secret), dumps(secret))}
    in_urls = {in_url, in_url.replace("%20", "+"), in_url.replace("%2F", "/")}
    again = {dumps(one)[1:-1] for one in in_json}
    # A key of several lines is printed line by line, too.
    lines = {line for line in secret.splitlines() if len(line) >= _LONG_LINE}
    return {secret, *in_json, *again, *in_python, *in_shell, *in_urls, *lines}


def environment_secrets() -> set[str]:
    """The values of this process's variables whose names look like secrets, and the lines of DRIVETRAIN_MASK; what
    names a file or an ARN only says where one is."""
    own = {line for line in os.environ.get(OWN, "").splitlines() if line}
    return own | {
        value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST
        and looks_secret(name)
        and not value.startswith("arn:")
        and not (value.startswith("/") and os.path.exists(value))
    }


def without_secrets(text: str) -> str:
    """A text without what looks like a secret by its shape, and without those of the environment."""
    return Masking().message(text)


def mask(value: Any, name: str = "", found: list[str] | None = None) -> Any:
    """A copy in which values under names that look like secrets read `***`, and so does what has a secret's shape or is
    in the environment under such a name.

    In a list of arguments the value after such a flag (`--api-token X`, `--api-token=X`) counts, too, and so do the
    Value of a {"Name": ..., "Value": ...} pair and the DefaultValue of a parameter. What was masked is added to
    `found`.
    """
    found = [] if found is None else found
    secrets = sorted(environment_secrets(), key=len, reverse=True)
    return _in_texts(_by_name(value, name, found), secrets, found)


def _by_name(value: Any, name: str, found: list[str]) -> Any:
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        pair = given.get("Name") or given.get("Key")
        masked = {key: _by_name(item, key, found) for key, item in given.items()}
        if isinstance(pair, str) and looks_secret(pair):
            for member in ("Value", "DefaultValue"):
                if member in masked:
                    found.append(str(given[member]))
                    masked[member] = MASK
        return masked
    if isinstance(value, list | tuple):
        return _mask_list(list(cast("list[Any]", value)), name, found)
    if name and isinstance(value, str | int | float) and not isinstance(value, bool) and looks_secret(name):
        if _is_number(str(value)) and _looks_weak(name):
            return value  # a count of tokens
        found.append(str(value))
        return MASK
    return value


def _mask_list(items: list[Any], name: str, found: list[str]) -> list[Any]:
    masked: list[Any] = []
    after_secret_flag = False
    for item in items:
        if isinstance(item, str) and item.startswith("-"):
            flag, equals, value = item.partition("=")
            secret = looks_secret(flag)
            if secret and equals:
                found.append(value)
            masked.append(f"{flag}={MASK}" if secret and equals else item)
            after_secret_flag = secret and not equals
            continue
        if after_secret_flag:
            found.append(str(item))
        masked.append(MASK if after_secret_flag else _by_name(item, name, found))
        after_secret_flag = False
    return masked


def _in_texts(value: Any, secrets: Sequence[str], found: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_texts(item, secrets, found) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_in_texts(item, secrets, found) for item in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    for secret in secrets:
        if secret in value:
            found.append(secret)
            value = value.replace(secret, MASK)
    return without_shapes(value, found)


def contains_mask(value: Any) -> bool:
    """Whether a value that was kept no longer holds what it stood for."""
    if isinstance(value, Mapping):
        return any(contains_mask(item) for item in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(contains_mask(item) for item in cast("list[Any]", value))
    return isinstance(value, str) and MASK in value
