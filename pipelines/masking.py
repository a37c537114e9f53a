"""Keep secrets out of everything that is kept or shown.

A secret does not belong in a definition (the service shows its parameters and environment to whoever may describe the
pipeline), but people put them there all the same. What looks like one by its name is passed to the program and to
nothing else; where its value turns up under another name, or in a message, it is masked as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from drivetrain.pipelines import secret_names

MASK = "***"
# Every step brings the same names several times.
looks_secret = lru_cache(4096)(secret_names.looks_secret)
# Shorter values (true, admin, 1234) stand in other places by chance.
_SHORTEST = 8


class Masking:
    """Masks what looks like a secret by its name, and the values in `secrets` wherever they turn up."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one may begin with another.
        self._secrets = sorted({text for text in secrets if len(text) >= _SHORTEST}, key=len, reverse=True)

    @staticmethod
    def of(*given: Any) -> Masking:
        """For all that stands under names of secrets in the values."""
        found: list[str] = []
        for value in given:
            mask(value, found=found)
        return Masking(found)

    def including(self, *given: Any) -> Masking:
        """This one, and for all that stands under names of secrets in further values."""
        found: list[str] = []
        for value in given:
            mask(value, found=found)
        return Masking([*self._secrets, *found]) if found else self

    def __call__(self, value: Any) -> Any:
        """A copy of a JSON value without secrets."""
        masked = mask(value)
        return self._without(masked) if self._secrets else masked

    def message(self, text: str) -> str:
        """A text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def _without(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._without(item) for key, item in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list):
            return [self._without(item) for item in cast("list[Any]", value)]
        return self.message(value) if isinstance(value, str) else value


def mask(value: Any, name: str = "", found: list[str] | None = None) -> Any:
    """A copy in which values under names that look like secrets read `***`.

    In a list of arguments the value after such a flag (`--api-token X`, `--api-token=X`) counts, too, and so do the
    Value of a {"Name": ..., "Value": ...} pair and the DefaultValue of a parameter. What was masked is added to
    `found`.
    """
    found = [] if found is None else found
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        pair = given.get("Name") or given.get("Key")
        masked = {key: mask(item, key, found) for key, item in given.items()}
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
        masked.append(MASK if after_secret_flag else mask(item, name, found))
        after_secret_flag = False
    return masked


def contains_mask(value: Any) -> bool:
    """Whether a value that was kept no longer holds what it stood for."""
    if isinstance(value, Mapping):
        return any(contains_mask(item) for item in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(contains_mask(item) for item in cast("list[Any]", value))
    return isinstance(value, str) and MASK in value
