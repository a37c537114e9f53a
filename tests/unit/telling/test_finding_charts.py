"""Dot plots, heat maps and curves of rates."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.formatting import cut
from drivetrain.telling.charts import dot_plot as dots
from drivetrain.telling.charts.charts import Series, line_chart
from drivetrain.telling.charts.dot_plot import Row, dot_plot
from drivetrain.telling.charts.frame import ticks
from drivetrain.telling.charts.heat_map import MAX_CONFUSIONS, MAX_SIDE, heat_map
from drivetrain.telling.charts.square_chart import MAX_DOTS, MAX_NAMED, Line, rate_charts, square_chart
from drivetrain.telling.content.evaluation import evaluation
from drivetrain.telling.content.plotted import PlottedMatrix

NUMBERS = st.floats(-1e100, 1e100, allow_nan=False)


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup)


def of_class(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in element.iter() if name in (one.get("class") or "").split()]


def texts(element: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in element.iter("text")]


ROWS = [
    Row(name="south", value=0.7, interval=(0.6, 0.8), note="40 samples"),
    Row(name="north", value=0.9, interval=(0.85, 0.95), limit=0.65, tone="bad"),
]


def test_each_value_has_a_row_with_its_interval_and_the_reference() -> None:
    plot = parsed(dot_plot("accuracy by site", ROWS, reference=0.8, reference_name="all samples"))
    marks, lines = of_class(plot, "mark"), of_class(plot, "between")
    assert [mark.get("cy") for mark in marks] == ["19", "41"]
    for mark, line in zip(marks, lines, strict=True):
        assert float(line.attrib["x1"]) < float(mark.attrib["cx"]) < float(line.attrib["x2"])
    (reference,) = of_class(plot, "reference")
    assert float(marks[0].attrib["cx"]) < float(reference.attrib["x1"]) < float(marks[1].attrib["cx"])
    titles = [one.text for one in plot.iter("title")]
    assert "south: 0.7000, interval 0.6000 to 0.8000, 40 samples" in titles and "all samples 0.8000" in titles
    assert {"south", "north", "0.7000", "0.9000"} <= set(texts(plot))
    assert len(of_class(plot, "limit")) == 1 and len(of_class(plot, "bad")) == 1


def test_a_scale_of_rates_ends_at_1_and_differences_have_signs() -> None:
    plot = parsed(dot_plot("x", [Row(name="a", value=0.999, interval=(0.98, 1.0))]))
    shown = [float(text) for text in texts(plot) if re.fullmatch(r"[\d.]+", text)]
    assert max(shown) == 1.0
    plot = parsed(dot_plot("x", [Row(name="a", value=0.01), Row(name="b", value=-0.5)], reference=0, differences=True))
    assert {"+0.01", "-0.5"} <= set(texts(plot))


@given(st.lists(st.tuples(NUMBERS, st.floats(0, 1e99)), min_size=1, max_size=5), NUMBERS)
def test_marks_of_any_value_lie_in_the_picture(values: list[tuple[float, float]], reference: float) -> None:
    rows = [Row(name="a", value=value, interval=(value - by, value + by)) for value, by in values]
    plot = parsed(dot_plot("x", rows, reference=reference))
    for mark in [*of_class(plot, "mark"), *of_class(plot, "between"), *of_class(plot, "reference")]:
        for name in ("cx", "x1", "x2"):
            assert -0.1 <= float(mark.get(name, 0)) <= dots.WIDTH + 0.1


@given(NUMBERS, st.floats(0, 1e100))
def test_ticks_of_any_range_increase(low: float, extent: float) -> None:
    found = ticks(low, low + extent, 5)
    assert 2 <= len(found) <= 20 and found[0] < found[-1]


def test_a_line_chart_of_tiny_losses() -> None:
    chart = line_chart("loss", [Series("train", ((1.0, 3e-15), (2.0, 1e-15)))], x_label="epoch")
    assert "1e-15" in "".join(texts(parsed(chart)))


def test_names_are_cut_to_their_place() -> None:
    assert cut("short", 17) == "short" and cut("a name that is too long", 10) == "a name th…"
    assert cut("日本語日本語", 7) == "日本語…"


def matrix(cells: list[list[float]], names: list[str] | None = None) -> PlottedMatrix:
    names = names or [str(place) for place in range(len(cells))]
    return PlottedMatrix(name="m", rows=tuple(names), columns=tuple(names), cells=tuple(map(tuple, cells)))


def test_a_confusion_matrix_is_shaded_by_row_and_lists_confusions() -> None:
    found = parsed(heat_map("confusion matrix", matrix([[8, 2, 0], [0, 4, 0], [3, 0, 1]], ["cat", "dog", "owl"])))
    hits, misses = of_class(found, "hit"), of_class(found, "miss")
    assert [hit.get("style") for hit in hits] == ["fill-opacity:0.80", "fill-opacity:1.00", "fill-opacity:0.25"]
    assert [miss.get("style") for miss in misses] == ["fill-opacity:0.45", "fill-opacity:0.87"]
    titles = [one.text for one in found.iter("title")]
    assert "owl taken for cat: 3 of 4, 75.0 %" in titles
    assert "confusion matrix: 3 classes, 13 of 18 on the diagonal" in titles
    rows = [" ".join(row.itertext()) for row in found.iter("tr")]
    assert rows == ["owl taken for cat 3 of 4 75.0 %", "cat taken for dog 2 of 10 20.0 %"]


def test_a_matrix_of_many_classes_is_listed_instead_of_drawn() -> None:
    side = MAX_SIDE + 1
    cells = [[float(row != column) for column in range(side)] for row in range(side)]
    found = parsed(heat_map("m", matrix(cells)))
    assert list(found.iter("svg")) == [] and "too many for a picture" in "".join(found.itertext())
    assert len(list(found.iter("tr"))) == MAX_CONFUSIONS
    drawn = parsed(heat_map("m", matrix([row[:MAX_SIDE] for row in cells[:MAX_SIDE]])))
    assert len(of_class(drawn, "empty")) == MAX_SIDE**2


@pytest.mark.parametrize("cells", [[[0.0]], [[0.0, 0.0], [0.0, 0.0]], [[1e12, 3.5], [12_345.0, 0.0]]])
def test_empty_and_large_matrices(cells: list[list[float]]) -> None:
    found = parsed(heat_map("m", matrix(cells)))
    assert len(of_class(found, "empty")) == len(cells) ** 2
    if cells[0][0]:
        assert {"1000G", "3.5", "12k"} <= set(texts(found))


def curve(power: float, points: int = 500) -> list[tuple[float, float]]:
    return [(place / (points - 1), (place / (points - 1)) ** power) for place in range(points)]


def test_named_curves_have_colours_and_dots_and_others_are_grey() -> None:
    lines = [Line(name=f"class {place}", points=curve(0.1 + place / 10), note="0.9900") for place in range(3)]
    others = [Line(name=f"class {place}", points=curve(0.5)) for place in range(3, 9)]
    chart = parsed(square_chart("ROC curve", lines, others=others, others_name="6 other classes", x_label="fpr",
                                y_label="tpr", diagonal="chance"))  # fmt: skip
    assert len(of_class(chart, "curve-line")) == 3 and len(of_class(chart, "other-line")) == 6
    assert len(of_class(chart, "chance")) == 1 and {"fpr", "tpr"} <= set(texts(chart))
    assert [" ".join("".join(key.itertext()).split()) for key in of_class(chart, "legend")] == [
        "class 0 0.9900", "class 1 0.9900", "class 2 0.9900", "6 other classes",
    ]  # fmt: skip
    assert len(of_class(chart, "dot")) <= 3 * MAX_DOTS


def test_a_curve_is_thinned_to_distinguishable_points() -> None:
    (path,) = of_class(parsed(square_chart("x", [Line(name="a", points=curve(0.2, 5_000))])), "curve-line")
    assert 20 < path.attrib["d"].count("L") < 600
    stairs = [(0.0, 0.0), (0.0, 0.25), (0.0, 0.5), (0.0, 1.0), (0.5, 1.0), (1.0, 1.0)]
    (path,) = of_class(parsed(square_chart("x", [Line(name="a", points=stairs)])), "curve-line")
    assert path.attrib["d"].count("L") == 2
    spike = [(0.5, 0.0), (0.5, 1.0), (0.5, 0.5)]
    (path,) = of_class(parsed(square_chart("x", [Line(name="a", points=spike)])), "curve-line")
    assert path.attrib["d"].count("L") == 2, "the way up and back down is no straight line"


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_any_curve_can_be_drawn(points: list[tuple[float, float]]) -> None:
    chart = square_chart("x", [Line(name="a", points=points)] * (MAX_NAMED + 2))
    assert "nan" not in chart and "inf" not in chart
    assert len(of_class(parsed(chart), "curve-line")) == MAX_NAMED


def test_points_that_rest_on_more_samples_are_larger() -> None:
    line = Line(name="a", points=[(0.1, 0.2), (0.5, 0.5), (0.9, 0.8)], counts=[0.0, 25.0, 100.0])
    chart = parsed(square_chart("reliability", [line]))
    assert [float(dot.attrib["r"]) for dot in of_class(chart, "dot")] == [1.5, 4.5, 7.5]
    assert "a: 0.5000 at 0.5000, on 25 samples" in [one.text for one in chart.iter("title")]
    plain = parsed(square_chart("x", [Line(name="a", points=line.points, counts=[1.0])]))
    assert {dot.get("r") for dot in of_class(plain, "dot")} == {"2.4"}, "counts of other points are nobody's"


def test_points_of_a_reliability_diagram_have_intervals() -> None:
    reliability = {"kind": "reliability", "x": [0.2, 0.8], "y": [0.0, 0.9], "counts": [10, 200]}
    found = evaluation("e", {"metrics": {}, "bootstrap": {"confidence": 0.95}}, {"calibration_error": reliability})
    (chart,) = rate_charts(found)
    titles = [one.text for one in parsed(chart).iter("title")]
    # Wilson's intervals of 0 of 10 and of 180 of 200.
    assert any("(0 to 0.2775) at 0.2000, on 10 samples" in str(title) for title in titles)
    assert any("(0.8506 to 0.9343) at 0.8000, on 200 samples" in str(title) for title in titles)
    assert len(of_class(parsed(chart), "between")) == 2


def test_a_mark_and_its_interval_stand_upright() -> None:
    chart = square_chart("cost", [Line(name="cost", points=curve(1))], mark=(0.5, "chosen: 0.5"), band=(0.4, 2.0))
    picture = parsed(chart)
    (mark,), (band,) = of_class(picture, "reference"), of_class(picture, "interval-band")
    assert mark.get("x1") == mark.get("x2") and "chosen: 0.5" in str(picture.findtext("svg/title"))
    left, width = float(band.attrib["x"]), float(band.attrib["width"])
    assert left < float(mark.attrib["x1"]) < left + width <= 346.01
