"""Lines at the end of a terminal that are drawn again in place, while other lines are printed above them."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
from typing import TextIO

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Redrawn:
    """Draws `lines()` many times a second from `start` to `stop`, and once more at the end.

    What the process prints meanwhile, such as a user's function or a warning, stands above. `lines()` gives lines that
    fit the terminal, in width and in number: what has scrolled away cannot be drawn again.
    """

    def __init__(self, lines: Callable[[], list[str]], stream: TextIO, frames_per_second: int) -> None:
        self._lines = lines
        self._stream = stream
        self.encoding = stream.encoding or "utf-8"
        self._seconds = 1 / frames_per_second
        self._drawn = 0
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="progress", daemon=True)
        self._printed = ExitStack()

    def start(self) -> None:
        self._stream.write(HIDE_CURSOR)
        self._printed.enter_context(redirect_stdout(self._printed.enter_context(closing(_Above(self)))))
        self._printed.enter_context(redirect_stderr(self._printed.enter_context(closing(_Above(self)))))
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._printed.close()
        self.draw()
        self._stream.write(SHOW_CURSOR)
        self._stream.flush()

    def draw(self, above: str = "") -> None:
        """Draw the lines as they are now, below the text `above`, which stays."""
        with self._lock:
            lines = self._lines()
            erased = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
            self._drawn = len(lines)
            self._stream.write(erased + above + "".join(f"{line}\n" for line in lines))
            self._stream.flush()

    def _go_on(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                self.draw()
            except (OSError, ValueError):  # the terminal is gone; the next event says so where it can be handled
                return


class _Above(io.TextIOBase):
    """A stream whose whole lines are printed above those that are redrawn."""

    def __init__(self, below: Redrawn) -> None:
        self._below = below
        self._line = ""

    def write(self, text: str, /) -> int:
        whole, newline, rest = (self._line + text).rpartition("\n")
        self._line = rest
        if newline:
            self._below.draw(whole + newline)
        return len(text)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._below.encoding

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if self._line:
            self.write("\n")
        super().close()
