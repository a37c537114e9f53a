"""The fields of the IR, as its protobufs have them: pipeline_spec.proto and kubernetes_executor_config.proto.

All of it is in messages.json, which `make shapes` extracts from the installed kfp (tests/fixtures/kfp_messages.py). A
field's type is `text`, `bool`, `int`, `number`, `duration`, `any`, `object` (of any content), the name of an enum or a
message, or a `list` or `map` of one. Of the fields of a message with the same word after `|` at most one is given.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("messages.json")


class Field(NamedTuple):
    """A field of a message."""

    container: str
    """`list`, `map`, or empty for one value."""
    kind: str
    """The type of the value, or of each of them."""
    choice: str
    """The choice that it is one alternative of; empty where it stands alone."""


@cache
def enums() -> dict[str, list[str]]:
    """Enum -> its words."""
    return _file()["enums"]


@cache
def messages() -> dict[str, dict[str, Field]]:
    """Message -> field -> its type."""
    return {
        message: {name: _field(text) for name, text in fields.items()}
        for message, fields in _file()["messages"].items()
    }


@cache
def _file() -> dict[str, Any]:
    return json.loads(FILE.read_bytes())


def _field(text: str) -> Field:
    words, _, choice = text.partition(" | ")
    container, _, kind = words.rpartition(" ")
    return Field(container, kind, choice)
