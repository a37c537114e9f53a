"""What people see of a pipeline and of a run: the DAG as a picture, and the page of a run. Here is
what all pages are: an HTML file that needs nothing else. No script runs in it, and nothing is fetched, whatever it
tells of.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from drivetrain.base.formatting import place
from drivetrain.base.markup import Content, Markup, el, join

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, kw_only=True)
class Around:
    """What stands around a page that is one of several: where else one can go, and, of a served page, its script."""

    links: tuple[tuple[str, str], ...]
    """Text and address; `here` is the address of this page among them."""
    here: str = ""
    scripts: tuple[str, ...] = ()
    """Addresses of scripts on the page's own server; a page with some may fetch from there, and send forms to it."""

    @property
    def policy(self) -> str:
        """What the page may load: nothing, unless it is served."""
        own = "script-src 'self'; connect-src 'self'; form-action 'self'" if self.scripts else "form-action 'none'"
        return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; {own}"

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


def document(title: str, *content: Content, styles: tuple[str, ...] = (), around: Around | None = None) -> str:
    """The whole file; `styles` are further style sheets of this folder."""
    sheets = ("palette.css", "dag.css", "page.css", *styles, *(("pages.css",) if around else ()))
    head = join(
        [
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=around.policy if around else _POLICY),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="generator", content="drivetrain"),
            el("title", title),
            el("style", Markup("".join(map(asset, sheets)))),
            *(around.head() if around else ()),
        ],
        "\n",
    )
    body = join([*(around.top() if around else ()), *content], "\n")
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
