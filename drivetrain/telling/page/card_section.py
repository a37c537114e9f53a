"""The cards of steps on a run's page. Nothing of them runs: Markdown holds no HTML, HTML has a frame of its own."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import number
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import scrolled, section, table
from drivetrain.telling.charts.charts import Series, line_chart
from drivetrain.telling.charts.dot_plot import Row, dot_plot
from drivetrain.telling.content.card import (
    BarsPart,
    CardFacts,
    ChartPart,
    HtmlPart,
    ImagePart,
    Part,
    TablePart,
    TextPart,
)


def draw(cards: Sequence[CardFacts]) -> list[Markup]:
    """A section a card."""
    return [
        section(
            card.title or f"Card of {card.step}",
            [_part(part) for part in card.parts],
            el("p", f"Not all of the card can be shown: {card.problem}.") if card.problem else None,
            id=f"card-{place}",
        )
        for place, card in enumerate(cards, 1)
    ]


def _part(part: Part) -> Content:
    match part:
        case TextPart():
            return el("div", _markdown(part.markdown), class_="prose")
        case TablePart():
            return _table(part)
        case ChartPart():
            series = [Series(name, points) for name, points in part.lines if points]
            if not series:
                return None
            return el("div", line_chart(part.title, series, x_label=part.x_label or "x"), class_="charts narrow")
        case BarsPart():
            rows = [Row(name=name, value=value) for name, value in part.rows]
            return el("div", dot_plot(part.title, rows, from_zero=True), class_="charts narrow") if rows else None
        case ImagePart():
            caption = el("figcaption", part.caption) if part.caption else None
            return el("figure", el("img", src=part.address, alt=part.caption or "picture"), caption, class_="picture")
        case HtmlPart():
            frame = el(
                "iframe", sandbox="", srcdoc=part.html, title=part.caption or "HTML of the step", height=part.height
            )
            return el("figure", frame, el("figcaption", part.caption) if part.caption else None, class_="picture")


def _table(part: TablePart) -> Markup:
    texts = {place for row in part.rows for place, cell in enumerate(row) if isinstance(cell, str)}
    right = [place for place in range(len(part.columns)) if place not in texts]
    rows = [[_text(cell) for cell in row] for row in part.rows]
    more = f" (the first {len(part.rows):,} of {part.total:,} rows)" if part.total > len(part.rows) else ""
    made = table(part.columns, rows, right=right, caption=part.caption + more, lead=None)
    return scrolled(made, label=part.caption or "Table")


def _text(cell: str | float | None) -> str:
    return "–" if cell is None else cell if isinstance(cell, str) else number(cell)


def _markdown(text: str) -> Markup:
    """CommonMark as HTML. The parser escapes HTML and refuses addresses that are scripts; headings are moved below the
    page's own."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h3"
    return Markup(parser.renderer.render(tokens, parser.options, {}))
