"""An HTML file that needs nothing else: no script runs in it, and nothing is fetched, whatever it tells of."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from drivetrain.base.formatting import place
from drivetrain.base.markup import Content, Markup, el, join

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, *content: Content, styles: tuple[str, ...] = ()) -> str:
    """The whole file; `styles` are further style sheets of this folder."""
    sheets = ("palette.css", "dag.css", "page.css", *styles)
    head = join(
        [
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="generator", content="drivetrain"),
            el("title", title),
            el("style", Markup("".join(map(asset, sheets)))),
        ],
        "\n",
    )
    body = join(content, "\n")
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


@cache
def asset(name: str) -> str:
    """The text of a style sheet beside this file."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def section(title: str, *content: Content, id: str) -> Markup:
    """A part of a page under a heading."""
    return el("section", el("h2", title, id=id), content, aria_labelledby=id)


def tile(label: str, value: str, note: str) -> Markup:
    """A number that is seen at first sight."""
    return el("div", el("span", label), el("b", value), el("small", note) if note else None, class_="tile")


def place_code(uri: str) -> Markup:
    """A place, short; whole for the pointer that rests on it."""
    return el("code", place(uri), title=uri)


def definitions(rows: list[tuple[str, Content]]) -> Markup:
    """Names and what they stand for; those without a value are left out."""
    return el("dl", [(el("dt", name), el("dd", value)) for name, value in rows if value is not None], class_="facts")
