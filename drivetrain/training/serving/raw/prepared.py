"""Rows as they were before they were prepared: the transforms that were fitted on the training data are applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.data.fitted import of_request

NAMES = ()
"""The columns have the names of those that are made of them, and are always such."""
TYPES: Mapping[str, str] = {}


def columns(values: Mapping[str, Any], options: Mapping[str, Any], fitted: Mapping[str, Any]) -> dict[str, Any]:
    """
    Args:
        values: those of a request, by name.
        options: the reader's.
        fitted: the reader's (drivetrain/data/fitted.py).

    Raises:
        InputError: a value that is not of its column's type, or missing where nothing fills it in.
    """
    states = fitted.get("columns", {})
    return {name: of_request(states[name], given, name) for name, given in values.items() if name in states}
