"""The start of a training: `starts from: step 8 of this training`, which its program prints once as it begins."""

from __future__ import annotations

import re
from pathlib import Path

from drivetrain.run_store.events import STARTS_FROM

# The beginning of a log in which a training says it; a program that has printed more has begun without saying it.
FIRST_BYTES = 64 * 1024
_STARTS = re.compile(r"^(?:.{0,40}\s)?starts from: ([^\r\n]{1,300})", re.MULTILINE)


def starting_point(log: str) -> str:
    """Read from the beginning of a training's log what it starts from: `starts from step 8 of this training`; empty
    where it says nothing."""
    found = _STARTS.search(log)
    return "" if found is None else f"{STARTS_FROM}{found[1].strip()}"


class StartingPoint:
    """Looks for the line at the beginning of a log that grows."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._seen = 0
        self.text: str | None = None

    def read(self) -> str | None:
        """The text, once: when it is found."""
        size = self._log.stat().st_size if self._log.exists() else 0
        if self.text is not None or self._seen in (size, FIRST_BYTES):
            return None
        self._seen = min(size, FIRST_BYTES)
        with self._log.open("rb") as file:
            log = file.read(FIRST_BYTES)
        whole = log[: max(log.rfind(b"\n"), log.rfind(b"\r")) + 1]
        self.text = starting_point(whole.decode("utf-8", "replace")) or None
        return self.text
