"""Keep secrets out of everything that is kept or shown.

A secret does not belong in a definition (the service shows its parameters and environment to whoever may describe the
pipeline), but people put them there all the same. What looks like one by its name is passed to the program and to
nothing else; where its value turns up under another name, or in a message, it is masked as well. So is what looks like
one by its shape (secrets.py), and the value of each variable of this process whose name looks like a secret's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from drivetrain.base.secrets import MASK, looks_secret, without

__all__ = ["MASK", "Masking", "contains_mask", "environment_secrets", "looks_secret", "mask", "without_secrets"]
# Shorter values (true, admin, 1234) stand in other places by chance.
_SHORTEST = 8


class Masking:
    """Masks what looks like a secret by its name or shape, and the values in `secrets` and of the environment, as it is
    when this is made, wherever they turn up."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {text for text in secrets if len(text) >= _SHORTEST} | environment_secrets()
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


def environment_secrets() -> set[str]:
    """The values of this process's variables whose names look like secrets; what names a file or an ARN only says where
    one is."""
    return {
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
    return without(value, secrets, found) if isinstance(value, str) else value


def contains_mask(value: Any) -> bool:
    """Whether a value that was kept no longer holds what it stood for."""
    if isinstance(value, Mapping):
        return any(contains_mask(item) for item in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(contains_mask(item) for item in cast("list[Any]", value))
    return isinstance(value, str) and MASK in value
