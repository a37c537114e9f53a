"""Read what tasks report from the pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_reports(pipe: int) -> Iterator[dict[str, Any]]:
    """The reports that come through a pipe; empty where its other ends are closed, or nothing waits in it."""
    waiting = b""
    while chunk := os.read(pipe, 65_536):
        waiting += chunk
        *lines, waiting = waiting.split(b"\n")
        for line in lines:
            report = json.loads(line)
            if report["event"] == "file":
                path = Path(report["path"])
                report = json.loads(path.read_text(encoding="utf-8"))
                path.unlink()
            yield report
