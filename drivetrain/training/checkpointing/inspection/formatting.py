"""Sizes, times and tables for people. Text from files cannot control the terminal."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Sequence

STYLES = {"bold": "1", "dim": "2", "good": "32", "damaged": "31", "incomplete": "33", "quarantined": "33"}


def paint(text: str, style: str) -> str:
    """`text` in a style, where stdout shows colours (https://no-color.org, https://force-color.org)."""
    code = STYLES.get(style)
    if not code or not text or os.environ.get("NO_COLOR"):
        return text
    colored = os.environ.get("FORCE_COLOR") or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
    return f"\x1b[{code}m{text}\x1b[0m" if colored else text


def printable(text: object) -> str:
    """One line that is safe to print: control and formatting characters are replaced."""
    return "".join(
        char if char.isprintable() or unicodedata.category(char)[0] == "M" else " " if char in "\t\n" else "\ufffd"
        for char in str(text)
    )


def size(num_bytes: int) -> str:
    """`812 B`, `4.1 kB`, `3.0 MB`: powers of 1000."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def count(amount: int, noun: str, plural: str = "") -> str:
    """`1 file`, `3 files`."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `4 min`, `2 h 3 min`, `3 d 4 h`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def ago(then: float | None, now: float) -> str:
    """`12 s ago`, `3 d 4 h ago`; what a clock that is behind makes a later time is `just now`."""
    if then is None:
        return "–"
    return "just now" if now - then < 1 else f"{duration(now - then)} ago"


def number(value: float) -> str:
    """Four significant digits: 0.9722, 1,797, 3.2e-07."""
    if isinstance(value, int) or not abs(value) < 1e15 or (value and abs(value) < 1e-4):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    digits = 4 if abs(value) < 1 else max(0, 4 - len(str(int(abs(value)))))
    return f"{value:,.{digits}f}"


def cells(text: str) -> int:
    """The columns of a terminal that `text` takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str]] = ()) -> str:
    """Columns below a head, two spaces apart. What does not fit a terminal goes on in its next line: the last column
    says what is wrong."""
    clean = [[name.upper() for name in head], *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(cells, column)) for column in zip(*clean, strict=True)]
    painted = [["dim"] * len(head), *(styles or [[""] * len(head)] * len(rows))]
    return "\n".join(
        "  ".join(
            paint(cell, look) + " " * (wide - cells(cell)) for cell, look, wide in zip(row, looks, widths, strict=True)
        ).rstrip()
        for row, looks in zip(clean, painted, strict=True)
    )
