"""The file of row rules: its form, and the errors for what has another one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from drivetrain.base.errors import InputError, did_you_mean, shown
from drivetrain.data.schema import checked_types

Action = Literal["warn", "quarantine", "fail"]
ACTIONS: tuple[Action, ...] = ("warn", "quarantine", "fail")
# The rows that a quarantine takes unless a rule says more: beyond, the night itself is wrong.
QUARANTINED_SHARE = 0.05
_LONGEST_PATTERN = 1000


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_share(value: object) -> bool:
    return _is_number(value) and 0 <= cast("float", value) <= 1


def _is_listed(value: object, one: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and bool(cast("list[Any]", value)) and all(map(one, cast("list[Any]", value)))


@dataclass(frozen=True)
class Form:
    """The form of a value in the file: which values are allowed, in words and as JSON Schema."""

    allowed: str
    fits: Callable[[Any], bool]
    schema: Mapping[str, Any]


_TEXT: Mapping[str, Any] = {"type": "string"}
BOUND = Form(
    "a number, or a date or time as text", lambda v: _is_number(v) or isinstance(v, str), {"type": ["number", "string"]}
)
COUNT = Form("a whole number from 0", _is_count, {"type": "integer", "minimum": 0})
SHARE = Form("a number from 0 to 1", _is_share, {"type": "number", "minimum": 0, "maximum": 1})
AMOUNT = Form("a number from 0", lambda v: _is_number(v) and v >= 0, {"type": "number", "minimum": 0})
FLAG = Form("true or false", lambda v: isinstance(v, bool), {"type": "boolean"})
TYPE = Form("the name of a type, such as float64", lambda v: isinstance(v, str), _TEXT)
THEN = Form(", ".join(ACTIONS), lambda v: v in ACTIONS, {"enum": list(ACTIONS)})
NAMES = Form(
    "a list of columns", lambda v: _is_listed(v, lambda one: isinstance(one, str)), {"type": "array", "items": _TEXT}
)


@dataclass(frozen=True)
class Kind:
    """A rule that the file can have: the form of its value (None for a rule without one), and its meaning."""

    value: Form | None
    says: str


# The rules of a column, by name. `says` ends "column 'price': ... of ... rows", with the rule's value in its place.
KINDS: Mapping[str, Kind] = {
    "unreadable": Kind(None, "is not of the column's type"),
    "nulls": Kind(None, "has no value"),
    "blanks": Kind(None, "is empty text, or blanks"),
    "min": Kind(BOUND, "is less than {}"),
    "max": Kind(BOUND, "is greater than {}"),
    "above": Kind(BOUND, "is not above {}"),
    "below": Kind(BOUND, "is not below {}"),
    "values": Kind(
        Form("a list of values", lambda v: _is_listed(v, lambda one: isinstance(one, str | int | float)),
             {"type": "array", "minItems": 1}),
        "is none of the allowed values",
    ),
    "pattern": Kind(
        Form(f"a regular expression (RE2) of at most {_LONGEST_PATTERN} characters",
             lambda v: isinstance(v, str) and len(v) <= _LONGEST_PATTERN, {**_TEXT, "maxLength": _LONGEST_PATTERN}),
        "does not match {} as a whole",
    ),
    "min_length": Kind(COUNT, "has fewer than {} characters"),
    "max_length": Kind(COUNT, "has more than {} characters"),
    "unique": Kind(None, "is there in an earlier row"),
    "found_in": Kind(
        Form("TABLE.COLUMN", lambda v: isinstance(v, str) and all(v.partition(".")[::2]), _TEXT), "is not in {}"
    ),
}  # fmt: skip
_UPPER = {"min": ("max", "below"), "above": ("max", "below"), "min_length": ("max_length",)}
SUM = Kind(NAMES, "is not the sum of {}")
LIMITS: Mapping[str, Form] = {"then": THEN, "share": SHARE, "rows": COUNT}
COLUMN_SETTINGS: Mapping[str, Form] = {"type": TYPE, "mask": FLAG}
QUARANTINE_SETTINGS: Mapping[str, Form] = {"keep_days": AMOUNT, "max_rows": COUNT, "whole_rows": FLAG}
ROWS_SETTINGS: Mapping[str, Form] = {"min": COUNT, "max": COUNT, "then": Form("warn, fail", lambda v: v in
                                     ("warn", "fail"), {"enum": ["warn", "fail"]})}  # fmt: skip
NIGHT_SECTIONS = ("nights", "drift", "fresh")
"""Those about a night as a whole, which check_data reads (drivetrain/decision/data_rules.py)."""
SECTIONS = ("columns", "sums", "rows", "quarantine", "then", *NIGHT_SECTIONS)


@dataclass(frozen=True)
class Rule:
    """One rule of one column (or of the columns that its pattern names)."""

    name: str
    column: str
    then: Action = "fail"
    value: Any = None
    share: float | None = None
    rows: int | None = None
    tolerance: float = 0.0

    @property
    def says(self) -> str:
        """The end of "column 'price': 3 of 100 rows: ..."."""
        shown = ", ".join(self.value) if self.name == "sum" else self.value
        return (SUM if self.name == "sum" else KINDS[self.name]).says.format(shown)

    def allowed(self, rows: int) -> float:
        """How many of so many rows may break it."""
        limits = [] if self.rows is None else [float(self.rows)]
        if self.share is not None:
            limits.append(self.share * rows)
        default = QUARANTINED_SHARE * rows if self.then == "quarantine" else 0.0
        return min(limits, default=default)


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """A parsed file of row rules."""

    rules: tuple[Rule, ...] = ()
    columns: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    masked: frozenset[str] = frozenset()
    least_rows: int = 0
    most_rows: int | None = None
    rows_then: Action = "fail"
    keep_days: float = 30.0
    max_rows: int = 100_000
    whole_rows: bool = False

    @property
    def takes_rows_out(self) -> bool:
        return any(rule.then == "quarantine" for rule in self.rules)

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables that columns refer to."""
        return frozenset(rule.value.partition(".")[0] for rule in self.rules if rule.name == "found_in")

    @property
    def identity(self) -> str | None:
        """A hash of what decides on rows and their types, for a lineage; None for rules that only look."""
        deciding = [[r.name, r.column, r.value, r.tolerance] for r in self.rules if r.then == "quarantine"]
        if not deciding and not self.types:
            return None
        text = json.dumps([deciding, dict(self.types)], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def declared_rules(given: str | Mapping[str, Any]) -> RowRules:
    """The rules in a JSON text, or in a mapping of the same form.

    Raises:
        InputError: no such form; section, column and rule are named.
    """
    content: Any = given
    if isinstance(given, str):
        try:
            content = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"rules is {shown(given, 40)}, which is not JSON ({error}). A pipeline takes rules='rules.yaml' or a "
                "dict; this step takes the same as a JSON text."
            ) from None
    top = _mapping("rules", content)
    _check_names("rules", top, SECTIONS)
    then = cast("Action", _checked("rules", "then", top.get("then", "fail"), THEN))
    rules: list[Rule] = []
    settings: dict[str, dict[str, Any]] = {name: {} for name in COLUMN_SETTINGS}
    columns = _mapping("rules: columns", top.get("columns", {}))
    for column, entry in columns.items():
        where = f"rules: column {column!r}"
        entries = _mapping(where, entry)
        _check_names(where, entries, (*COLUMN_SETTINGS, *KINDS))
        for name, value in entries.items():
            if name in COLUMN_SETTINGS:
                settings[name][column] = _checked(where, name, value, COLUMN_SETTINGS[name])
            else:
                rules.append(_rule(where, name, column, value, KINDS[name], then))
    for column, value in _mapping("rules: sums", top.get("sums", {})).items():
        rules.append(_rule("rules: sums", "sum", column, value, SUM, then, label=column))
    rows = _settings("rules: rows", top.get("rows", {}), ROWS_SETTINGS)
    _refuse_contradictions(rules, rows)
    return RowRules(
        rules=tuple(rules),
        columns=tuple(columns),
        types=checked_types(list(settings["type"].items()), "rules") if settings["type"] else {},
        masked=frozenset(column for column, hides in settings["mask"].items() if hides),
        least_rows=rows.get("min", 0),
        most_rows=rows.get("max"),
        rows_then=rows.get("then", "warn" if then == "warn" else "fail"),
        **_settings("rules: quarantine", top.get("quarantine", {}), QUARANTINE_SETTINGS),
    )


def _rule(where: str, name: str, column: str, given: Any, kind: Kind, then: Action, *, label: str = "") -> Rule:
    """One rule: its value alone, the action of a rule without a value, or a mapping of both and of what is allowed."""
    label = label or name
    options: dict[str, Any] = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
    if not isinstance(given, Mapping):
        options = {"then" if kind.value is None else "is": given}
    extra = ("tolerance",) if name == "sum" else ()
    _check_names(f"{where}, {label}", options, (*(("is",) if kind.value else ()), *extra, *LIMITS))
    if kind.value is not None:
        if "is" not in options:
            raise InputError(f"{where}, {label} has no value: give {{is: ...}}, {kind.value.allowed}.")
        _checked(where, label, options["is"], kind.value)
    for limit, form in LIMITS.items():
        if limit in options:
            _checked(where, label if kind.value is None and given is options.get(limit) else f"{label}.{limit}",
                     options[limit], form)  # fmt: skip
    tolerance = _checked(where, f"{label}.tolerance", options.pop("tolerance", 0.0), AMOUNT)
    value = options.pop("is", None)
    if name == "unreadable" and options.get("then", then) != "quarantine":
        raise InputError(f"{where}, unreadable can only be quarantine: without it such a cell is an error already.")
    given_options: dict[str, Any] = {"then": then, **options}
    return Rule(name, column, value=value, tolerance=float(tolerance), **given_options)


def _refuse_contradictions(rules: Sequence[Rule], rows: Mapping[str, Any]) -> None:
    """Refuse bounds that no value is within: they would fail each night, or put all of it aside."""
    values = {(rule.column, rule.name): rule.value for rule in rules}
    pairs = [(f"column {column!r}", low, high, values[column, low], values.get((column, high)))
             for column, low in values for high in _UPPER.get(low, ())]  # fmt: skip
    if "min" in rows:
        pairs.append(("rows", "min", "max", rows["min"], rows.get("max")))
    for where, low, high, least, most in pairs:
        if most is None or isinstance(least, str) or isinstance(most, str):
            continue  # dates, whose order depends on the column
        if least > most or (least == most and ("above" in (low, high) or "below" in (low, high))):
            raise InputError(f"rules: {where}, {low} is {least!r} and {high} is {most!r}: no value is within both.")


def _settings(where: str, given: Any, forms: Mapping[str, Form]) -> dict[str, Any]:
    entries = _mapping(where, given)
    _check_names(where, entries, forms)
    return {name: _checked(where, name, value, forms[name]) for name, value in entries.items()}


def _mapping(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{where} is {shown(given, 60)}, and not a mapping. docs/data.md has an example.")
    return cast("Mapping[str, Any]", given)


def _check_names(where: str, given: Mapping[str, Any], allowed: Sequence[str] | Mapping[str, Any]) -> None:
    for name in given:
        if name not in allowed:
            raise InputError(f"{where} has no {shown(name, 40)}. {did_you_mean(str(name), allowed)}")


def _checked(where: str, name: str, value: Any, form: Form) -> Any:
    if not form.fits(value):
        raise InputError(f"{where}, {name} is {shown(value, 60)}. Allowed: {form.allowed}.")
    return value
