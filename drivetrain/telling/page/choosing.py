"""Choices of a served page's reader: boxes whose ticks the address remembers."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.markup import Content, Markup, el

MAX_CHARTS = 80


def choice(
    field: str, title: str, offered: Sequence[tuple[str, str]], chosen: Sequence[str], *more: Content
) -> Markup | None:
    """Boxes in a form, folded: name and words of each; the address remembers those that are ticked."""
    if not offered:
        return None
    boxes = [
        el("label", el("input", type="checkbox", name=field, value=name, checked=name in chosen), text)
        for name, text in offered
    ]
    told = f"{title}: {len(chosen)} chosen" if chosen else f"{title}: the usual ones"
    return el("details", el("summary", told), el("div", boxes, class_="boxes"), more, class_="choice")


def charts_form(curves: Sequence[tuple[str, str]], chosen: Sequence[str], *more: Content) -> Markup | None:
    """A form for the charts of a page, by step and name of their curves; `more` fields are sent with it."""
    offered = [(chart_key(*curve), f"{curve[1].replace('_', ' ')} of {curve[0]}") for curve in curves[:MAX_CHARTS]]
    boxes = choice("chart", "Charts", offered, chosen, el("button", "Show"))
    return el("form", more, boxes, method="get", class_="filter") if boxes else None


def chart_key(step: str, name: str) -> str:
    """A curve, as the address names it."""
    return f"{step}.{name}"
