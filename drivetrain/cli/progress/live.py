"""Progress on a terminal: a line a step, redrawn in place while the run goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from drivetrain.base.formatting import SIGNS, cells, count, duration, printable, status_word
from drivetrain.cli.progress import Clock, RunView, StepView
from drivetrain.cli.progress.plain import explanation
from drivetrain.targets.events import CacheExplained, Event, ExecutionStarted, StepExpanded, StepFinished, StepNoted

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

STYLES = {
    "Succeeded": "green",
    "Cached": "cyan",
    "Executing": "blue",
    "Retrying": "yellow",
    "Interrupted": "yellow",
    "Waiting": "dim",
    "Failed": "bold red",
    "Stopped": "yellow",
    "NotExecuted": "dim",
}
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 8
# Below this width the status words go: the signs say the same.
NARROW = 64


class LiveProgress:
    """A line a step. Where there are more steps than lines, finished ones scroll away and waiting ones are counted."""

    def __init__(self, console: Console | None = None, clock: Clock = time.monotonic) -> None:
        self.view = RunView(clock)
        self.console = console or Console(highlight=False)
        self._longest_name = 8
        self._live = Live(
            self, console=self.console, refresh_per_second=FRAMES_PER_SECOND, vertical_overflow="crop", transient=False
        )

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        step = self.view.apply(event)
        if isinstance(event, ExecutionStarted | StepExpanded):
            self._longest_name = max((cells(printable(other.title)) for other in self.view.steps.values()), default=8)
        if isinstance(event, CacheExplained):
            for line in explanation(event):
                self.console.print(Text(printable(line), style="dim"), soft_wrap=True)
        elif isinstance(event, StepNoted) and event.asks:
            self.console.print(Text(printable(f"{event.step} {event.note}")), soft_wrap=True)
        elif isinstance(event, StepFinished) and step is not None and not self._all_fit():
            self.console.print(self._line(step, self.console.width))
        else:
            return
        self._live.refresh()

    def _all_fit(self) -> bool:
        return len(self.view.steps) + 2 < self.console.height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.view.steps:
            return
        yield self._head(options.max_width)
        steps = list(self.view.steps.values())
        if self._all_fit():
            yield from (self._line(step, options.max_width) for step in steps)
            return
        running = [step for step in steps if step.status in ("Executing", "Retrying", "Interrupted")]
        room = max(self.console.height - 4, 1)
        yield from (self._line(step, options.max_width) for step in running[:room])
        more = [f"{len(running) - room} more running"] if len(running) > room else []
        done = sum(step.done for step in steps)
        waiting = sum(step.status == "Waiting" for step in steps)
        yield Text(", ".join([*more, f"{done} of {count(len(steps), 'step')} done", f"{waiting} waiting"]), style="dim")

    def _head(self, width: int) -> Text:
        view = self.view
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(printable(view.pipeline), style="bold")
        head.append(f"  {duration(view.elapsed)}", style="default")
        head.append(f"  {view.execution}" + ("  goes on" if view.resumed else ""), style="dim")
        head.truncate(width, overflow="ellipsis")
        return head

    def _detail(self, step: StepView, room: int) -> str:
        """As many metrics as there is room for: half a number is none."""
        for num_metrics in (3, 2, 1):
            detail = printable(step.detail(num_metrics))
            if cells(detail) <= room:
                break
        return detail

    def _line(self, step: StepView, width: int) -> Text:
        name_room = min(self._longest_name, max(width // 3, 8))
        style = STYLES.get(step.status, "default")
        sign = SIGNS.get(step.status, "•")
        if step.status == "Executing":
            sign = SPINNER[int(self.view.clock() * FRAMES_PER_SECOND) % len(SPINNER)]
        line = Text(no_wrap=True)
        line.append(f"{sign} ", style=style)
        name = Text(printable(step.title), style="dim" if step.status in ("Waiting", "NotExecuted") else "bold")
        name.truncate(name_room, overflow="ellipsis", pad=True)
        line.append_text(name)
        if width >= NARROW:
            line.append(f"  {status_word(step.status):<9}", style=style)
        seconds = self.view.seconds(step)
        line.append(f"  {duration(seconds) if seconds is not None else '':>9}")
        if detail := self._detail(step, width - line.cell_len - 2):
            line.append(f"  {detail}", style="red" if step.status == "Failed" else "dim")
        line.truncate(width, overflow="ellipsis")
        return line
