"""Row rules from the schemas of pandera and dataframely, and from suites of Great Expectations.

Nothing of theirs is imported: attributes of their objects are read, and the JSON of a suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

_TYPES = {
    **{name.capitalize(): name for name in ("int8", "int16", "int32", "int64", "float32", "float64", "string")},
    **{f"UInt{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{"Bool": "bool", "str": "string", "boolean": "bool", "datetime64[ns]": "timestamp[ns]", "Date": "date32"},
}
_PLAIN = frozenset(_TYPES.values())
_Rules = dict[str, Any]


def translated(given: Any) -> tuple[_Rules, list[str]] | None:
    """The rules that another tool's schema has, and the names of its checks that have no meaning here; None for an
    object of no such tool."""
    if isinstance(given, Mapping):
        suite = cast("Mapping[str, Any]", given)
        return _of_suite(suite) if isinstance(suite.get("expectations"), list) else None
    module = (given if isinstance(given, type) else type(given)).__module__
    bases = [base.__module__ for base in given.__mro__] if isinstance(given, type) else [module]
    if any(base.startswith("dataframely.") for base in bases):
        return _of_dataframely(given)
    return _of_pandera(given) if module.startswith("pandera.") else None


def _of_suite(suite: Mapping[str, Any]) -> tuple[_Rules, list[str]]:
    columns: dict[str, _Rules] = {}
    rows: _Rules = {}
    others: list[str] = []
    for each in cast("list[Mapping[str, Any]]", suite["expectations"]):
        name, options = str(each.get("type") or each.get("expectation_type")), dict(each.get("kwargs") or {})
        share = 1 - options.get("mostly", 1.0)
        limits = {"share": round(share, 9)} if share else {}
        if name == "expect_table_row_count_to_be_between":
            rows = _given(min=options.get("min_value"), max=options.get("max_value"))
        elif name in _EXPECTATIONS and "column" in options:
            found = _EXPECTATIONS[name](options)
            valued = {rule: {"is": value, **limits} if limits else value for rule, value in found.items()}
            bare = {rule: limits or "fail" for rule, value in found.items() if value is None}
            columns.setdefault(options["column"], {}).update({**valued, **bare})
        else:
            others.append(name)
    return {"columns": columns, **({"rows": rows} if rows else {})}, others


_EXPECTATIONS: Mapping[str, Callable[[Mapping[str, Any]], _Rules]] = {
    "expect_column_to_exist": lambda options: {},
    "expect_column_values_to_not_be_null": lambda options: {"nulls": None},
    "expect_column_values_to_be_unique": lambda options: {"unique": None},
    "expect_column_values_to_be_in_set": lambda options: {"values": options["value_set"]},
    "expect_column_values_to_match_regex": lambda options: {"pattern": f"(?s:.*(?:{options['regex']}).*)"},
    "expect_column_value_lengths_to_be_between": lambda options: _given(
        min_length=options.get("min_value"), max_length=options.get("max_value")
    ),
    "expect_column_values_to_be_between": lambda options: _given(
        **{
            "above" if options.get("strict_min") else "min": options.get("min_value"),
            "below" if options.get("strict_max") else "max": options.get("max_value"),
        }
    ),
}


def _of_pandera(schema: Any) -> tuple[_Rules, list[str]]:
    columns: dict[str, _Rules] = {}
    others = [f"{check.name} of the table" for check in schema.checks or ()]
    for name, column in schema.columns.items():
        rules = columns[str(name)] = _of_column(str(column.dtype), column.nullable)
        if column.unique:
            rules["unique"] = "fail"
        for check in column.checks or ():
            found = _CHECKS.get(check.name)
            if found is None:
                others.append(f"{check.name} of {name}")
            else:
                rules |= found(check.statistics or {})
    return {"columns": columns}, others


_CHECKS: Mapping[str | None, Callable[[Mapping[str, Any]], _Rules]] = {
    "greater_than_or_equal_to": lambda values: {"min": values["min_value"]},
    "greater_than": lambda values: {"above": values["min_value"]},
    "less_than_or_equal_to": lambda values: {"max": values["max_value"]},
    "less_than": lambda values: {"below": values["max_value"]},
    "in_range": lambda values: {
        "min" if values.get("include_min", True) else "above": values["min_value"],
        "max" if values.get("include_max", True) else "below": values["max_value"],
    },
    "isin": lambda values: {"values": list(values["allowed_values"])},
    # (they match from the beginning alone)
    "str_matches": lambda values: {"pattern": f"(?s:(?:{getattr(values['pattern'], 'pattern', values['pattern'])}).*)"},
    "str_length": lambda values: _given(min_length=values.get("min_value"), max_length=values.get("max_value")),
}


def _of_dataframely(schema: Any) -> tuple[_Rules, list[str]]:
    columns: dict[str, _Rules] = {}
    others: list[str] = []
    for name, column in schema.columns().items():
        rules = columns[name] = _of_column(type(column).__name__, column.nullable)
        names = {"min": "min", "max": "max", "min_exclusive": "above", "max_exclusive": "below"}
        names |= {"min_length": "min_length", "max_length": "max_length", "is_in": "values", "regex": "pattern"}
        for theirs, ours in names.items():
            value = getattr(column, theirs, None)
            if value is not None:
                rules[ours] = list(value) if ours == "values" else value
        if "pattern" in rules:
            rules["pattern"] = f"(?s:.*(?:{rules['pattern']}).*)"
        if column.check is not None:
            others.append(f"check of {name}")
    key = [name for name, column in schema.columns().items() if column.primary_key]
    if len(key) == 1:
        columns[key[0]]["unique"] = "fail"
    elif key:
        others.append(f"primary key of {', '.join(key)}")
    return {"columns": columns}, others


def _of_column(kind: str, nullable: bool) -> _Rules:
    found = _TYPES.get(kind, kind)
    return {**({"type": found} if found in _PLAIN else {}), **({} if nullable else {"nulls": "fail"})}


def _given(**values: Any) -> _Rules:
    return {name: value for name, value in values.items() if value is not None}
