"""Keep secrets out of everything that is kept or shown.

A secret does not belong in a definition (the service shows its parameters and environment to whoever may describe the
pipeline), but people put them there all the same. What looks like one by its name is passed to the program and to
nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drivetrain.pipelines.secret_names import looks_secret

MASK = "***"


def mask(value: Any, name: str = "") -> Any:
    """A copy in which values under names that look like secrets read `***`.

    In a list of arguments the value after such a flag (`--api-token X`, `--api-token=X`) counts, too, and so does the
    Value of a {"Name": ..., "Value": ...} pair.
    """
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        pair = given.get("Name") or given.get("Key")
        masked = {key: mask(item, key) for key, item in given.items()}
        if isinstance(pair, str) and looks_secret(pair) and "Value" in masked:
            masked["Value"] = MASK
        return masked
    if isinstance(value, list | tuple):
        return _mask_list(list(cast("list[Any]", value)), name)
    if name and isinstance(value, str | int | float) and not isinstance(value, bool) and looks_secret(name):
        return MASK
    return value


def _mask_list(items: list[Any], name: str) -> list[Any]:
    masked: list[Any] = []
    after_secret_flag = False
    for item in items:
        if isinstance(item, str) and item.startswith("-"):
            flag, equals, _ = item.partition("=")
            secret = looks_secret(flag)
            masked.append(f"{flag}={MASK}" if secret and equals else item)
            after_secret_flag = secret and not equals
            continue
        masked.append(MASK if after_secret_flag else mask(item, name))
        after_secret_flag = False
    return masked


def contains_mask(value: Any) -> bool:
    """Whether a value that was kept no longer holds what it stood for."""
    if isinstance(value, Mapping):
        return any(contains_mask(item) for item in cast("Mapping[str, Any]", value).values())
    if isinstance(value, list):
        return any(contains_mask(item) for item in cast("list[Any]", value))
    return isinstance(value, str) and (value == MASK or value.endswith(f"={MASK}"))
