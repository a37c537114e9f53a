"""Cards that steps wrote into their outputs (drivetrain/steps/card.py), taken for what they are."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.json_text import as_list, as_object, list_in
from drivetrain.steps.card import (
    FILE,
    IMAGES,
    MAX_BARS,
    MAX_FILE_BYTES,
    MAX_PARTS,
    MAX_POINTS,
    MAX_ROWS,
    MAX_SERIES,
    MAX_TEXT,
)
from drivetrain.telling.content.untrusted_json import (
    UnreadableError,
    drawable,
    finite,
    objects,
    read_bytes,
    read_object,
    text,
    whole,
)

MAX_COLUMNS = 50


@dataclass(frozen=True, kw_only=True)
class TextPart:
    """Markdown."""

    markdown: str


@dataclass(frozen=True, kw_only=True)
class TablePart:
    """Cells are texts, numbers or None; `total` counts the rows that there were."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]
    total: int


@dataclass(frozen=True, kw_only=True)
class ChartPart:
    """Lines: (name, points)."""

    title: str
    x_label: str
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]


@dataclass(frozen=True, kw_only=True)
class BarsPart:
    """Rows: (name, value)."""

    title: str
    rows: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class ImagePart:
    """`address` is the picture itself, as a data: address."""

    caption: str
    address: str


@dataclass(frozen=True, kw_only=True)
class HtmlPart:
    """Untrusted HTML, to be shown in a sandbox."""

    caption: str
    html: str
    height: int


Part = TextPart | TablePart | ChartPart | BarsPart | ImagePart | HtmlPart


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """A card; `problem` is a clause that says why it, or a part of it, cannot be shown."""

    step: str
    title: str = ""
    parts: tuple[Part, ...] = ()
    problem: str = ""


def read_card(step: str, folder: Path) -> CardFacts | None:
    """The card in a folder; None without one."""
    try:
        found = read_object(folder / FILE)
    except UnreadableError as error:
        return CardFacts(step=step, problem=f"{FILE} {error}")
    if found is None:
        return None
    parts: list[Part] = []
    problem = ""
    for given in objects(found.get("parts"), MAX_PARTS):
        try:
            part = _part(given, folder)
        except UnreadableError as error:
            problem = problem or str(error)
        else:
            parts.append(part)
    return CardFacts(step=step, title=text(found.get("title")), parts=tuple(parts), problem=problem)


def _part(given: dict[str, Any], folder: Path) -> Part:
    caption = text(given.get("caption"))
    match given.get("kind"):
        case "text":
            return TextPart(markdown=text(given.get("text"), MAX_TEXT))
        case "table":
            columns = tuple(text(name) for name in list_in(given, "columns")[:MAX_COLUMNS])
            rows = tuple(
                tuple(_cell(cell) for cell in as_list(row)[: len(columns)]) for row in list_in(given, "rows")[:MAX_ROWS]
            )
            total = max(whole(given.get("total")) or 0, len(rows))
            return TablePart(caption=caption, columns=columns, rows=rows, total=total)
        case "chart":
            lines = tuple(
                (text(line.get("name")), _points(line.get("points")))
                for line in objects(given.get("series"), MAX_SERIES)
            )
            return ChartPart(title=text(given.get("title")), x_label=text(given.get("x_label"), 60), lines=lines)
        case "bars":
            pairs = [as_list(row)[:2] for row in list_in(given, "rows")[:MAX_BARS]]
            drawn = [(text(pair[0]), drawable(pair[1])) for pair in pairs if len(pair) == 2]
            rows = tuple((name, value) for name, value in drawn if value is not None)
            return BarsPart(title=text(given.get("title")), rows=rows)
        case "image":
            content = _file(given, folder)
            kind = next((kind for start, kind in IMAGES.items() if content.startswith(start)), None)
            if kind is None:
                raise UnreadableError(f"{text(given.get('file'))} is no picture")
            address = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
            return ImagePart(caption=caption, address=address)
        case "html":
            height = min(max(whole(given.get("height")) or 320, 40), 2000)
            return HtmlPart(caption=caption, html=_file(given, folder).decode("utf-8", "replace"), height=height)
        case other:
            raise UnreadableError(f"a part is of the kind {text(other) or 'unknown'}")


def _cell(value: Any) -> str | float | None:
    number = finite(value)
    if number is None:
        return text(value, 1000) or None
    return value if isinstance(value, int) else number


def _points(value: Any) -> tuple[tuple[float, float], ...]:
    pairs = [tuple(map(drawable, as_list(pair)[:2])) for pair in as_list(value)[:MAX_POINTS]]
    return tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2 and pair[0] is not None and pair[1] is not None)


def _file(given: dict[str, Any], folder: Path) -> bytes:
    """A file beside the card: a card must not show other files of this machine."""
    name = text(as_object(given).get("file"))
    path = folder / name
    if not name or "/" in name or name.startswith(".") or path.is_symlink():
        raise UnreadableError(f"{name or 'a file'} does not lie beside the card")
    try:
        content = read_bytes(path, MAX_FILE_BYTES)
    except UnreadableError as error:
        raise UnreadableError(f"{name} {error}") from None
    if content is None:
        raise UnreadableError(f"{name} cannot be read (there is no such file)")
    return content
