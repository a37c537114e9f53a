"""The samples with the largest losses, as an evaluation wrote them (worst.json)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drivetrain.base.json_text import as_list, list_in, object_in
from drivetrain.telling.content.untrusted_json import drawable, objects, text, texts, whole

WORST_FILE = "worst.json"
MAX_SAMPLES = 100
MAX_COLUMNS = 30
MAX_TEXT = 300
MAX_ADDRESS = 50_000
MAX_SCORES = 3
# Nothing but a picture: the page shows it as it is.
_PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, kw_only=True)
class WorstSample:
    """`scores` are (class, score), the largest first. `picture` is a data: address; empty where it is no image."""

    key: str
    row: int
    loss: float
    target: str = ""
    predicted: str = ""
    scores: tuple[tuple[str, float], ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    picture: str = ""


def worst_samples(found: Mapping[str, Any], class_names: Sequence[str] = ()) -> Iterator[WorstSample]:
    """In the order of the file; what is no sample is left out."""

    def named(value: object) -> str:
        number = whole(value)
        known = number is not None and not isinstance(value, bool) and number < len(class_names)
        return class_names[number] if known and number is not None else _told(value)

    for entry in objects(found.get("samples"), MAX_SAMPLES):
        row, loss, picture = whole(entry.get("row")), drawable(entry.get("loss")), entry.get("image")
        if row is None or loss is None:
            continue
        pairs = [pair for pair in map(as_list, list_in(entry, "scores")[:MAX_SCORES]) if len(pair) == 2]
        fits = isinstance(picture, str) and len(picture) <= MAX_ADDRESS and _PICTURE.fullmatch(picture)
        yield WorstSample(
            key=text(entry.get("key")),
            row=row,
            loss=loss,
            target=named(entry.get("target")),
            predicted=named(entry.get("predicted")),
            scores=tuple((named(each), score) for each, given in pairs if (score := drawable(given)) is not None),
            columns=texts({n: _told(v) for n, v in object_in(entry, "columns").items()}, MAX_COLUMNS, MAX_TEXT),
            picture=picture if fits and isinstance(picture, str) else "",
        )


def _told(value: object) -> str:
    """A list with commas; truths in words."""
    if many := as_list(value):
        return ", ".join(text(each, MAX_TEXT) for each in many[:10])
    return str(value).lower() if isinstance(value, bool) else text(value, MAX_TEXT)
