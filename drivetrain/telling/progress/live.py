"""Progress on a terminal: a line a step, redrawn in place while the run goes on, below what is printed meanwhile."""

from __future__ import annotations

import io
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
from typing import Self, TextIO

from drivetrain.base.errors import WARNING
from drivetrain.base.formatting import cells, count, cut, duration, printable, status_word
from drivetrain.run_store.events import (
    CacheExplained,
    Event,
    ExecutionStarted,
    StepExpanded,
    StepFinished,
    StepNoted,
    shown_sign,
    shown_status,
    unhealthy_part,
)
from drivetrain.telling.progress import Clock, Progress, StepView, explanation
from drivetrain.telling.terminal import paint

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 8
# Below this width the status words go: the signs say the same.
NARROW = 64

Size = Callable[[], tuple[int, int]]
"""Columns and lines of the terminal, as they are now."""


def _terminal_size() -> tuple[int, int]:
    return shutil.get_terminal_size((100, 24))


class LiveProgress(Progress):
    """A line a step. Where there are more steps than lines, finished ones scroll away and waiting ones are counted."""

    def __init__(
        self, stream: TextIO | None = None, clock: Clock = time.monotonic, size: Size = _terminal_size
    ) -> None:
        super().__init__(clock)
        self._size = size
        self._stream = stream or sys.stdout
        self._longest_name = 8
        self._redrawn = Redrawn(self.lines, self._stream, FRAMES_PER_SECOND)

    def __enter__(self) -> Self:
        self._redrawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._redrawn.stop()

    def __call__(self, event: Event) -> None:
        step = self.view.apply(event)
        above: list[str] = []
        if isinstance(event, ExecutionStarted | StepExpanded):
            self._longest_name = max((cells(printable(other.title)) for other in self.view.steps.values()), default=8)
        if isinstance(event, CacheExplained):
            above = [paint(printable(line), "dim", self._stream) for line in explanation(event)]
        elif isinstance(event, StepNoted) and event.asks:
            above = [printable(f"{event.step} {event.note}")]
        elif isinstance(event, StepFinished) and step is not None:
            above = [] if self._all_fit() else [self._line(step, self._size()[0])]
            # The line of the step has no room for all of it.
            if WARNING in (event.value or "") or unhealthy_part(event.value):
                above.append(printable(f"{event.step}: {event.value}"))
        if above:
            self._redrawn.draw("".join(f"{line}\n" for line in above))

    def _all_fit(self) -> bool:
        return len(self.view.steps) + 2 < self._size()[1]

    def lines(self) -> list[str]:
        """The lines to draw now, as many as the terminal has room for."""
        if not self.view.steps:
            return []
        width, height = self._size()
        steps = list(self.view.steps.values())
        if self._all_fit():
            return [self._head(width), *(self._line(step, width) for step in steps)]
        running = [step for step in steps if step.status in ("Executing", "Retrying", "Interrupted")]
        room = max(height - 4, 1)
        more = [f"{len(running) - room} more running"] if len(running) > room else []
        done = sum(step.done for step in steps)
        waiting = sum(step.status == "Waiting" for step in steps)
        rest = ", ".join([*more, f"{done} of {count(len(steps), 'step')} done", f"{waiting} waiting"])
        shown = [self._head(width), *(self._line(step, width) for step in running[:room])]
        return [*shown, self._fitted([(rest, "dim")], width)][-max(height - 1, 1) :]

    def _head(self, width: int) -> str:
        view = self.view
        goes_on = "  goes on" if view.resumed else ""
        parts = [(printable(view.pipeline), "bold"), (f"  {duration(view.elapsed)}", "")]
        return self._fitted([*parts, (f"  {view.execution}{goes_on}", "dim")], width)

    def _fitted(self, parts: list[tuple[str, str]], width: int) -> str:
        """Texts with their styles as one line, cut where it is wider than that."""
        line = ""
        for text, style in parts:
            if width <= 0:
                break
            kept = cut(text, width)
            width -= cells(text)
            line += paint(kept, style, self._stream)
        return line

    def _detail(self, step: StepView, room: int) -> str:
        """As many metrics as there is room for; numbers are never cut."""
        for num_metrics in (3, 2, 1):
            detail = printable(step.detail(num_metrics))
            if cells(detail) <= room:
                break
        return detail

    def _line(self, step: StepView, width: int) -> str:
        name_room = min(self._longest_name, max(width // 3, 8))
        status = shown_status(step.status, step.value)
        sign = shown_sign(step.status, step.value)
        if step.status == "Executing":
            sign = SPINNER[int(self.view.clock() * FRAMES_PER_SECOND) % len(SPINNER)]
        name = cut(printable(step.title), name_room)
        seconds = self.view.seconds(step)
        parts = [
            (f"{sign} ", status),
            (name + " " * (name_room - cells(name)), "dim" if step.status in ("Waiting", "NotExecuted") else "bold"),
            (f"  {status_word(status):<9}" if width >= NARROW else "", status),
            (f"  {duration(seconds) if seconds is not None else '':>9}", ""),
        ]
        if detail := self._detail(step, width - sum(cells(text) for text, _ in parts) - 2):
            parts.append((f"  {detail}", "Failed" if step.status == "Failed" else "dim"))
        return self._fitted(parts, width)


class Redrawn:
    """Draws `lines()` many times a second from `start` to `stop`, and once more at the end.

    What the process prints meanwhile, such as a user's function or a warning, stands above. `lines()` gives lines that
    fit the terminal, in width and in number: what has scrolled away cannot be drawn again.
    """

    def __init__(self, lines: Callable[[], list[str]], stream: TextIO, frames_per_second: int) -> None:
        self._lines = lines
        self._stream = stream
        self.encoding = stream.encoding or "utf-8"
        self._seconds = 1 / frames_per_second
        self._drawn = 0
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="progress", daemon=True)
        self._printed = ExitStack()

    def start(self) -> None:
        self._stream.write(HIDE_CURSOR)
        self._printed.enter_context(redirect_stdout(self._printed.enter_context(closing(_Above(self)))))
        self._printed.enter_context(redirect_stderr(self._printed.enter_context(closing(_Above(self)))))
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._printed.close()
        self.draw()
        self._stream.write(SHOW_CURSOR)
        self._stream.flush()

    def draw(self, above: str = "") -> None:
        """Draw the lines as they are now, below the text `above`, which stays."""
        with self._lock:
            lines = self._lines()
            erased = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
            self._drawn = len(lines)
            self._stream.write(erased + above + "".join(f"{line}\n" for line in lines))
            self._stream.flush()

    def _go_on(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                self.draw()
            except (OSError, ValueError):  # the terminal is gone; the next event says so where it can be handled
                return


class _Above(io.TextIOBase):
    """A stream whose whole lines are printed above those that are redrawn."""

    def __init__(self, below: Redrawn) -> None:
        self._below = below
        self._line = ""

    def write(self, text: str, /) -> int:
        whole, newline, rest = (self._line + text).rpartition("\n")
        self._line = rest
        if newline:
            self._below.draw(whole + newline)
        return len(text)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._below.encoding

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if self._line:
            self.write("\n")
        super().close()
