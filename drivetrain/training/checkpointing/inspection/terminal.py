"""Colours, ages, tables and the bar of a long read, for a terminal. Text from files cannot control it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from drivetrain.base.formatting import cells, duration, printable, size

STYLES = {"bold": "1", "dim": "2", "good": "32", "damaged": "31", "incomplete": "33", "quarantined": "33"}
_EVERY_S, _PLAIN_EVERY_S, _WIDTH = 0.1, 10.0, 24


def paint(text: str, style: str) -> str:
    """`text` in a style, where stdout shows colours (https://no-color.org, https://force-color.org)."""
    code = STYLES.get(style)
    if not code or not text or os.environ.get("NO_COLOR"):
        return text
    colored = os.environ.get("FORCE_COLOR") or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
    return f"\x1b[{code}m{text}\x1b[0m" if colored else text


def ago(then: float | None, now: float) -> str:
    """`12.0 s ago`, `4 min 05 s ago`; what a clock that is behind makes a later time is `just now`."""
    if then is None:
        return "–"
    return "just now" if now - then < 1 else f"{duration(now - then)} ago"


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


class Bar:
    """`verify rank-00000...  [#####...]  1.2 of 3.4 GB` on stderr, so that results can be redirected; without a
    terminal a line now and then."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._stream = sys.stderr
        self._live = self._stream.isatty()
        self._drawn = False
        self._last = time.monotonic() - (_EVERY_S if self._live else 0)

    def __call__(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last < (_EVERY_S if self._live else _PLAIN_EVERY_S):
            return
        self._last = now
        share = done / total if total else 1.0
        text = f"{self._what}: {size(done)} of {size(total)}"
        if self._live:
            filled = round(share * _WIDTH)
            bar = "#" * filled + "." * (_WIDTH - filled)
            self._stream.write(f"\r\x1b[K[{bar}] {text}  {printable(name)[:40]}")
            self._drawn = True
        else:
            self._stream.write(f"{text} ({share:.0%})\n")
        self._stream.flush()

    def clear(self) -> None:
        """Take the bar away, before something is said."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False
