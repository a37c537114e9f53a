"""How long to wait for a service: until this process must be gone, once it is told to stop; and the error where the
service stays away."""

from __future__ import annotations

import math

_by = math.inf


class AwayError(OSError):
    """A service did not answer for as long as it is waited for: nobody's input is wrong, and a retry may help.

    A training ends with exit code 75 and prints the message alone.
    """


def leave_by(moment: float) -> None:
    """Leave by a moment of time.monotonic; math.inf takes it back."""
    global _by
    _by = moment


def leaves_by() -> float:
    return _by
