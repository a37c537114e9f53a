"""Rows whose label may be wrong, as an evaluation wrote them (suspects.json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.base.formatting import count, number
from drivetrain.telling.content.untrusted_json import finite, objects, text, whole

SUSPECTS_FILE = "suspects.json"
MAX_SUSPECTS = 100
HEAD = ("row", "given", "suggested", "score", "margin")


@dataclass(frozen=True, kw_only=True)
class SuspectFacts:
    """`rows` have the cells of HEAD, the clearest first; `found` counts also those beyond them."""

    found: int = 0
    note: str = ""
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def title(self) -> str:
        """`27 rows may have a wrong label`, with how many of them are listed."""
        listed = f"; the clearest {len(self.rows)}" if self.found > len(self.rows) else ""
        return f"{count(self.found, 'row')} may have a wrong label{listed}"


def suspect_facts(found: Mapping[str, Any]) -> SuspectFacts:
    """The facts in the content of a suspects.json; what is no row is left out."""
    key, rows = text(found.get("key")), list[tuple[str, ...]]()
    for entry in objects(found.get("suspects"), MAX_SUSPECTS):
        row, numbers = whole(entry.get("row")), [finite(entry.get(name)) for name in HEAD[3:]]
        if row is None or None in numbers:
            continue
        name = f"{key} {text(entry.get('key'))}" if key else f"row {row:,}"
        said = [
            number(value) if (value := finite(entry.get(each))) is not None else text(entry.get(each))
            for each in HEAD[1:]
        ]
        rows.append((name, *said))
    return SuspectFacts(found=whole(found.get("found")) or 0, note=text(found.get("note"), 500), rows=tuple(rows))
