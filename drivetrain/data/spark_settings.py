"""Settings of Spark, as a step's parameter has them: {"spark.executor.memory": "8g"}."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.errors import InputError


def read_settings(text: str | None) -> Mapping[str, str]:
    """The settings by name, each as Spark spells it; none of None.

    Raises:
        InputError: no JSON object of such names and plain values.
    """
    if text is None:
        return {}
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise InputError(f"spark_settings {text[:80]!r} is not JSON ({error}). {_ALLOWED}") from None
    if not isinstance(given, dict):
        raise InputError(f"spark_settings {text[:80]!r}: {_ALLOWED}")
    found: dict[str, str] = {}
    for name, value in cast("dict[str, Any]", given).items():
        if not name.startswith("spark.") or any(map(str.isspace, name)) or not isinstance(value, str | int | float):
            raise InputError(f"spark_settings: {name!r}: {value!r:.60}. {_ALLOWED}")
        if isinstance(value, str) and not value.isprintable():  # it becomes a line of spark-defaults.conf
            raise InputError(f"spark_settings: {name!r}: {value!r:.60} has a character that no line can hold.")
        found[name] = json.dumps(value) if not isinstance(value, str) else value
    return found


_ALLOWED = 'Allowed: a JSON object of names that begin with "spark." and plain values, {"spark.executor.memory": "8g"}.'
