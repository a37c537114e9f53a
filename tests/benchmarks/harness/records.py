"""What one row of the benchmark says, as a line of the table and as an object of build/bench.json."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Measured = float | int | bool


@dataclass(frozen=True, kw_only=True)
class Record:
    """One measured thing: ours, the peers' and the limit's in the same unit, and whether the target is met."""

    name: str
    """`family: what`, unique among all rows."""
    unit: str
    """s, ms, MB, packages, lines, ...; `bool` for a promise that is kept or not."""
    ours: Measured | None
    """None where it could not be measured here; `note` says why."""
    target: Measured | None = None
    """In `unit`. A target that is a multiple of the limit is multiplied out where the row is made."""
    limit: float | None = None
    """What no tool can beat: the same work by hand, a bare interpreter, a memcpy."""
    peers: Mapping[str, Measured] = field(default_factory=dict)
    better: Literal["lower", "higher"] = "lower"
    note: str = ""
    """Why a peer or our own figure is missing, or what makes a figure unlike the others."""

    def __post_init__(self) -> None:
        for label, value in {"ours": self.ours, "limit": self.limit, "target": self.target, **self.peers}.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{self.name}: {label} is {value}. Allowed: finite numbers; None where not measured.")

    @property
    def ratio_to(self) -> str | None:
        """What `ratio` divides by: `limit`, or the best peer where the row has no limit; None for a promise."""
        if self.ours is None or isinstance(self.ours, bool):
            return None
        if self.limit:
            return "limit"
        numbers = {name: value for name, value in self.peers.items() if not isinstance(value, bool) and value}
        if not numbers:
            return None
        best = min if self.better == "lower" else max
        return best(numbers, key=lambda name: numbers[name])

    @property
    def ratio(self) -> float | None:
        """Ours over the limit, or over the best peer."""
        against = self.ratio_to
        if against is None or self.ours is None:
            return None
        return self.ours / (self.limit if against == "limit" and self.limit else self.peers[against])

    @property
    def met(self) -> bool | None:
        """None where there is no target, or nothing was measured."""
        if self.ours is None or self.target is None:
            return None
        if isinstance(self.target, bool):
            return self.ours == self.target
        return self.ours <= self.target if self.better == "lower" else self.ours >= self.target

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.ours,
            "peers": dict(self.peers),
            "limit": self.limit,
            "ratio": self.ratio,
            "ratio_to": self.ratio_to,
            "target": self.target,
            "better": self.better,
            "met": self.met,
            "note": self.note,
        }


def write_json(records: Iterable[Record], path: Path) -> None:
    """Write the list of records in one move, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps([record.as_json() for record in records], indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


COLUMNS = ("what", "unit", "ours", "peers", "limit", "ratio", "target", "met")


def table(records: Sequence[Record]) -> str:
    """The rows as aligned text, the notes below."""
    rows = [COLUMNS, *(_cells(record) for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(len(line) for line in lines))
    notes = [f"  {record.name}: {record.note}" for record in records if record.note]
    if notes:
        lines += ["", "Notes", *notes]
    return "\n".join(lines)


def summary(records: Sequence[Record]) -> str:
    """`31 of 33 targets met; not met: ...`."""
    judged = [record for record in records if record.met is not None]
    missed = [record.name for record in judged if not record.met]
    unmeasured = [record.name for record in records if record.ours is None]
    text = f"{len(judged) - len(missed)} of {len(judged)} targets met"
    if missed:
        text += "; not met: " + ", ".join(missed)
    if unmeasured:
        text += "; not measured: " + ", ".join(unmeasured)
    return text


def _cells(record: Record) -> tuple[str, ...]:
    peers = ", ".join(f"{name} {shown(value)}" for name, value in sorted(record.peers.items()))
    target = "" if record.target is None else shown(record.target)
    if target and not isinstance(record.target, bool):
        target = ("<= " if record.better == "lower" else ">= ") + target
    ratio = "" if record.ratio is None else f"{shown(record.ratio)} {record.ratio_to}"
    met = {True: "yes", False: "NO", None: "-"}[record.met]
    limit = "" if record.limit is None else shown(record.limit)
    return (
        record.name,
        record.unit,
        "-" if record.ours is None else shown(record.ours),
        peers,
        limit,
        ratio,
        target,
        met,
    )


def shown(value: Measured) -> str:
    """Three significant digits, as people read them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
