"""A definition as it is sent, kept and compared: compact text, and its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.json_text import SpelledFloat, compact


def wire_text(definition: Mapping[str, Any]) -> str:
    """The text that goes to the service: the same bytes for the same definition, ASCII, no spaces."""
    if _has_spelled(definition):  # the standard library's writer, which is C, does not know them
        return compact(cast("Any", definition))
    return json.dumps(definition, separators=(",", ":"), allow_nan=False)


def digest_of(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _has_spelled(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, SpelledFloat):
            return True
        if isinstance(item, Mapping):
            pending.extend(cast("Mapping[str, Any]", item).values())
        elif isinstance(item, list | tuple):
            pending.extend(cast("list[Any]", item))
    return False
