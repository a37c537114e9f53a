"""The schema of the file of row rules, from the table by which it is read (drivetrain/data/row_rules/declared.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.data.profile import STATISTICS
from drivetrain.data.row_rules import declared
from drivetrain.decision.data_drift import MEASURES
from drivetrain.decision.data_rules import LEVELS, OF_TABLE
from drivetrain.decision.data_sizes import ALLOWED
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
        "nights": _nights(),
        "drift": {
            **object_of((), **dict.fromkeys(MEASURES, _levels(declared.AMOUNT.schema))),
            "description": "By measure from which size on columns warn, and fail.",
        },
        "fresh": {
            "type": "object",
            "description": "By column of times, the days that its newest value may be old.",
            "additionalProperties": dict(declared.AMOUNT.schema),
        },
        "then": {**then, "description": "What rules do that do not say it themselves. The default is fail."},
    }
    return {"$schema": DIALECT, "title": "Rules for rows", **object_of((), **sections)}


def _nights() -> dict[str, Any]:
    """Limits of a night, from the tables by which decision/data_rules.py reads them."""
    limits = _levels({"type": ["number", "string"], "description": ALLOWED})
    statistics = {name: limits for name in STATISTICS if name not in OF_TABLE}
    columns = {
        "type": "object",
        "description": "By column, or a pattern of columns such as p*.",
        "additionalProperties": object_of((), **statistics),
    }
    unanswered = {"type": "string", "pattern": "^warn after [0-9]{1,4}$"}
    night = object_of((), unanswered=unanswered, columns=columns, **dict.fromkeys(OF_TABLE, limits))
    return {**night, "description": "What fails a night, and by how much (docs/data_checks.md)."}


def _levels(form: Mapping[str, Any]) -> dict[str, Any]:
    return {**object_of((), **{level: dict(form) for level in LEVELS}), "minProperties": 1}


def _settings(forms: Mapping[str, declared.Form]) -> dict[str, Any]:
    return object_of((), **{name: dict(form.schema) for name, form in forms.items()})


def _rule(kind: declared.Kind, **more: Any) -> dict[str, Any]:
    """A rule is its value (without one: what it does), or an object of that and of what is allowed."""
    value = dict((kind.value or declared.THEN).schema)
    limits = {name: dict(form.schema) for name, form in declared.LIMITS.items()}
    members = {**({"is": value} if kind.value else {}), **limits, **more}
    whole = object_of(("is",) if kind.value else (), **members)
    return {"description": f"Broken where a value {kind.says.format('this')}.", "anyOf": [value, whole]}
