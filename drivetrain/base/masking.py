"""Secrets, recognised by name or by shape: refused in a pipeline, and kept out of everything that is stored or shown.

A secret does not belong in a definition (the service shows its parameters and environment to everyone who may describe
the pipeline), but people put them there all the same. A value whose name looks like a secret's is passed to the program
and to nothing else. It is also masked under other names and in messages. So are values that look like secrets by their
shape (credentials in URLs, keys of services, private keys, JWTs), and the value of each variable of this process whose
name looks like a secret's.

A message and a log are also searched for values under the names of secrets (`--password=...`, `{"api_key": "..."}`).

Each pattern takes linear time: it begins with a literal that it cannot meet again before it has ended, or is bounded.
The standard library only, and quick to import, since the supervisors of steps use it: `re` compiles a pattern, and
keeps it, when a text has the literal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

# Whole words only, after splitting names like apiKey, API_KEY and api-key: max_tokens and tokenizer are no secrets.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset([
    "secret", "secrets", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "token", "apikey",
    "auth", "authorization",
])  # fmt: skip
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
    """Return True if a variable, parameter or flag of this name would hold a secret."""
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
_IN_QUERY = r"[?&]([\w.-]{1,64})=([^&\s\"'<>#]+)"
# How the keys of an issuer begin, and the whole; a group is the secret. The letters with which a beginning begins stand
# in a sample, too (see `LogMasking`).
_SHAPES = (
    (("AKIA", "ASIA"), r"A[KS]IA[A-Z0-9]{16}\b"),
    (("FwoG", "IQoJ"), r"(?:FwoG|IQoJ)[\w+/%]{100,}={0,2}"),  # session tokens of AWS
    (("gh[pousr]_",), r"gh._[A-Za-z0-9]{36,}"),
    (("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,}"),
    (("gl(?:pat|rt|dt|ptt|ft|soat|cbt|agent|imt|oas)-",), r"gl[a-z]+-[\w-]{20,}(?:\.[\w-]{2,}){0,2}"),
    (("xox", "xapp-"), r"x(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,}"),
    (("hooks.slack.com/",), r"hooks\.slack\.com/((?:services|workflows|triggers)/[\w/+-]{16,})"),
    (("/webhooks/",), r"/webhooks/(\d{5,}/[\w-]{20,})"),  # Discord
    (("hf_", "api_org_"), r"(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    (("sk-",), r"sk-(?=[\w-]{0,200}\d)[\w-]{20,}"),  # OpenAI, Anthropic
    (("AIza",), r"AIza[\w-]{35}"),
    ((r"ya(?:29)?\.",), r"ya29\.[\w-]{20,}"),
    (("GOCSPX-",), r"GOCSPX-[\w-]{20,}"),
    (("sk_(?:live|test)_", "rk_(?:live|test)_"), r"[rs]k_...._[A-Za-z0-9]{10,}"),  # Stripe
    (("SG.",), r"SG\.[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    (("SK",), r"SK[0-9a-f]{32}\b"),  # Twilio
    (("npm_",), r"npm_[A-Za-z0-9]{36}\b"),
    (("pypi-",), r"pypi-[\w-]{40,}"),
    (("dapi",), r"dapi[0-9a-f]{32}\b(?:-\d+)?"),  # Databricks
    (("hv[sbr].",), r"hv.\.[\w-]{20,}"),  # Vault
    (("do[opr]_v",), r"do._v1_[0-9a-f]{40,}"),  # DigitalOcean
    (("dp.",), r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,40}\.)?[A-Za-z0-9]{40,}"),  # Doppler
    (("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    (("sig=",), r"sig=([A-Za-z0-9%+/=]{20,})"),  # Azure
    (("eyJ",), r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),  # JWT
)
# Bots of Discord: what a sample has of the second and third part.
_DISCORD = r"\.[\w-]{0,6}\.[\w-]"
_DISCORD_REST = r"\.[\w-]{6}\.[\w-]{27}"
# What may stand before a key, beside marks: an escape of JSON, a URL or a terminal.
_ESCAPE = r"(?:\\[nrtbfv]|%[0-9A-Fa-f]{2}|\[[\d;]{0,12}m)\Z"
_LONGEST_ESCAPE = 16
# A text that names a secret has one of these, in small letters.
_HINTS = ("passw", "passphrase", "_pass", "pwd", "secret", "token", "credential", "key", "auth", "bearer", "curl")
# With a unit, bounds, of a total, a date or a time.
_UNIT = r"%|[munµ]?s|min|[hdx]|[kmgt]i?b?(?:/s)?|b|it/s|/s"
_NUMBER = r"[-+±]?(?:nan|inf|infinity)|[-+±]?[\d.][\d.,_/±:+-]*(?:e[-+]?\d+)?(?:±[\d.]+)?(?:" + _UNIT + ")?"


def without(text: str, secrets: Iterable[str], found: list[str] | None = None, sample: str | None = None) -> str:
    """The text with `***` for these secrets (the longer ones first), for what has the shape of one, and for what stands
    in it under the name of one; what was masked is added to `found`.

    Args:
        sample: is searched in the place of the text for what may stand in it (`LogMasking`).
    """
    found = [] if found is None else found
    sample = text if sample is None else sample
    for secret in secrets:
        if secret in text:
            found.append(secret)
            text = text.replace(secret, MASK)
    small = sample.lower()
    if hints := [hint for hint in _HINTS if hint in small]:
        text = _without_named(text, hints, found, sample)
    text = without_shapes(text, found, sample)
    if "%" not in sample:
        return text
    from drivetrain.base.secret_writings import quoted_secrets

    def secrets_in(unquoted: str) -> list[str]:
        inner: list[str] = []
        without(unquoted, (), inner, unquoted.replace("%", ""))  # one level of quoting
        return inner

    return _masked(text, quoted_secrets(text, secrets_in), found)


def _without_named(text: str, hints: Sequence[str], found: list[str], sample: str) -> str:
    """The text with `***` for the values that it gives to names of secrets."""
    from drivetrain.base.named_values import in_path, is_random, named_values, names

    if not {"bearer", "curl"}.intersection(hints) and not any(names(sample, hints, looks_secret)):
        return text
    spans = [
        (begins, ends)
        for name, begins, ends, certain in named_values(text, hints, looks_secret)
        if MASK not in (value := text[begins:ends])
        and not _is_number(value)
        and (certain or not _looks_weak(name) or is_random(in_path(text, begins, name, value)))
    ]
    return _masked(text, spans, found)


def _is_number(value: str) -> bool:
    """True of a number, also with a unit or bounds, of a total, a date or a time."""
    return re.fullmatch(_NUMBER, value, re.IGNORECASE) is not None


def without_shapes(text: str, found: list[str] | None = None, sample: str | None = None) -> str:
    """The text with `***` for what has the shape of a secret; a password's or token's own text is added to `found`."""
    sample = text if sample is None else sample
    spans = list(_of_urls(text)) if "://" in sample else []
    if "PRIVATE KEY" in sample:
        from drivetrain.base.secret_writings import private_keys

        spans += private_keys(text)
    for beginnings, pattern in _SHAPES:
        for beginning in beginnings:
            if _stem(beginning) in sample:
                spans += _of_shape(text, beginning, pattern)
    if "." in sample and re.search(_DISCORD, sample) and re.search(_DISCORD_REST, text):
        from drivetrain.base.secret_writings import discord_tokens

        spans += discord_tokens(text, _is_a_beginning)
    return _masked(text, spans, found)


def _of_urls(text: str) -> Iterator[tuple[int, int]]:
    for match in re.finditer(_IN_URL, text):
        yield match.span(match.lastindex or 0)
    for match in re.finditer(_IN_QUERY, text):
        if match.group(1).lower() in _SIGNATURES or looks_secret(match.group(1)):
            yield match.span(2)


@lru_cache
def _stem(beginning: str) -> str:
    return re.split(r"[\[(]", beginning)[0]


def _of_shape(text: str, beginning: str, pattern: str) -> Iterator[tuple[int, int]]:
    ends = 0
    for begun in re.finditer(beginning, text):
        place = begun.start()
        match = re.compile(pattern).match(text, place) if place >= ends and _is_a_beginning(text, place) else None
        if match is not None:
            ends = match.end()
            yield match.span(match.lastindex or 0)


def _is_a_beginning(text: str, place: int) -> bool:
    """True where no word goes on."""
    before = text[place - 1 : place]
    ended = not (before.isalnum() or before == "_") or text[place] == "/"
    return ended or re.compile(_ESCAPE).search(text, max(0, place - _LONGEST_ESCAPE), place) is not None


def _masked(text: str, spans: Iterable[tuple[int, int]], found: list[str] | None) -> str:
    """The text with `***` in these places, which may overlap; what stood there is added to `found`."""
    kept: list[str] = []
    place = 0
    for begins, ends in sorted(spans):
        if ends > place and text[begins:ends] != MASK:
            kept += (text[place:begins], MASK) if begins >= place else ()
            place = ends
            if found is not None:
                found.append(text[begins:ends])
    return "".join((*kept, text[place:])) if kept else text


# Shorter values (true, admin, 1234) stand in other places by chance.
_SHORTEST = 8
# The variable that holds secrets of one's own, one in each line.
OWN = "DRIVETRAIN_MASK"
# How a log ends in which something was masked.
SAID = f"drivetrain: secrets in this log were masked ({MASK})\n"
# A progress bar's lines end in a carriage return.
_ENDS = bytes.maketrans(b"\r", b"\n")


class Masking:
    """Masks what looks like a secret by its name or shape, and the values in `secrets` and of the environment, as it is
    when this is made, wherever they turn up."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {text for text in secrets if len(text) >= _SHORTEST} | environment_secrets()
        if known:
            from drivetrain.base.secret_writings import writings

            known = {written for text in known for written in writings(text)}
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


class LogMasking:
    """Masks pieces of a log, each of whole lines.

    Logs repeat their lines with other numbers, so a sample of a piece is searched: each line once, without digits.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = [(secret, _in_samples(secret)) for secret in secrets]

    def __call__(self, piece: bytes) -> tuple[bytes, int]:
        """The piece without secrets, and how many were masked."""
        sample = _sample_of(piece)
        found: list[str] = []
        likely = [secret for secret, part in self._secrets if part in sample]
        text = without(piece.decode("utf-8", "surrogateescape"), likely, found, sample)
        return text.encode("utf-8", "surrogateescape") if found else piece, len(found)


def _sample_of(piece: bytes) -> str:
    lines = set(piece.translate(_ENDS, b"0123456789").split(b"\n"))
    return b"\n".join(lines).decode("utf-8", "surrogateescape")


def _in_samples(secret: str) -> str:
    """The part of a secret that a sample keeps: its longest line, without digits."""
    lines = _sample_of(secret.encode("utf-8", "surrogateescape")).split("\n")
    return max(lines, key=len)


def environment_secrets() -> set[str]:
    """The values of this process's variables whose names look like secrets, and the lines of DRIVETRAIN_MASK. Names of
    files and ARNs are left out: they only say where a secret is."""
    own = {line for line in os.environ.get(OWN, "").splitlines() if line}
    values = [os.environ.get(name, "") for name in list(os.environ) if looks_secret(name)]
    return own | {
        value
        for value in values
        if len(value) >= _SHORTEST
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
        pair = next((given[key] for key in ("Name", "Key", "name", "key") if given.get(key)), None)
        masked = {key: _by_name(item, key, found) for key, item in given.items()}
        if isinstance(pair, str) and looks_secret(pair):
            for member in ("Value", "DefaultValue", "value"):
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
    """Return True if a kept value was masked and no longer holds the original."""
    if isinstance(value, Mapping):
        return any(contains_mask(item) for item in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(contains_mask(item) for item in cast("list[Any]", value))
    return isinstance(value, str) and MASK in value
