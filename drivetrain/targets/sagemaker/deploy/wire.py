"""A definition as it is sent, kept and compared: compact text, and its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from drivetrain.base.json_text import compact


def wire_text(definition: Mapping[str, Any]) -> str:
    """The text that goes to the service: the same bytes for the same definition, ASCII, no spaces."""
    return compact(dict(definition))


def digest_of(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
