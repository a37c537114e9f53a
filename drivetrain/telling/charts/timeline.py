"""The timeline of a training that was interrupted: its steps over time, and what each stretch of time was spent on."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count, duration
from drivetrain.base.markup import Markup, el
from drivetrain.telling.charts.frame import Axis, Frame, figure, key, svg, text_width, tick_marks, ticks
from drivetrain.telling.content.goodput import JobTimes, spans

KINDS = {"training": "training", "lost": "taken again later", "restart": "leaving and starting", "down": "no machines"}
WIDTH = 1080.0
LEFT, RIGHT, TOP = 62.0, 16.0, 26.0
PLOT, LANE, GAP = 150.0, 16.0, 12.0
# More marks than this cannot be told apart on the width of the picture.
MAX_MARKS = 240
MAX_NUMBERED = 25
Stretch = tuple[str, float, float]


def timeline(times: JobTimes) -> Markup | None:
    """The picture, with what it shows in words; None where no time is known."""
    stretches = spans(times)
    if not stretches:
        return None
    picture = _Picture(times, stretches)
    body = [picture.axes(), picture.lane(), picture.steps(), picture.interruptions()]
    drawn = svg(in_words(times), body, size=(WIDTH, picture.height), kind="chart spans")
    return figure(f"Steps of {times.step} over time", _legend(times, stretches), drawn, kind="curve wide", scrolls=True)


def in_words(times: JobTimes) -> str:
    """Describe the picture for those who do not see it."""
    found = spans(times)
    told = [f"{times.step} for {duration(found[-1][2] - found[0][1])}"] if found else [times.step]
    told.append(count(len(times.interruptions), "interruption"))
    for one in times.interruptions[:20]:
        at = "before its first step" if one.at_step is None else f"at step {one.at_step:,}"
        down = "" if one.seconds_down is None else f" for {duration(one.seconds_down)}"
        on = "" if one.resumed_step is None else f", then on from step {one.resumed_step:,}"
        told.append(f"{at}{down}{on}")
    if len(times.interruptions) > 20:
        told.append(f"{len(times.interruptions) - 20} more, which the table has")
    return "; ".join(told)


def _legend(times: JobTimes, stretches: Sequence[Stretch]) -> list[Markup]:
    there = {kind for kind, _, _ in stretches}
    keys = [key(f"block k-{kind}", name) for kind, name in KINDS.items() if kind in there]
    if any(one.saved for one in times.attempts):
        keys.append(key("block k-save", "save"))
    if times.interruptions and times.attempts:
        keys.append(key("cross", "interruption", sign="✕"))
    return keys


class _Picture:
    def __init__(self, times: JobTimes, stretches: Sequence[Stretch]) -> None:
        self.times, self.stretches = times, stretches
        self.attempts = [one for one in times.attempts if one.took_steps]
        self.start = stretches[0][1]
        length = max(stretches[-1][2] - self.start, 1e-9)
        self.unit, unit_seconds = _unit(length)
        most = max((one.step or 0 for one in self.attempts), default=0)
        plot_bottom = TOP + PLOT if self.attempts else TOP - GAP
        self.lane_top = plot_bottom + GAP
        self.height = self.lane_top + LANE + 40
        along = [tick for tick in ticks(0, length / unit_seconds, 8) if tick * unit_seconds <= length]
        marks = [(tick * unit_seconds, text) for tick, text in tick_marks(along)]
        up = Axis.of(ticks(0, max(most, 1), 4), plot_bottom, plot_bottom - PLOT)
        self.frame = Frame(Axis(0.0, length, LEFT, WIDTH - RIGHT, marks), up, WIDTH)

    def x(self, moment: float) -> float:
        return self.frame.across.inside(moment - self.start)

    def y(self, step: float) -> float:
        return self.frame.y(step)

    def axes(self) -> Markup:
        below = self.lane_top + LANE
        middle = (LEFT + WIDTH - RIGHT) / 2
        label = el("text", f"{self.unit} since its start", x=middle, y=below + 34, text_anchor="middle")
        step = el("text", "step", x=LEFT - 8, y=TOP - 12, text_anchor="end") if self.attempts else None
        levels = self.frame.levels() if self.attempts else None
        return el("g", levels, self.frame.columns(below), label, step, class_="axis")

    def lane(self) -> Markup:
        """The lane that shows what each stretch was spent on."""
        return el(
            "g",
            [
                el(
                    "rect",
                    el("title", f"{KINDS[kind]}: {duration(ended - started)}"),
                    x=self.x(started),
                    y=self.lane_top,
                    # A stretch of a moment is still a mark.
                    width=max(self.x(ended) - self.x(started), 1.0),
                    height=LANE,
                    class_=f"k-{kind}",
                )
                for kind, started, ended in self.stretches
            ],
        )

    def steps(self) -> Markup:
        """The line of each attempt, dashed where its steps were taken again, with its saves."""
        drawn: list[Markup] = []
        for place, one in enumerate(self.attempts):
            assert one.first_step is not None and one.step is not None
            after = self.attempts[place + 1] if place + 1 < len(self.attempts) else None
            first = min(one.started + one.restart_seconds, one.time)
            kept = one.step if after is None else min(max(after.first_step or 0, one.first_step), one.step)
            turn = first + (one.time - first) * (kept - one.first_step) / max(one.step - one.first_step, 1)
            drawn.append(self._line((first, one.first_step), (turn, kept), "kept"))
            if kept < one.step:
                drawn.append(self._line((turn, kept), (one.time, one.step), "again"))
            if after is not None and after.first_step is not None:
                begun = min(after.started + after.restart_seconds, after.time)
                drawn.append(self._line((one.time, one.step), (begun, after.first_step), "fall"))
        saved = [pair for one in self.attempts for pair in one.saved]
        marks = [
            el(
                "circle",
                el("title", f"saved at step {step:,}, {duration(moment - self.start)} after the start"),
                cx=self.x(moment),
                cy=self.y(step),
                r=3,
                class_="save",
            )
            for step, moment in saved[:: len(saved) // MAX_MARKS + 1]
        ]
        return el("g", drawn, marks)

    def interruptions(self) -> Markup:
        """A cross where an attempt lost its machines."""
        starts = {one.number: one for one in self.times.attempts}
        ends = [
            (number, starts[one.start].until, one.at_step or 0)
            for number, one in enumerate(self.times.interruptions, 1)
            if one.start in starts
        ]
        crosses: list[Markup] = []
        free = 0.0  # a number that would run into the one before is left out
        for number, moment, step in ends[:: len(ends) // MAX_MARKS + 1]:
            x, y = self.x(moment), self.y(step)
            half = text_width(str(number)) / 2
            numbered = len(ends) <= MAX_NUMBERED and x - half >= free
            free = x + half if numbered else free
            words = f"interruption {number}: at step {step:,}, {duration(moment - self.start)} after the start"
            crosses.append(
                el(
                    "g",
                    el("title", words),
                    el("path", d=f"M{x - 4:.1f},{y - 4:.1f} l8,8 m0,-8 l-8,8"),
                    el("circle", cx=x, cy=y, r=9, class_="reach"),
                    el("text", str(number), x=x, y=y - 9, text_anchor="middle") if numbered else None,
                    class_="cross",
                )
            )
        return el("g", crosses)

    def _line(self, start: tuple[float, float], end: tuple[float, float], name: str) -> Markup:
        return el(
            "line", x1=self.x(start[0]), y1=self.y(start[1]), x2=self.x(end[0]), y2=self.y(end[1]), class_=name
        )  # fmt: skip


def _unit(seconds: float) -> tuple[str, float]:
    """The unit of an axis of this length."""
    if seconds < 180:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 3 * 3600 else ("hours", 3600.0)
