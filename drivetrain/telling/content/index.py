"""Entries of the lists of runs and models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drivetrain.run_store.run_values import CURVE, DECIDES, KINDS, value_named, values_of
from drivetrain.run_store.search import FIELDS, search
from drivetrain.run_store.where import names_in
from drivetrain.telling.content import Curve, main_curve

if TYPE_CHECKING:
    from drivetrain.run_store.model import Run
    from drivetrain.run_store.reader import Ledger

MAX_COLUMNS = 3
MAX_METRICS, MAX_OFFERED = 40, 90
_FIRST = ("accuracy", "auroc", "f1_macro", "rmse", "loss", "validation_loss")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One run of the list; `values` are those of the list's columns, None where it has none."""

    row: Run
    seconds: float | None
    values: tuple[Any, ...]
    tags: Mapping[str, str]
    curve_name: str = ""
    curve: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Index:
    """A page of the list. `columns` are the names of the values that it shows, `offered` those that it could show."""

    lines: tuple[Line, ...] = ()
    columns: tuple[str, ...] = ()
    total: int = 0
    pipelines: tuple[str, ...] = field(default=())
    offered: tuple[str, ...] = ()


def index(
    ledger: Ledger,
    *,
    where: str | None = None,
    sort: str | None = None,
    pipeline: str | None = None,
    columns: tuple[str, ...] = (),
    limit: int = 50,
    offset: int = 0,
) -> Index:
    """A page of the runs that are looked for (run_store/search.py), with the values that they were looked for by, and
    what most of them measured; or with these columns, where some are given.

    Raises:
        UserError: as `search`.
    """
    found = search(ledger, where=where, sort=sort, pipeline=pipeline, limit=limit, offset=offset)
    values = values_of(ledger, [row.id for row in found.rows])
    asked = [*names_in(where or ""), *([sort.lstrip("+-")] if sort else [])]
    columns = columns or _columns(values, asked)
    return Index(
        lines=tuple(_line(ledger, row, values[row.id], columns) for row in found.rows),
        columns=columns,
        total=found.total,
        pipelines=tuple(row[0] for row in ledger.rows("SELECT DISTINCT pipeline FROM executions ORDER BY 1")),
        offered=tuple(dict.fromkeys([*columns, *_offered(values)]))[: max(MAX_OFFERED, len(columns))],
    )


def _columns(values: Mapping[str, Mapping[str, Mapping[str, Any]]], asked: list[str]) -> tuple[str, ...]:
    counted = Counter(name for of_run in values.values() for name in of_run.get("metric", {}) if "_class_" not in name)
    deciding = Counter(name for of_run in values.values() for name in of_run.get(DECIDES, {}))
    first = [*sorted(deciding, key=lambda name: (-deciding[name], name)), *_FIRST]
    rank = {name: place for place, name in enumerate(dict.fromkeys(first))}
    likely = sorted(counted, key=lambda name: (rank.get(name, len(rank)), -counted[name], name))
    wanted = [name for name in asked if name not in FIELDS and not name.startswith("tag.")]
    return tuple(dict.fromkeys([*wanted, *[name for name in likely if name in rank or counted[name] > 1]]))[
        : max(MAX_COLUMNS, len(wanted))
    ]


def _offered(values: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Metrics that most runs have, then settings: those first that are not the same in all runs."""
    found = _most_first(values, "metric")[:MAX_METRICS]
    for kind in ("parameter", "setting"):
        names = _most_first(values, kind)
        different = {name for name in names if len({run.get(kind, {}).get(name) for run in values.values()}) > 1}
        names.sort(key=lambda name: name not in different)
        found += [f"{kind}.{name}" if name in found else name for name in names]
    return found


def _most_first(values: Mapping[str, Mapping[str, Mapping[str, Any]]], kind: str) -> list[str]:
    counted = Counter(name for of_run in values.values() for name in of_run.get(kind, {}) if "_class_" not in name)
    return sorted(counted, key=lambda name: (-counted[name], name))


def _line(ledger: Ledger, row: Run, values: Mapping[str, Mapping[str, Any]], columns: tuple[str, ...]) -> Line:
    name, text = next(iter(values.get(CURVE, {}).items()), ("", "[]"))
    points = tuple(json.loads(text))
    if not points and row.ended is None:
        name, points = _curve_so_far(ledger, row.id)
    known = {kind: values.get(kind, {}) for kind in KINDS}
    return Line(
        row=row,
        seconds=row.seconds,
        values=tuple(_shown(known, column) for column in columns),
        tags=values.get("tag", {}),
        curve_name=name,
        curve=points,
    )


def _shown(known: Mapping[str, Mapping[str, Any]], column: str) -> Any:
    """A metric as a number; a setting as it was given: 2026 may be a year."""
    value = value_named(known, column)
    return value if value is None or value is value_named({"metric": known["metric"]}, column) else str(value)


def _curve_so_far(ledger: Ledger, execution: str) -> tuple[str, tuple[float, ...]]:
    """The curve so far of a run that goes on."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in ledger.metrics(execution, most=80):
        points.setdefault((row.step, row.name), []).append((row.seconds, row.value))
    curve = main_curve(Curve(step=step, name=name, points=tuple(each)) for (step, name), each in points.items())
    return ("", ()) if curve is None else (curve.name, tuple(curve.thinned()))
