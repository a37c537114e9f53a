"""How far an evaluation is: a bar for who looks at a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TextIO

_BAR_EVERY_S, _LINE_EVERY_S, _WIDTH = 0.1, 10.0, 24


class Progress:
    """Counts samples; draws on the terminal of `bar` if that is one, and prints lines to `lines` if it is not.

    Args:
        total: the number of samples.
        shows: this rank prints.
    """

    def __init__(
        self,
        total: int,
        *,
        shows: bool = True,
        bar: TextIO | None = None,
        lines: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bar, self._lines = bar or sys.stderr, lines or sys.stdout
        self._live = shows and self._bar.isatty()
        self._shows, self._total, self._clock = shows, total, clock
        self._done, self._drawn = 0, False
        self._begun = self._last = clock()
        self._stopped: float | None = None

    def add(self, samples: int) -> None:
        """So many more of the whole are done, over all ranks."""
        self._done = min(self._done + samples, self._total)
        now = self._clock()
        if not self._shows or now - self._last < (_BAR_EVERY_S if self._live else _LINE_EVERY_S):
            return
        self._last = now
        left = (now - self._begun) / self._done * (self._total - self._done) if self._done else 0.0
        text = f"{self._done:,} of {self._total:,} samples, {self._speed(now):,.0f} a second"
        text += f", {timedelta(seconds=round(left))} left"
        if self._live:
            filled = round(self._done / self._total * _WIDTH) if self._total else _WIDTH
            self._bar.write(f"\r\x1b[K[{'#' * filled}{'.' * (_WIDTH - filled)}] {text}")
            self._bar.flush()
            self._drawn = True
        else:
            print(f"evaluated {text}", file=self._lines, flush=True)

    def stop(self) -> None:
        """All samples are counted; what is made of the counts takes no more of their time."""
        self._stopped = self._clock()

    def clear(self) -> None:
        """Take the bar away, before something else is said."""
        if self._drawn:
            self._bar.write("\r\x1b[K")
            self._bar.flush()
            self._drawn = False

    def end(self) -> str:
        """Take the bar away; returns what there is to say of it all."""
        now = self._clock() if self._stopped is None else self._stopped
        self.clear()
        samples = "1 sample" if self._total == 1 else f"{self._total:,} samples"
        return f"{samples} in {now - self._begun:.1f} s, {self._speed(now):,.0f} a second"

    def _speed(self, now: float) -> float:
        return self._done / max(now - self._begun, 1e-9)
