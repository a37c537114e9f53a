"""Plain output: colours where a person looks, none where a program reads, and tables that fit."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from drivetrain.base.formatting import cells, cut, printable

STYLES = {
    "bold": "1",
    "dim": "2",
    "Succeeded": "32",
    "Approved": "32",
    "Cached": "36",
    "Executing": "34",
    "Retrying": "33",
    "Stopped": "33",
    "Stopping": "33",
    "Interrupted": "33",
    "Unhealthy": "33",
    "CompletedWithFailures": "33",
    "PendingManualApproval": "33",
    "Failed": "31",
    "Rejected": "31",
    "Waiting": "2",
    "NotExecuted": "2",
    "name": "1",
    "note": "2",
    "line": "2",
}


def has_color(stream: TextIO | None = None) -> bool:
    """Return True if the stream takes escape sequences (https://no-color.org, https://force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """`text` in a style, where the stream (stdout) shows colours; an unknown style leaves it plain."""
    code = STYLES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and text and has_color(stream) else text


def width() -> int:
    """Columns of the terminal; without a terminal, as many as it takes."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000


def shown_path(path: Path) -> str:
    """A path as short as it can be typed here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):  # elsewhere; or there is no current folder any more
        return str(path)


def say(text: str = "") -> None:
    """One line, or several, on stdout."""
    print(text)


def say_json(value: Any) -> None:
    """A value for scripts."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    styles: Sequence[Sequence[str]] = (),
    room: int | None = None,
    ids: Sequence[str] = (),
) -> str:
    """Columns below a head, two spaces apart; where the room does not suffice, the last column is cut.

    `styles` gives a style for each cell of `rows`, or an empty text. The head is in capitals, but for the `ids` in it,
    which people copy.
    """
    clean = [[printable(cell) for cell in row] for row in rows]
    names = [printable(name) if name in ids else printable(name).upper() for name in head]
    widths = [max(map(cells, column)) for column in zip(names, *clean, strict=True)]
    room = width() if room is None else room
    last_room = max(room - sum(widths[:-1]) - 2 * (len(widths) - 1), 8)
    lines = [paint(_row(names, widths, last_room, ()), "dim")]
    for place, row in enumerate(clean):
        lines.append(_row(row, widths, last_room, styles[place] if styles else ()))
    return "\n".join(lines)


def _row(row: Sequence[str], widths: Sequence[int], last_room: int, styles: Sequence[str]) -> str:
    parts: list[str] = []
    for place, cell in enumerate(row):
        last = place == len(row) - 1
        text = cut(cell, last_room) if last else cell
        padding = "" if last else " " * (widths[place] - cells(text))
        parts.append((paint(text, styles[place]) if styles else text) + padding)
    return "  ".join(parts).rstrip()
