"""What a training starts from: `starts from: step 8 of this training`, which its program prints once as it begins."""

from __future__ import annotations

import re
from pathlib import Path

from drivetrain.targets.events import STARTS_FROM

_LINE = re.compile(rb"^(?:.{0,40}\s)?starts from: ([^\r\n]{1,300})[\r\n]", re.MULTILINE)
# A program that has printed more has begun without saying it.
_FIRST = 64 * 1024


class StartingPoint:
    """Looks for the line at the beginning of a log that grows."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._seen = 0
        self.text: str | None = None

    def read(self) -> str | None:
        """The text, once: when it is found."""
        size = self._log.stat().st_size if self._log.exists() else 0
        if self.text is not None or self._seen in (size, _FIRST):
            return None
        self._seen = min(size, _FIRST)
        with self._log.open("rb") as file:
            found = _LINE.search(file.read(_FIRST))
        self.text = None if found is None else f"{STARTS_FROM}{found[1].decode('utf-8', 'replace').strip()}"
        return self.text
