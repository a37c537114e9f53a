"""Cards of a step on the run's page: text, tables, charts, images, HTML, each added in one line.

    @component
    def look(rows: Input, report: Output) -> None:
        card = Card(report, title="Prices")
        card.text("Prices by *district*, outliers left out.")
        card.table(frame.head(20))                     # rows, a data frame of pandas or Polars
        card.chart("price", {"median": medians}, x=years, x_label="year")
        card.image(figure)                             # a figure of matplotlib, an image of Pillow, a file, bytes

A card is a file `card.json` in an output of the step, with its images beside it; so it travels with the output wherever
the pipeline runs, and any output can hold one.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import InputError, shown

FILE = "card.json"
MAX_PARTS = 50
MAX_ROWS = 1000
MAX_POINTS = 5000
MAX_SERIES = 12
MAX_BARS = 100
MAX_FILE_BYTES = 2_000_000
MAX_TEXT = 50_000
# How a file begins -> its kind (https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern).
IMAGES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp", b"<svg": "svg+xml"}


class Card:
    """The card in a folder; one that is there is continued.

    Args:
        folder: an output of the step.
        title: above the card; the step's name unless given.
    """

    def __init__(self, folder: Path | str, title: str = "") -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / FILE
        there: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self._title = title or str(there.get("title", ""))
        self._parts: list[dict[str, Any]] = list(there.get("parts", []))

    def text(self, markdown: str) -> Card:
        """Text in Markdown (CommonMark, without HTML and images).

        Raises:
            InputError: it is longer than 50,000 characters.
        """
        if len(markdown) > MAX_TEXT:
            raise InputError(f"Card.text: {len(markdown):,} characters. Allowed: {MAX_TEXT:,}.")
        return self._add(kind="text", text=markdown)

    def table(self, rows: Any, caption: str = "") -> Card:
        """A table: mappings of one row each, or a data frame. The first 1,000 rows are kept.

        Raises:
            InputError: something else.
        """
        found = _rows(rows)
        columns = list(dict.fromkeys(str(name) for row in found[:MAX_ROWS] for name in row))
        kept = [[_cell(row.get(name)) for name in columns] for row in found[:MAX_ROWS]]
        return self._add(kind="table", caption=caption, columns=columns, rows=kept, total=len(found))

    def chart(
        self,
        title: str,
        y: Sequence[float] | Mapping[str, Sequence[float]],
        x: Sequence[float] | None = None,
        x_label: str = "",
    ) -> Card:
        """Lines over one axis.

        Args:
            y: the values of one line, or of several by name; not finite ones are left out.
            x: of every line, rising; 0, 1, 2, ... unless given.

        Raises:
            InputError: lengths that differ, more than 12 lines, or more than 5,000 points in one.
        """
        given = cast("Mapping[str, Sequence[float]]", y if isinstance(y, Mapping) else {title: y})
        lines = {str(name): [float(value) for value in values] for name, values in given.items()}
        longest = max((len(values) for values in lines.values()), default=0)
        places = [float(value) for value in (range(longest) if x is None else x)]
        wrong = [name for name, values in lines.items() if len(values) != len(places)]
        if wrong:
            raise InputError(f"Card.chart {title!r}: {wrong[0]!r} has {len(lines[wrong[0]])} values, x {len(places)}.")
        if len(lines) > MAX_SERIES or longest > MAX_POINTS:
            raise InputError(
                f"Card.chart {title!r}: {len(lines)} lines of up to {longest:,} points. Allowed: {MAX_SERIES} lines of "
                f"{MAX_POINTS:,} points."
            )
        series = [
            {
                "name": name,
                "points": [list(point) for point in zip(places, values, strict=True) if all(map(math.isfinite, point))],
            }
            for name, values in lines.items()
        ]
        return self._add(kind="chart", title=title, x_label=x_label, series=series)

    def bars(self, title: str, values: Mapping[str, float]) -> Card:
        """A value a row, on one scale, in the order given.

        Raises:
            InputError: more than 100 rows, or a value that is not finite.
        """
        rows = {str(name): float(value) for name, value in values.items()}
        wrong = [name for name, value in rows.items() if not math.isfinite(value)]
        if wrong:
            raise InputError(f"Card.bars {title!r}: {wrong[0]!r} is {rows[wrong[0]]}. Allowed: finite numbers.")
        if len(rows) > MAX_BARS:
            raise InputError(f"Card.bars {title!r}: {len(rows):,} rows. Allowed: {MAX_BARS}.")
        return self._add(kind="bars", title=title, rows=[list(row) for row in rows.items()])

    def image(self, image: Any, caption: str = "") -> Card:
        """A picture: a figure (`savefig`), an image (`save`), bytes or a file of PNG, JPEG, GIF, WebP or SVG.

        Args:
            caption: below it, and read to those who do not see it.

        Raises:
            InputError: something else, or more than 2 MB.
        """
        content = _image(image)
        kind = next((kind for start, kind in IMAGES.items() if content.startswith(start)), None)
        if kind is None:
            raise InputError("Card.image: no PNG, JPEG, GIF, WebP or SVG.")
        name = self._write(content, kind.partition("+")[0], "image")
        return self._add(kind="image", file=name, caption=caption)

    def html(self, html: str, caption: str = "", height: int = 320) -> Card:
        """A piece of HTML in a frame of its own. No script runs in it and nothing is fetched.

        Args:
            height: of the frame in pixels, 40 to 2,000.

        Raises:
            InputError: more than 2 MB, or another height.
        """
        if not 40 <= height <= 2000:
            raise InputError(f"Card.html: height is {height}. Allowed: 40 to 2000.")
        name = self._write(html.encode("utf-8"), "html", "html")
        return self._add(kind="html", file=name, caption=caption, height=height)

    def _write(self, content: bytes, suffix: str, what: str) -> str:
        if len(content) > MAX_FILE_BYTES:
            raise InputError(f"Card.{what}: {len(content):,} bytes. Allowed: {MAX_FILE_BYTES:,}; make it smaller.")
        name = f"card-{len(self._parts) + 1}.{suffix}"
        (self._folder / name).write_bytes(content)
        return name

    def _add(self, **part: Any) -> Card:
        if len(self._parts) == MAX_PARTS:
            raise InputError(f"A card has at most {MAX_PARTS} parts. Use another output for more.")
        self._parts.append(part)
        text = json.dumps({"format": 1, "title": self._title, "parts": self._parts}, allow_nan=False)
        beside = self._folder / f"{FILE}.part"
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._folder / FILE)
        return self


def _rows(given: Any) -> list[Mapping[str, Any]]:
    if hasattr(given, "to_dicts"):  # Polars
        given = given.to_dicts()
    elif hasattr(given, "to_dict") and hasattr(given, "columns"):  # pandas
        given = given.to_dict("records")
    if not isinstance(given, Sequence) or not all(isinstance(row, Mapping) for row in cast("Sequence[Any]", given)):
        raise InputError(
            f"Card.table is given {shown(given)}. Allowed: a list of mappings, a row each, or a data frame."
        )
    return list(cast("Sequence[Mapping[str, Any]]", given))


def _cell(value: Any) -> str | float | int | None:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)[:1000]
    return value


def _image(given: Any) -> bytes:
    if isinstance(given, bytes):
        return given
    if isinstance(given, str | Path):
        try:
            return Path(given).read_bytes()
        except OSError as error:
            raise InputError(f"Card.image: {given}: {error.strerror}.") from None
    buffer = io.BytesIO()
    if hasattr(given, "savefig"):
        given.savefig(buffer, format="png", bbox_inches="tight")
    elif hasattr(given, "save"):
        given.save(buffer, format="PNG")
    else:
        raise InputError(f"Card.image is given {shown(given)}. Allowed: a figure, an image, bytes, or a file's name.")
    return buffer.getvalue()
