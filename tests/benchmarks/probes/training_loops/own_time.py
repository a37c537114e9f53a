"""Clocks of each loop's own: they stand still while other loops have their turn.

Loops do much by the clock: a line every so often, an exchange of the ranks four times a second, statistics for one
hundredth of the time. A loop that waits four fifths of the time for its turn would do five times as much of it a step
as one that has the machine to itself. `time.perf_counter` and `time.monotonic` therefore leave out what the thread has
waited. Import this before whatever reads the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Waited(threading.local):
    seconds = 0.0


_waited = _Waited()
_now = time.perf_counter


def _own(clock: Callable[[], float]) -> Callable[[], float]:
    return lambda: clock() - _waited.seconds


time.perf_counter, time.monotonic = _own(time.perf_counter), _own(time.monotonic)


@contextmanager
def standing_still() -> Iterator[None]:
    """The clocks of this thread stand still inside."""
    begun = _now()
    yield
    _waited.seconds += _now() - begun
