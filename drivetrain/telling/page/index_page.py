"""The list of runs: what they came to, side by side; served with a form to filter it, or as a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from drivetrain.base.formatting import count, duration, moment, moment_with_zone, number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import Around, document, scrolled, section
from drivetrain.telling.charts.charts import sparkline
from drivetrain.telling.charts.run_places import run_places
from drivetrain.telling.content.findings import words
from drivetrain.telling.content.index import Index, Line
from drivetrain.telling.page.choosing import choice
from drivetrain.telling.page.sections import status_mark


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request for the list. `page` counts from 1."""

    where: str = ""
    sort: str = ""
    pipeline: str = ""
    page: int = 1
    per_page: int = 50
    columns: tuple[str, ...] = ()
    """Chosen ones; none for the usual ones."""
    mistake: str = ""
    """The problem of `where` or `sort`."""

    def address(self, **changes: str | int) -> str:
        """The address of the list with something asked otherwise."""
        asked = {"where": self.where, "sort": self.sort, "pipeline": self.pipeline, "page": self.page, **changes}
        given = [(name, value) for name, value in asked.items() if value and (name, value) != ("page", 1)]
        given += [("column", name) for name in self.columns]
        return "/?" + urlencode(given) if given else "/"


def index_page(
    found: Index, asked: Asked, around: Around, address: Callable[[str], str], *, pages: Callable[[int], str] | None
) -> str:
    """The whole page.

    Args:
        address: of a run's page, by its id.
        pages: of another page of the list, where it is a file; None where it is served.
    """
    served = pages is None
    title = "Runs" if not asked.pipeline else f"Runs of {asked.pipeline}"
    table = _table(found, asked, address, served=served)
    turned = _turning(found, asked, pages or (lambda page: asked.address(page=page)))
    how_many = count(found.total, "run") if not asked.mistake else ""
    listed: Content = [
        table,
        el(
            "div",
            el("button", "Compare the chosen runs", class_="main") if served and found.lines else None,
            el("span", how_many, id="how-many"),
            turned,
            class_="bar",
        ),
    ]
    if asked.mistake:
        listed = el("p", "Correct the condition to see runs.")
    elif not found.lines:
        empty = (
            "No run fits." if asked.where or asked.pipeline else "Nothing has been run yet: drivetrain run retraining"
        )
        listed = el("p", empty)
    return document(
        title,
        el("header", el("h1", title)),
        el(
            "main",
            _filter(found, asked) if served else None,
            section("All runs", el("form", listed, action="/compare", method="get") if served else listed, id="runs"),
            id="content",
        ),
        el("footer", f"Written by drivetrain at {moment_with_zone(time.time())}.") if not served else None,
        around=around,
    )


def _filter(found: Index, asked: Asked) -> Markup:
    chosen = [
        el("option", name or "all", value=name, selected=name == asked.pipeline) for name in ("", *found.pipelines)
    ]
    form = el(
        "form",
        el(
            "label",
            "Condition",
            el(
                "input",
                name="where",
                value=asked.where,
                placeholder="accuracy > 0.98 and tag.team = vision",
                autocomplete="off",
                spellcheck="false",
                aria_describedby="mistake" if asked.mistake else None,
                aria_invalid="true" if asked.mistake else None,
            ),
            class_="grow",
        ),
        el("label", "Sort by", el("input", name="sort", value=asked.sort, placeholder="-accuracy", size=16)),
        el("label", "Pipeline", el("select", chosen, name="pipeline")),
        choice("column", "Columns", [(name, words(name)) for name in found.offered], asked.columns),
        el("button", "Show"),
        action="/",
        method="get",
        class_="filter",
        role="search",
    )
    wrong = el("p", asked.mistake, id="mistake", class_="mistake", role="alert") if asked.mistake else None
    return el("section", el("h2", "Find", id="find"), form, wrong, aria_labelledby="find")


def _table(found: Index, asked: Asked, address: Callable[[str], str], *, served: bool) -> Markup:
    def heading(text: str, name: str, right: bool = False) -> Markup:
        order = {name: "ascending", f"-{name}": "descending"}.get(asked.sort)
        by = f"-{name}" if asked.sort != f"-{name}" else name
        sign = {"ascending": " ↑", "descending": " ↓"}.get(order or "", "")
        inner: Content = el("a", text, sign, href=asked.address(sort=by, page=1)) if served else text
        return el("th", inner, scope="col", aria_sort=order, class_="right" if right else None)

    head = [
        el("th", el("span", "Chosen", class_="skip"), scope="col") if served else None,
        heading("Run", "id"),
        heading("Pipeline", "pipeline"),
        heading("Status", "status"),
        heading("Started", "started"),
        heading("Time", "seconds", right=True),
        [heading(words(name), name, right=True) for name in found.columns],
        el("th", "Curve", scope="col"),
        el("th", "Tags", scope="col"),
    ]
    body = [_row(line, found.columns, address, served=served) for line in found.lines]
    made = el("table", el("thead", el("tr", head)), el("tbody", body), class_="runs stacked")
    return scrolled(made, label="Runs")


def _row(line: Line, columns: Sequence[str], address: Callable[[str], str], *, served: bool) -> Markup:
    row = line.row
    chosen = el("input", type="checkbox", name="run", value=row.id, aria_label=f"Choose {row.name or row.id}")
    name = el("span", row.name, class_="name") if row.name else None
    return el(
        "tr",
        el("td", chosen) if served else None,
        el("th", el("a", name, el("code", row.id), href=address(row.id)), scope="row", title=row.note),
        el("td", row.pipeline, class_="pipeline"),
        el("td", status_mark(row.shown_status)),
        el("td", moment(row.started), class_="moment"),
        el("td", duration(line.seconds) if line.seconds is not None else "–", class_="right"),
        [
            el("td", _value(value), class_="right none" if value is None else "right", data_name=words(name))
            for name, value in zip(columns, line.values, strict=True)
        ],
        el("td", sparkline(words(line.curve_name), line.curve), class_=f"s{run_places([row.id])[row.id]}"),
        el("td", [el("span", f"{key} {text}", class_="tag") for key, text in line.tags.items()], class_="tags"),
    )


def _value(value: Any) -> str:
    return "–" if value is None else number(value) if isinstance(value, int | float) else str(value)


def _turning(found: Index, asked: Asked, pages: Callable[[int], str]) -> Markup | None:
    last = max(-(-found.total // asked.per_page), 1)
    if last == 1:
        return None
    return el(
        "nav",
        el("a", "← newer" if not asked.sort else "← before", href=pages(asked.page - 1), rel="prev")
        if asked.page > 1
        else None,
        el("span", f"page {asked.page:,} of {last:,}"),
        el("a", "older →" if not asked.sort else "after →", href=pages(asked.page + 1), rel="next")
        if asked.page < last
        else None,
        aria_label="Pages of the list",
    )
