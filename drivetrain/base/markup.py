"""HTML and SVG from Python values, escaped where they enter.

    el("text", "train & test", x=3, class_="name")  ->  <text x="3" class="name">train &amp; test</text>

Text that came from outside cannot become markup: only what this module built (`Markup`) is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
# HTML elements without content; writing them as <br/> is right in HTML and in XML.
_VOID = frozenset(
    {"br", "hr", "img", "input", "meta", "link", "path", "rect", "circle", "line", "polyline", "polygon", "use"}
)
# XML 1.0 allows no other control characters, and a terminal would obey them. Those of writing direction would show a
# text in another order than it has: "gpj.exe" as "exe.jpg" (https://www.unicode.org/reports/tr36/#Bidirectional_Text_Spoofing).
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROL = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *_DIRECTIONS)
    if chr(code) not in "\t\n\r"
}
_UNSAFE = {**{ord(char): entity for char, entity in _ENTITIES.items()}, **_CONTROL, 0xFFFE: "", 0xFFFF: ""}


@cache
def _not_plain() -> re.Pattern[str]:
    """Most texts have nothing to escape, and a page has tens of thousands. Commands without a page compile nothing."""
    return re.compile(f"[{''.join(map(chr, _UNSAFE))}\ud800-\udfff]")


def page_in(message: str) -> str | None:
    """The title of a page of HTML in an error's message, as a proxy or a server that is down gives one in the place of
    words; None where there is no page."""
    if re.search(r"<!doctype html|<html[\s>]", message, re.IGNORECASE) is None:
        return None
    title = re.search(r"<title[^>]*>(.*?)</title>", message, re.IGNORECASE | re.DOTALL)
    return " ".join(title[1].split())[:80] if title else "without a title"


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | float | int | None | Iterable["Content"]


def escape(text: object) -> Markup:
    """`text` as it may stand in an element or in a quoted attribute. Lone surrogates and control characters, which no
    page can hold, are replaced."""
    if isinstance(text, Markup):
        return text
    written = str(text)
    if _not_plain().search(written) is None:
        return Markup(written)
    return Markup(written.encode("utf-8", "replace").decode("utf-8").translate(_UNSAFE))


def el(tag: str, *content: Content, **attributes: str | float | int | bool | None) -> Markup:
    """An element. Attributes that are None or False are left out, True stands for an empty one; `class_` and the like
    lose their underscore, other underscores become hyphens (`stroke_width`)."""
    written = ""
    for name, value in attributes.items():
        if value is not None and value is not False:
            written += f' {_name(name)}="{"" if value is True else _attribute(value)}"'
    inner = join(content)
    if not inner and tag in _VOID:
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def join(content: Iterable[Content], between: str = "") -> Markup:
    """Many pieces of content, nested ones included, as one."""
    texts: list[str] = []
    _flatten(content, texts)
    return Markup(between.join(texts))


def _flatten(content: Iterable[Content], texts: list[str]) -> None:
    for item in content:
        if isinstance(item, str | int | float):
            texts.append(escape(item))
        elif item is not None:
            _flatten(item, texts)


@cache
def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _attribute(value: str | float | int) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escape(value)
