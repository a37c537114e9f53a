"""Pipelines and runs for people: the DAG as a picture, and the page of a run. Here is what all pages are:
an HTML file that needs nothing else. Nothing is fetched, whatever it tells of. Of scripts only ours run, and only in
pages that need one: the policy names them by their hashes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from drivetrain.base.formatting import place
from drivetrain.base.markup import Content, Markup, el, join
from drivetrain.base.records import dataclass

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


@dataclass(frozen=True, kw_only=True)
class Around:
    """The surroundings of a page that is one of several: where else one can go, and, of a served page, its script."""

    links: tuple[tuple[str, str], ...]
    """Text and address; `here` is the address of this page among them."""
    here: str = ""
    scripts: tuple[str, ...] = ()
    """Addresses of scripts on the page's own server; a page with some may fetch from there, and send forms to it."""

    def head(self) -> list[Markup]:
        return [el("script", src=address, defer=True) for address in self.scripts]

    def top(self) -> list[Markup]:
        """The way past the links, and the links."""
        links = [
            el("a", text, href=address, aria_current="page" if address == self.here else None)
            for text, address in self.links
        ]
        skip = el("a", "Skip to the content", href="#content", class_="skip")
        return [skip, el("nav", el("b", "drivetrain"), links, aria_label="Pages", class_="pages")]


def document(
    title: str,
    *content: Content,
    styles: tuple[str, ...] = (),
    scripts: tuple[str, ...] = (),
    around: Around | None = None,
) -> str:
    """The whole file; `styles` and `scripts` are further files of this folder."""
    policy = _policy(scripts, served=around is not None and bool(around.scripts))
    sheets = ("palette.css", "dag.css", "page.css", *styles, *(("pages.css",) if around else ()))
    head = join(
        [
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=policy),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="generator", content="drivetrain"),
            el("title", title),
            el("style", Markup("".join(map(asset, sheets)))),
            *(el("script", Markup(asset(name))) for name in scripts),
            *(around.head() if around else ()),
        ],
        "\n",
    )
    body = join([*(around.top() if around else ()), *content], "\n")
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _policy(scripts: tuple[str, ...], *, served: bool) -> str:
    """The policy on what the page may load and run: nothing but these scripts; one that is served, what its server
    has, too."""
    allowed = [f"'sha256-{_hash(name)}'" for name in scripts] + ["'self'"] * served
    return "; ".join(
        [
            _POLICY,
            *([f"script-src {' '.join(allowed)}"] if allowed else []),
            *(["connect-src 'self'", "form-action 'self'"] if served else ["form-action 'none'"]),
        ]
    )


@cache
def _hash(name: str) -> str:
    from base64 import b64encode  # of pages alone: each command loads this file
    from hashlib import sha256

    return b64encode(sha256(asset(name).encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """The text of a style sheet or script beside this file."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def section(title: str, *content: Content, id: str) -> Markup:
    """A part of a page under a heading."""
    return el("section", el("h2", title, id=id), content, aria_labelledby=id)


class Cell(NamedTuple):
    """A cell that is more than its content: a style of its own, a text for the pointer that rests on it, and its name
    where a row is a card."""

    content: Content
    style: str | None = None
    title: str | None = None
    name: str | None = None


class Row(NamedTuple):
    """A row with a style."""

    cells: Sequence[Content | Cell]
    style: str | None


def table(
    head: Sequence[Content],
    rows: Iterable[Sequence[Content | Cell] | Row],
    *,
    right: Collection[str | int] = (),
    caption: Content = None,
    style: str | None = None,
    lead: int | None = 0,
    cards: bool = False,
) -> Markup:
    """A table of an item a row.

    Args:
        head: names of the columns; empty for one that names itself, and for a table without a head.
        right: names or places of the columns whose numbers end below each other.
        lead: the place of the cell that names its row; None for none.
        cards: on a phone a row is a card, where columns are named.
    """
    sides = ["right" if place in right or name in right else None for place, name in enumerate(head)]
    names = [
        el("th", name, scope="col", class_=side) if name else el("td") for name, side in zip(head, sides, strict=True)
    ]

    def cell(place: int, given: Content | Cell) -> Markup:
        content, own, title, name = given if isinstance(given, Cell) else Cell(given)
        if place == lead:
            return el("th", content, scope="row", class_=own, title=title, data_name=name)
        side = sides[place] if head else "right" if place in right else None
        named = str(head[place]) if cards else name
        return el("td", content, class_=own or side, title=title, data_name=named or None)

    def line(given: Sequence[Content | Cell] | Row) -> Markup:
        cells, style = given if isinstance(given, Row) else Row(given, None)
        return el("tr", [cell(place, each) for place, each in enumerate(cells)], class_=style)

    top = el("thead", el("tr", names)) if any(head) else None
    below = el("caption", caption) if caption else None
    return el("table", below, top, el("tbody", map(line, rows)), class_="stacked" if cards else style)


def scrolled(content: Content, *, kind: str = "", label: str | None = None) -> Markup:
    """A box that scrolls where its content is too wide; `kind` is a further style, `label` what a reader hears."""
    role = "region" if label else None
    return el("div", content, class_=f"scroll {kind}".rstrip(), tabindex=0, role=role, aria_label=label)


def listing(
    head: Sequence[str], rows: Iterable[Sequence[Content]], *, right: Collection[str] = (), kind: str = ""
) -> Markup:
    """A table in a box that can be scrolled; on a phone a row is a card."""
    return scrolled(table(head, rows, right=right, cards=True), kind=kind)


def tile(label: str, value: str, note: str) -> Markup:
    """A number that is seen at first sight."""
    return el("div", el("span", label), el("b", value), el("small", note) if note else None, class_="tile")


def place_code(uri: str) -> Markup:
    """A place, short; whole for the pointer that rests on it."""
    return el("code", place(uri), title=uri)


def definitions(rows: list[tuple[str, Content]]) -> Markup:
    """Names and what they stand for; those without a value are left out."""
    return el("dl", [(el("dt", name), el("dd", value)) for name, value in rows if value is not None], class_="facts")
