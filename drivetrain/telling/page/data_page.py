"""Data sets as a page: rows, leakage, columns with their histograms, columns that are empty together, first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.base.markup import Content, el
from drivetrain.telling import document, scrolled, section, table
from drivetrain.telling.content.datasets import DatasetFacts
from drivetrain.telling.page.data_section import draw

_MAX_CELL = 80


def data_page(
    title: str,
    found: Sequence[DatasetFacts],
    together: Mapping[str, Sequence[Sequence[str]]],
    samples: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """The whole page.

    Args:
        title: its heading.
        found: the sets.
        together: by set, the groups of columns that are empty in the very same rows.
        samples: by set, some rows.
    """
    body: list[Content] = [draw(tuple(found))]
    groups = [(el("code", name), ", ".join(group)) for name, each in together.items() for group in each]
    if groups:
        body.append(section("Empty together", scrolled(table(("Set", "Columns"), groups)), id="together"))
    for name, rows in samples.items():
        if rows:
            cells = [[_text(value) for value in row.values()] for row in rows]
            body.append(section(f"First rows of {name}", scrolled(table(list(rows[0]), cells)), id=f"rows-{name}"))
    return document(title, el("header", el("h1", title)), el("main", body, id="content"), styles=("data.css",))


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 3] + "..."
