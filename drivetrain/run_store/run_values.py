"""Values by which runs are found: their settings, parameters, metrics and tags, a row each.

Numbers are kept as numbers, so that they compare as such, also where a text spells one (then with the text); truth as
`true` and `false`; what is neither number nor text as its JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import sqlite3

# A name that several kinds have means the first of these.
KINDS = ("metric", "setting", "parameter", "tag")
CURVE, INDEXED, DECIDES = "curve", "indexed", "decides"
"""Further kinds: the points of a run's main curve, as JSON; a mark on each run whose end was entered; a mark on each
metric by which the run decided."""
MAX_CHARACTERS = 1_000
MAX_VALUES = 2_000
"""The most values of a run."""
Value = tuple[str, str, Any]
"""Kind, name, value."""


def begun_with(parameters: Mapping[str, Any], settings: Mapping[str, Any], tags: Mapping[str, str]) -> list[Value]:
    """The values of a run that are known when it begins."""
    kinds = (("parameter", parameters), ("setting", settings), ("tag", tags))
    return [(kind, name, value) for kind, values in kinds for name, value in values.items()]


def plain(value: Any) -> float | int | str | None:
    """A value as it is kept; None of what is not kept."""
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    if isinstance(value, int | float):
        return (value if abs(value) < 2**63 else float(value)) if math.isfinite(value) else str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    number = number_in(text)
    return text[:MAX_CHARACTERS] if number is None else number


def number_in(text: str) -> float | int | None:
    """The number that a text spells; None where it spells none that is finite."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def enter_values(db: sqlite3.Connection, execution: str, values: Iterable[Value]) -> None:
    """Enter values of a run, inside a transaction; of a name and kind that is there already the new one counts."""
    rows = [
        (name, execution, kind, kept, value if isinstance(value, str) and kept != value else None)
        for kind, name, value in values
        if (kept := plain(value)) is not None
    ]
    db.executemany("INSERT OR REPLACE INTO run_values VALUES (?, ?, ?, ?, ?)", rows[:MAX_VALUES])


def kind_and_name(name: str) -> tuple[str | None, str]:
    """`tag.team` -> (`tag`, `team`); of a name alone any kind."""
    kind, dot, rest = name.partition(".")
    return (kind, rest) if dot and kind in KINDS and rest else (None, name)


def value_named(values: Mapping[str, Mapping[str, Any]], name: str) -> Any:
    """The value of a name among a run's values (kind -> name -> value); None if it has none of that name."""
    kind, bare = kind_and_name(name)
    kinds = KINDS if kind is None else (kind,)
    return next((values[each][bare] for each in kinds if bare in values.get(each, {})), None)


class Rows(Protocol):
    """A ledger, as far as values are read from it."""

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]: ...


def values_of(ledger: Rows, executions: Iterable[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Execution -> kind -> name -> value; of tags the text as it was given."""
    ids = list(executions)
    found: dict[str, dict[str, dict[str, Any]]] = {id: {} for id in ids}
    shown = "CASE kind WHEN 'tag' THEN COALESCE(text, value) ELSE value END"
    sql = f"SELECT execution, kind, name, {shown} FROM run_values WHERE execution IN (SELECT value FROM json_each(?))"
    for execution, kind, name, value in ledger.rows(f"{sql} ORDER BY execution, name", json.dumps(ids)):
        found[execution].setdefault(kind, {})[name] = value
    return found
