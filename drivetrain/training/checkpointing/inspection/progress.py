"""Progress of a long read: a bar in a terminal; in a log, only what was finished."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from drivetrain.training.checkpointing.inspection.formatting import printable, size

_EVERY_S, _PLAIN_EVERY_S, _WIDTH = 0.1, 10.0, 24


class Bar:
    """`verify rank-00000...  [#####...]  1.2 of 3.4 GB`; without a terminal a line now and then.

    Args:
        stream: stderr, so that what is found can be redirected.
    """

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream or sys.stderr
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
