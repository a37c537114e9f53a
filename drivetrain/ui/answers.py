"""Answers to a browser, and their common form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from drivetrain.base.errors import UserError
from drivetrain.base.markup import Content, el
from drivetrain.telling import Around, document, section

LINKS = (("Runs", "/"), ("Models", "/models"), ("Triggers", "/starts"))
SCRIPT = "/live.js"
Query = Mapping[str, list[str]]


@dataclass(frozen=True)
class Page:
    """A page's text; or the address to go to instead; or `pieces` of a file, which its `headers` describe."""

    text: str = ""
    status: int = 200
    location: str = ""
    pieces: Iterator[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def around(here: str = "") -> Around:
    """The links of every page, and its script."""
    return Around(links=LINKS, here=here, scripts=(SCRIPT,))


def plain_page(title: str, *content: Content, here: str = "") -> Page:
    """A page of a heading and sections."""
    return Page(document(title, el("header", el("h1", title)), el("main", content, id="content"), around=around(here)))


def error_page(message: str, status: int) -> Page:
    """A page that says what is wrong."""
    said = section("Reason", el("p", message, role="alert", class_="mistake"), id="mistake")
    return replace(plain_page("This does not work", said), status=status)


def answer_of(error: UserError) -> Page:
    """The page of an error of the user's: what was asked for is not there, or cannot be done."""
    return error_page(str(error), 404)


def run_address(id: str) -> str:
    """The address of a run's page."""
    return f"/runs/{quote(id, safe='')}"


def step_address(run: str, step: str) -> str:
    """The address of the page of a run's step."""
    return f"{run_address(run)}/steps/{quote(step, safe='')}"


def first(form: Query, name: str) -> str:
    """The value of a field; empty without one."""
    return form.get(name, [""])[0].strip()
