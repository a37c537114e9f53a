"""Handles SIGINT, SIGTERM and SIGHUP: the first signal stops the jobs with a grace period, the next one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from types import FrameType

from drivetrain.targets.local.execution.context import Control

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals(
    control: Control, grace_s: float, asked: Callable[[], None], first: Callable[[], None]
) -> Generator[None]:
    """Stop the jobs on a signal, giving them `grace_s` seconds the first time. In another thread than the main one,
    which signals do not reach, nothing is done.

    Args:
        asked: called at each signal, from its handler: it must not wait.
        first: called once, from another thread, before the jobs are stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # Not from the handler itself: the main thread may be holding a lock that stopping needs.
        threading.Thread(target=stop_jobs, args=(next(signals) > 1,), daemon=True).start()
        asked()

    def stop_jobs(again: bool) -> None:
        if not again:
            first()
        control.stop(0.0 if again else grace_s)

    signals = count(1)
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
