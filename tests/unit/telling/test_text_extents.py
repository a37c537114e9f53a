"""No label of a chart is cut off at the edge of its picture, and none runs into another.

A text takes at most 7 pixels a character at the charts' 11.5 px; a wide character counts for two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from xml.etree import ElementTree

import pytest

from drivetrain.base.formatting import cells
from drivetrain.telling.charts.charts import Series, bar_chart, line_chart
from drivetrain.telling.charts.dot_plot import Row, dot_plot
from drivetrain.telling.charts.heat_map import heat_map
from drivetrain.telling.charts.square_chart import Line, square_chart
from drivetrain.telling.charts.timeline import timeline
from drivetrain.telling.charts.tuning_charts import by_epoch, by_parameter, by_training
from drivetrain.telling.content.goodput import Attempt, Interruption, JobTimes
from drivetrain.telling.content.plotted import PlottedMatrix
from drivetrain.telling.content.tuning import TrainingFacts, TuningFacts

CHARACTER, ABOVE, BELOW = 7.0, 8.0, 2.0
WIDE = "日本語日本語日本語日本語日本語"
Box = tuple[float, float, float, float]


def box(text: ElementTree.Element) -> Box:
    """left, top, right, bottom."""
    x, y = float(text.get("x", 0)), float(text.get("y", 0))
    width = CHARACTER * cells("".join(text.itertext()))
    before = {"middle": width / 2, "end": width}.get(text.get("text-anchor", "start"), 0.0)
    if text.get("transform", "").startswith("rotate(-90"):
        return x - ABOVE, y - (width - before), x + BELOW, y + before
    return x - before, y - ABOVE, x - before + width, y + BELOW


def faults(markup: object) -> list[str]:
    svg = next(ElementTree.fromstring(str(markup)).iter("svg"))
    width, height = map(float, re.findall(r"[\d.]+", svg.attrib["viewBox"])[2:])
    found = [("".join(text.itertext()), box(text)) for text in svg.iter("text") if "".join(text.itertext())]
    assert found
    cut = [f"{text!r} leaves the picture" for text, b in found if min(b) < -1 or b[2] > width + 1 or b[3] > height + 1]
    return cut + [
        f"{one!r} runs into {other!r}"
        for (one, a), (other, b) in combinations(found, 2)
        if a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1
    ]


def lines(scale: float, at: float = 1.0) -> object:
    points = tuple((at * epoch, scale * (1 + epoch / 7)) for epoch in range(1, 8))
    return line_chart("loss", [Series("train", points)], x_label="epoch")


def rates(points: list[tuple[float, float]]) -> object:
    lines = [Line(name="a", points=points)]
    return square_chart("roc", lines, x_label="false positive rate", y_label="true positive rate")


def tuned(*values: str, objective: float = 0.5) -> TuningFacts:
    trainings = tuple(
        TrainingFacts(
            number=number,
            status="Completed",
            parameters={"p": value},
            objective=objective * number,
            seconds=1.0,
            values=(objective, objective * number),
        )
        for number, value in enumerate(values, 1)
    )
    return TuningFacts(step="tune", strategy="Random", metric="loss", maximize=False, trainings=trainings)


def matrix(*names: str) -> PlottedMatrix:
    rows = tuple(tuple(1000.0 * (row == column) for column in range(len(names))) for row in range(len(names)))
    return PlottedMatrix(name="m", rows=names, columns=names, cells=rows)


def interrupted(*moments: float) -> JobTimes:
    attempts = [
        Attempt(number=n, started=at, restart_seconds=0.1, time=at + 0.3, first_step=10 * n, step=10 * n + 10)
        for n, at in enumerate(moments, 1)
    ]
    ends = [
        Interruption(start=n, at_step=10 * n + 10, resumed_step=10 * n + 10, steps_lost=0, seconds_down=0.1)
        for n in range(1, len(moments))
    ]
    return JobTimes(step="train", attempts=tuple(attempts), interruptions=tuple(ends))


CHARTS: dict[str, Callable[[], object]] = {
    "large values": lambda: lines(123_456.0),
    "small values": lambda: lines(-2.3e-4),
    "tiny values": lambda: lines(3e-15),
    "many steps": lambda: lines(1.0, at=123_457.0),
    "bars with long names": lambda: bar_chart("f1", [("a class of a long name", 0.98765), (WIDE, -12_345.678)]),
    "dots far apart": lambda: dot_plot("d", [Row(name=WIDE, value=-1234.5), Row(name="x" * 40, value=9876.5)]),
    "dots close together": lambda: dot_plot("slices", [Row(name="a", value=0.99871), Row(name="b", value=0.99874)]),
    "differences": lambda: dot_plot("d", [Row(name="a", value=-0.00012345, interval=(-2e-4, 1e-4))], differences=True),
    "a square of rates": lambda: rates([(0, 0), (1, 1)]),
    "a square of large numbers": lambda: rates([(1e5, -4e5), (9e5, 9e5)]),
    "a matrix of two": lambda: heat_map("confusion", matrix("0", "1")),
    "a matrix of one": lambda: heat_map("confusion", matrix("0")),
    "a matrix of long names": lambda: heat_map("confusion", matrix(*(f"a long class name {n}" for n in range(9)))),
    "tuning by training": lambda: by_training(tuned(*"abcdefgh", objective=12_345.6)),
    "ten orders of magnitude": lambda: by_parameter(tuned("1e-10", "1e-5", "1", "10"), "p"),
    "many categories": lambda: by_parameter(tuned(*(f"architecture-{n}" for n in range(25))), "p"),
    "three categories": lambda: by_parameter(tuned("sgd", "adam", WIDE), "p"),
    "tuning by epoch": lambda: by_epoch(tuned("1", "2", objective=-0.00012)),
    "interruptions one after another": lambda: timeline(interrupted(0.0, 0.4, 0.8, 900.0, 4000.0)),
}


@pytest.mark.parametrize("name", CHARTS)
def test_labels_stay_in_the_picture_without_overlap(name: str) -> None:
    assert faults(CHARTS[name]()) == []
