"""The model card of a registered version as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.base.markup import Content, Markup, el
from drivetrain.registry.card_sections import Section, sections, title_of
from drivetrain.telling import Around, document, scrolled, section, table
from drivetrain.telling.charts.dot_plot import Row, dot_plot

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion


def card_page(version: ModelVersion, around: Around | None = None, run: str | None = None) -> str:
    """The whole page.

    Args:
        run: the address of the page of the run that made it, where there is one.
    """
    link = el("p", el("a", "The run that made it", href=run)) if run else None
    body = [_section(each) for each in sections(version)]
    title = title_of(version)
    return document(title, el("header", el("h1", title), link), el("main", body, id="content"), around=around)


def _section(found: Section) -> Markup:
    parts: list[Content] = [el("p", line) for line in found.lines]
    if found.bars:
        rows = [Row(name=name, value=value) for name, value in found.bars]
        parts.append(el("div", dot_plot(found.head[-1].capitalize(), rows, from_zero=True), class_="charts narrow"))
    if found.rows:
        parts.append(scrolled(table(found.head, found.rows, style="wrapped")))
    if found.commands:
        parts.append(el("pre", "\n".join(found.commands), tabindex=0, aria_label="Commands"))
    return section(found.title, parts, id=found.title.lower().replace(" ", "-"))
