"""How each verb is given as JSON, and what to use for the names of other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.errors import InputError, did_you_mean

EXAMPLES: Mapping[str, Any] = {
    "select": ["id", "price"],
    "rename": {"ts": "when"},
    "cast": {"id": "string", "when": "timestamp[us]"},
    "filter": {"greater": ["price", 0]},
    "derive": {"total": {"multiply": ["price", "count"]}},
    "join": {"table": "users", "on": ["user"], "how": "left"},
    "aggregate": {"by": ["user"], "values": {"paid": {"sum": ["price"]}}},
    "window": {"by": ["user"], "order_by": ["when"], "values": {"before": {"lag": ["price", 1]}}},
    "deduplicate": {"by": ["id"], "order_by": ["when"]},
    "sort": ["when", "id"],
    "sample": {"key": "id", "percent": 10},
    "shuffle": {"key": "id", "seed": 7},
    "map_batches": {"function": "my_package.features:add", "columns": {"id": "int64"}},
}
_NAMES, _TEXTS, _OBJECT = "a name, or a list of names", "an object of texts", "an object"
_TEXT, _WHOLE = "a text", "a whole number"
_FORMS = {"select": _NAMES, "sort": _NAMES, "rename": _TEXTS, "cast": _TEXTS, "filter": ""}
_OPTIONS = {
    **{"by": _NAMES, "on": _NAMES, "order_by": _NAMES, "values": _OBJECT, "columns": _TEXTS},
    **{"table": _TEXT, "how": _TEXT, "key": _TEXT, "salt": _TEXT, "function": _TEXT, "percent": _WHOLE, "seed": _WHOLE},
}
_NO_ORDER = (
    " The order is always from the smallest to the largest. For the opposite derive the negated column and name that: "
    '{"derive": {"down": {"negate": ["price"]}}}, of a time stamp {"negate": [{"epoch_seconds": ["when"]}]}.'
)
_INSTEAD = {
    **dict.fromkeys(("where", "drop_nulls", "dropna", "having"), "filter"),
    **dict.fromkeys(("group_by", "groupby", "agg"), "aggregate, with `by`"),
    **dict.fromkeys(("distinct", "unique", "drop_duplicates", "dedupe"), "deduplicate, with `by`"),
    **dict.fromkeys(("with_columns", "withColumn", "mutate", "assign"), "derive"),
    **dict.fromkeys(("fill_null", "fillna", "coalesce", "if_else"), "it as an operation in derive"),
    **dict.fromkeys(("order_by", "orderBy", "orderby"), "sort"),
    **dict.fromkeys(("limit", "head"), 'window with {"n": {"row_number": []}} and filter, or sample'),
    "drop": "select, which names the columns that remain",
    "merge": "join",
    "pivot": 'aggregate with an if_else a value: {"sum": [{"if_else": [{"equal": ["kind", {"value": "a"}]}, "x", 0]}]}',
    **dict.fromkeys(("unpivot", "melt", "explode"), "map_batches, a function of your own that makes rows of a row"),
    **dict.fromkeys(("union", "concat", "append"), "no verb: put the files of both tables into the folder of raw"),
}
_HOW = {
    "right": "Join from the other table, with how=left",
    **dict.fromkeys(
        ("full", "outer", "full_outer"),
        "Not available: put both tables into the folder of raw and aggregate by the key, or join twice with how=left",
    ),
    "cross": "Not available: derive a column with the same number in both tables, and join on it",
}


def check_verb(name: str, where: str) -> None:
    """
    Raises:
        InputError: there is no such verb; the message says what to use instead.
    """
    if name not in EXAMPLES:
        instead = _INSTEAD.get(name)
        raise InputError(
            f"{where}: there is no verb {name!r}. " + (f"Use {instead}." if instead else did_you_mean(name, EXAMPLES))
        )


def check_form(name: str, given: object, where: str) -> None:
    """Hold what a verb is given against its form; which columns there are is looked at later.

    Raises:
        InputError: it is of another form.
    """
    form = _FORMS.get(name, _OBJECT)
    example = f"Example: {json.dumps({name: EXAMPLES[name]})}."
    if not _has_form(given, form):
        raise InputError(
            f"{where}: {json.dumps(given):.60} is not {form}. {example}" + (_NO_ORDER if name == "sort" else "")
        )
    if name in _FORMS or name == "derive":
        return
    for option, value in cast("dict[str, object]", given).items():
        form = _OPTIONS.get(option, "")
        if not _has_form(value, form):
            raise InputError(
                f"{where}: {option} is {json.dumps(value):.60}, not {form}. {example}"
                + (_NO_ORDER if option == "order_by" else "")
            )


def other_how(how: str) -> str:
    """Advice in place of a kind of join that does not exist; empty without advice."""
    return f"{_HOW[how]}." if how in _HOW else ""


def check_distinct(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    """
    Raises:
        InputError: a name stands there twice.
    """
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}: {twice!r} is named twice. Name each column once.")
    return names


def _has_form(given: object, form: str) -> bool:
    if form == _WHOLE:
        return isinstance(given, int) and not isinstance(given, bool)
    if form == _OBJECT:
        return isinstance(given, dict)
    if form == _TEXTS:
        return isinstance(given, dict) and all(isinstance(each, str) for each in cast("dict[str, Any]", given).values())
    if form == _NAMES and isinstance(given, list):
        return all(isinstance(each, str) for each in cast("list[Any]", given))
    return not form or isinstance(given, str)
