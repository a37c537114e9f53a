"""The data sets of a run: how many rows, what leaks between their sides, what the columns are like."""

from __future__ import annotations

import functools

from drivetrain.base.formatting import count, number, share, size
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import listing, section
from drivetrain.telling.content.datasets import ColumnFacts, DatasetFacts

WIDTH, HEIGHT = 96.0, 18.0


def draw(found: tuple[DatasetFacts, ...]) -> Markup:
    """The section of all data sets."""
    return section("Data", _sets(found), [_columns(one) for one in found if one.columns], id="data")


def _sets(found: tuple[DatasetFacts, ...]) -> Markup:
    names = ("Step", "Set", "Rows", "Size", "Content", "Also in train")
    sources = any(one.source for one in found)
    rows = [
        (
            el("code", one.step),
            el("code", one.name),
            f"{one.rows:,}",
            f"{size(one.bytes)} in {count(one.shards, 'file')}",
            el("code", one.content),
            el("span", _leakage(one), class_="leaks") if one.leaks else _leakage(one),
            *((el("code", one.source),) if sources else ()),
        )
        for one in found
    ]
    return listing((*names, *(("Source",) if sources else ())), rows, right=("Rows", "Size"), kind="data")


def _leakage(one: DatasetFacts) -> str:
    if one.leaked_rows is None:
        return ""
    groups = [f"{values:,} values of {name}" for name, values in one.leaked_values.items() if values]
    rows = [f"{one.leaked_rows:,} rows ({share(one.leaked_rows / max(one.rows, 1))})"] if one.leaked_rows else []
    return ", ".join([*rows, *groups]) or "nothing"


def _columns(one: DatasetFacts) -> Markup:
    names = ("Column", "Type", "Missing", "Different", "Least", "Mean", "Greatest", "Values")
    right = ("Missing", "Different", "Least", "Mean", "Greatest")
    table = listing(names, [_column(column, one.rows) for column in one.columns], right=right, kind="data")
    return el("details", el("summary", f"Columns of {one.name} ({one.step})"), table)


@functools.lru_cache(maxsize=4096)
def _column(column: ColumnFacts, rows: int) -> tuple[Content, ...]:
    """(Kept: the page of a run that goes on is made every few seconds, and what it read does not change.)"""
    spread = map(_value, (column.low, column.mean, column.high))
    name = el("code", column.name)
    return (name, column.type, _missing(column, rows), _different(column, rows), *spread, _bars(column))


def _missing(column: ColumnFacts, rows: int) -> str:
    if column.nulls is None or not rows:
        return ""
    return share(column.nulls / rows) if column.nulls else "none"


def _different(column: ColumnFacts, rows: int) -> str:
    """An estimate may be above the number of rows."""
    return "" if column.distinct is None else f"{min(column.distinct, rows):,}"


def _value(value: float | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else number(value)


def _bars(column: ColumnFacts) -> Content:
    """A histogram of the size of a word."""
    most = max(column.bins, default=0)
    if not most:
        return None
    width = WIDTH / len(column.bins)
    bars = [
        el("rect", x=f"{place * width:.1f}", y=f"{HEIGHT - high:.1f}", width=f"{width - 1:.1f}", height=f"{high:.1f}")
        for place, rows in enumerate(column.bins)
        for high in [max(HEIGHT * rows / most, 0.5 if rows else 0.0)]
    ]
    label = f"histogram of {column.name}"
    return el(
        "svg", bars, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", width=WIDTH, height=HEIGHT, role="img", aria_label=label
    )
