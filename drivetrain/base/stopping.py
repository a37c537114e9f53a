"""When this process must be gone, once it is told to stop: what waits for a service waits no longer."""

from __future__ import annotations

import math

_by = math.inf


def leave_by(moment: float) -> None:
    """Leave by a moment of time.monotonic; math.inf takes it back."""
    global _by
    _by = moment


def leaves_by() -> float:
    return _by
