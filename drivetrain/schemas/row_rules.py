"""The schema of the file of row rules, from the table by which it is read (drivetrain/data/row_rules/declared.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.data.row_rules import declared
from drivetrain.schemas import DIALECT, object_of


def row_rules_schema() -> dict[str, Any]:
    """The schema of a file of row rules."""
    then = dict(declared.THEN.schema)
    columns = {name: dict(form.schema) for name, form in declared.COLUMN_SETTINGS.items()}
    columns |= {name: _rule(kind) for name, kind in declared.KINDS.items()}
    total = _rule(declared.SUM, tolerance=dict(declared.AMOUNT.schema))
    sections: dict[str, Any] = {
        "columns": {
            "type": "object",
            "description": "By column, or a pattern of columns such as p*.",
            "additionalProperties": object_of((), **columns),
        },
        "sums": {"type": "object", "description": "By column, those that it sums.", "additionalProperties": total},
        "rows": _settings(declared.ROWS_SETTINGS),
        "quarantine": _settings(declared.QUARANTINE_SETTINGS),
        "nights": {"type": "object", "description": "What fails a night, and by how much (docs/data_checks.md)."},
        "drift": {"type": "object", "description": "By measure from which size on columns warn, and fail."},
        "fresh": {
            "type": "object",
            "description": "By column of times, the days that its newest value may be old.",
            "additionalProperties": dict(declared.AMOUNT.schema),
        },
        "then": {**then, "description": "What rules do that do not say it themselves. The default is fail."},
    }
    return {"$schema": DIALECT, "title": "Rules for rows", **object_of((), **sections)}


def _settings(forms: Mapping[str, declared.Form]) -> dict[str, Any]:
    return object_of((), **{name: dict(form.schema) for name, form in forms.items()})


def _rule(kind: declared.Kind, **more: Any) -> dict[str, Any]:
    """A rule is its value (without one: what it does), or an object of that and of what is allowed."""
    value = dict((kind.value or declared.THEN).schema)
    limits = {name: dict(form.schema) for name, form in declared.LIMITS.items()}
    members = {**({"is": value} if kind.value else {}), **limits, **more}
    whole = object_of(("is",) if kind.value else (), **members)
    return {"description": f"Broken where a value {kind.says.format('this')}.", "anyOf": [value, whole]}
