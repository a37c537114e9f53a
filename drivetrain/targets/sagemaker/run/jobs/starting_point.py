"""What a training starts from: `starts from: step 8 of this training`, which its program prints once as it begins."""

from __future__ import annotations

from pathlib import Path

from drivetrain.run_store.events import FIRST_BYTES, starting_point


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
