"""How far a campaign is: one line that is written over in a terminal, a line every now and then elsewhere."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import IO

from tests.faults.harness.families import Family
from tests.faults.harness.progress import Progress

_BAR = 24
_SECONDS_BETWEEN_LINES = 15.0


class Line:
    def __init__(self, stream: IO[str] = sys.stdout) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._began = self._said = time.monotonic()
        self._before = 0
        self._family = ""

    def begin(self, family: Family, progress: Progress) -> None:
        """Of the trials before this start the speed says nothing."""
        self._began = self._said = time.monotonic()
        self._before, self._family = len(progress.made), family.name
        on = f", going on after {self._before}" if self._before else ""
        print(f"{family.name}: {progress.trials} trials, seed {progress.seed}{on}", file=self._stream, flush=True)

    def show(self, family: Family, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._said < (0.2 if self._terminal else _SECONDS_BETWEEN_LINES):
            return
        self._said = now
        self._write(describe(progress, self._before, now - self._began), over=self._terminal)

    def end(self, progress: Progress) -> None:
        text = describe(progress, self._before, time.monotonic() - self._began)
        self._write(text, over=self._terminal)
        if self._terminal:
            print(file=self._stream)
        for made in progress.violating:
            for violation in made.violations:
                print(
                    f"  VIOLATION of {self._family}, --seed {progress.seed} --trial {made.trial}: {violation}",
                    file=self._stream,
                )
        self._stream.flush()

    def _write(self, text: str, *, over: bool) -> None:
        self._stream.write(f"\r\x1b[2K  {text}" if over else f"  {text}\n")
        self._stream.flush()


def describe(progress: Progress, before: int, seconds: float) -> str:
    """Bar, trials, violations, speed and time left. `before` trials were made by an earlier start."""
    made, here = len(progress.made), len(progress.made) - before
    full = _BAR * made // progress.trials if progress.trials else _BAR
    count = len(progress.violating)
    words = [f"[{'#' * full}{'.' * (_BAR - full)}] {made}/{progress.trials}", f"{count} violation{'s' * (count != 1)}"]
    if here and seconds > 0:
        rate = here / seconds
        words.append(f"{rate:.2f}/s" if rate < 10 else f"{rate:.0f}/s")
        left = (progress.trials - made) / rate
        words.append(f"{timedelta(seconds=round(left))} left" if made < progress.trials else f"{seconds:.0f} s")
    return ", ".join(words)
