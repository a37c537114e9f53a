"""The ends of logs."""

from __future__ import annotations

from pathlib import Path

# The end of a log is read, however long it is.
TAIL_BYTES = 256 * 1024


def tail(path: Path) -> str:
    """The last TAIL_BYTES of a file as text."""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(file.tell() - TAIL_BYTES, 0))
        return file.read().decode("utf-8", "replace")
