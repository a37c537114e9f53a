"""The page's section on the samples with the largest losses: pictures, or rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count, number
from drivetrain.base.markup import Markup, el
from drivetrain.telling import scrolled, table
from drivetrain.telling.content.worst import WorstSample


def worst_part(samples: Sequence[WorstSample], key: str = "") -> Markup | None:
    """None where there are none. `key` names the column that names a sample."""
    if not samples:
        return None
    pictured = all(one.picture for one in samples)
    return el(
        "div",
        el("h3", f"The {count(len(samples), 'sample')} with the largest losses"),
        el("div", [_figure(one, key) for one in samples], class_="gallery") if pictured else _table(samples, key),
        class_="below",
    )


def _figure(one: WorstSample, key: str) -> Markup:
    name = _name(one, key)
    return el(
        "figure",
        el("img", src=one.picture, alt=f"{name}: target {one.target}, predicted {one.predicted}"),
        el(
            "figcaption",
            el("b", f"{one.target} → {one.predicted or '?'}", title="target → predicted"),
            el("span", f"loss {number(one.loss)}"),
            el("span", _scores(one)) if one.scores else None,
            el("span", ", ".join([name, *(f"{column} {text}" for column, text in one.columns.items())])),
        ),
    )


def _table(samples: Sequence[WorstSample], key: str) -> Markup:
    columns = list(dict.fromkeys(name for one in samples for name in one.columns))
    pictured = any(one.picture for one in samples)
    head = [*([""] if pictured else []), "sample", "loss", "target", "predicted", "scores", *columns]
    rows = [
        (
            *([el("img", src=one.picture, alt="") if one.picture else None] if pictured else []),
            _name(one, key),
            number(one.loss),
            one.target,
            one.predicted,
            _scores(one),
            *(one.columns.get(name, "–") for name in columns),
        )
        for one in samples
    ]
    made = table(head, rows, right=("loss",), style="worst", lead=int(pictured))
    return scrolled(made, label="The largest losses")


def _name(one: WorstSample, key: str) -> str:
    return f"{key} {one.key}" if key else f"row {one.row:,}"


def _scores(one: WorstSample) -> str:
    return ", ".join(f"{each}: {number(score)}" for each, score in one.scores)
