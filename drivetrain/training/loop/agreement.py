"""The ranks agree on when to save and when to leave, so that all of them do it at the same step.

A signal reaches the ranks at different steps, or reaches only one of them, and only rank 0 looks at the clock. Each
rank therefore sends three numbers, and the maximum over all ranks counts. They travel over a second group of the same
ranks, so they never mix with the training's own collectives. The exchange is started at one step and its result is read
some steps later, when it has long finished. The ranks also agree on how many steps later: about a quarter of a second,
so that nobody waits.

SIGTERM only sets a flag: a handler that saved would run in the middle of a step.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import types
from collections.abc import Callable

import numpy as np

from drivetrain.training.errors import StoppedError
from drivetrain.training.launch.processes.failure import is_lost_peer
from drivetrain.training.process import Process

# How long a request may wait before it is noticed, and the maximum number of steps between two exchanges.
SECONDS, MOST_STEPS = 0.25, 1024
_STOP, _SAVE, _PACE = range(3)


class Agreement:
    """The agreement of the ranks. Every rank calls the same methods at the same steps.

    Use it as a context manager. Inside the block SIGTERM is a request; outside it keeps its usual meaning. If an
    exception ends the block, the usual meaning is restored. If the exception says that peers are lost and SIGTERM had
    already arrived (torchrun sends it to the remaining ranks), the process ends at once: there is nobody to agree with.

    Args:
        process: this one.
        save_is_due: asked on the first rank only, whenever it has something to say.
        timeout: seconds that a rank waits for the others.
        on_stop: called once, when this rank is sent SIGTERM or hears that another was; it may interrupt anything.
    """

    def __init__(
        self,
        process: Process,
        *,
        save_is_due: Callable[[], bool] = lambda: False,
        timeout: float = 600.0,
        on_stop: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._process, self._save_is_due, self._clock = process, save_is_due, clock
        self._group = process.group.twin(timeout)
        self._on_stop, self._has_heard = on_stop, False
        self._numbers = np.zeros(3)
        self._pending: Callable[[], None] | None = None
        self._handles, self._before = False, None
        self.is_told = False
        """True if this rank has been sent SIGTERM."""
        self.stops = False
        """True if all ranks leave now; it then stays true."""
        self.saves = False
        """True if all ranks save now."""
        self.restart()

    def __enter__(self) -> Agreement:
        if threading.current_thread() is threading.main_thread():
            self._handles, self._before = True, signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if not self._handles or kind is StoppedError:
            return  # a second signal must not break off an orderly end
        signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        if self.is_told and isinstance(error, Exception) and is_lost_peer(error):
            os.kill(os.getpid(), signal.SIGTERM)

    def _note(self, number: int, frame: types.FrameType | None) -> None:
        self.is_told = True
        self._hear()

    def _hear(self) -> None:
        if not self._has_heard:
            self._has_heard = True
            self._on_stop()

    def step(self) -> None:
        """A step was taken, or a batch evaluated: `stops` and `saves` say what is to be done now."""
        self._count += 1
        if self._count >= self._gap:
            self._look()
        elif self.saves:
            self.saves = False

    def now(self) -> None:
        """Agree now, waiting for all ranks. Use it after a long operation or at the end of an epoch."""
        self.restart()
        self._look()

    def restart(self) -> None:
        """Measure the pace afresh: the next steps take a different time from those before."""
        if self._pending is not None:
            self._finish()
        self.saves = False  # the next look asks again
        self._gap, self._count, self._marked = 1, 0, self._clock()

    def _look(self) -> None:
        now = self._clock()
        pace = (now - self._marked) / self._count if self._count else SECONDS
        self.saves = False
        if self._pending is not None:
            self._finish()
        if not self.stops:
            self._start(pace)
            if self._gap == 1:  # what it waits for is little against a step of this length
                self._finish()
        self._count, self._marked = 0, now

    def _start(self, pace: float) -> None:
        self._numbers[_STOP] = self.is_told
        # Once is enough: what was agreed a moment ago is yet to be done.
        self._numbers[_SAVE] = self._process.is_main and not self.saves and self._save_is_due()
        self._numbers[_PACE] = pace
        self._pending = self._group.start_max(self._numbers)

    def _finish(self) -> None:
        finish, self._pending = self._pending, None
        assert finish is not None
        finish()
        stop, save, pace = self._numbers.tolist()
        self.stops = self.stops or stop > 0
        if self.stops:
            self._hear()
        self.saves = self.saves or save > 0
        # It grows by doubling: a few quick steps are no promise.
        self._gap = max(1, min(2 * self._gap, MOST_STEPS, int(SECONDS / max(pace, 1e-9))))
