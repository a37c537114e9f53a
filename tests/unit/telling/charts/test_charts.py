from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.telling.charts.charts import MAX_MARKS, Series, bar_chart, line_chart
from drivetrain.telling.charts.curves import class_charts, training_charts
from drivetrain.telling.charts.frame import tick_text, ticks
from drivetrain.telling.content import Curve, Measured
from drivetrain.telling.content.findings import overall, per_class
from drivetrain.telling.content.goodput import Attempt, JobTimes


def texts(markup: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(markup).iter("text")]


def texts_of(markup: str, name: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(markup).iter() if one.get("class") == name]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 8))
def test_ticks_are_evenly_apart_and_hold_the_range(low: float, extent: float, about: int) -> None:
    found = ticks(low, low + extent, about)
    rounding = 1e-6 * extent + 1e-9 * abs(low)
    assert found[0] <= low + rounding and found[-1] >= low + extent - rounding
    assert 2 <= len(found) <= 2 * about + 3
    steps = [b - a for a, b in pairwise(found)]
    assert max(steps) - min(steps) <= 1e-6 * max(abs(low), extent)


def test_ticks_read_as_people_write_them() -> None:
    assert [tick_text(tick, found) for found in [ticks(0.02, 2.31, 5)] for tick in found] == [
        *("0.0", "0.5", "1.0", "1.5", "2.0", "2.5")
    ]
    assert [tick_text(tick, found) for found in [ticks(0, 12_000, 4)] for tick in found][-1] == "15,000"


def test_years_have_no_commas_on_an_axis_nor_beside_a_point() -> None:
    years = [2024.0, 2025.0, 2026.0]
    assert [tick_text(year, years) for year in years] == ["2024", "2025", "2026"]
    picture = line_chart("price", [Series("price", tuple((year, 1.0) for year in years), 9)], x_label="year")
    assert "at 2026 year" in picture and "2,02" not in picture
    assert {"2024", "2025", "2026"} <= set(texts(picture)) and not any("." in text for text in texts(picture)[-4:])
    assert 'class="s9"' in picture and 'class="key s9"' in picture


def test_one_value_still_has_an_axis() -> None:
    chart = line_chart("loss", [Series("train", ((1.0, 0.5),))], x_label="epoch")
    assert "0.5" in "".join(texts(chart))


def test_points_say_their_value_and_axes_are_labelled() -> None:
    chart = line_chart("loss", [Series("train", ((1.0, 0.5), (2.0, 0.25)))], x_label="epoch")
    titles = [title.text for title in ElementTree.fromstring(chart).iter("title")]
    assert "train 0.2500 at 2.000 epoch" in titles
    assert "epoch" in texts(chart)


def test_nonfinite_values_are_reported() -> None:
    chart = line_chart("loss", [Series("train", ((1.0, 0.5), (2.0, math.nan), (3.0, math.inf)))], x_label="epoch")
    assert "2 values not finite" in texts(chart)
    assert "nan" not in chart and "inf" not in chart.replace("info", "")


def test_a_long_curve_is_thinned_and_keeps_its_spike() -> None:
    points = [(float(n), 1.0) for n in range(100_000)]
    points[54_321] = (54_321.0, 99.0)
    chart = line_chart("loss", [Series("train", tuple(points))], x_label="step")
    assert chart.count('class="dot"') <= MAX_MARKS
    assert "train 99.00 at 54,321 step" in chart


def test_bars_between_0_and_1_are_drawn_on_that_scale() -> None:
    chart = bar_chart("accuracy by class", [("0", 0.5), ("1", 1.0)])
    widths = [float(bar.attrib["width"]) for bar in ElementTree.fromstring(chart).iter("rect")
              if bar.attrib["class"] == "bar"]  # fmt: skip
    assert widths[0] == pytest.approx(widths[1] / 2)


def test_train_and_validation_share_a_chart_and_losses_come_first() -> None:
    points = ((1.0, 0.5), (2.0, 0.4))
    curves = [Curve(step="train", name=name, points=points)
              for name in ("samples_per_second", "validation_accuracy", "train_loss", "validation_loss")]  # fmt: skip
    charts = training_charts(curves)
    captions = [ElementTree.fromstring(chart).findtext("figcaption/b") for chart in charts]
    assert captions == ["loss", "accuracy", "samples per second"]
    assert charts[0].count('class="curve-line"') == 2


def test_interruptions_are_marked_over_steps_and_over_time() -> None:
    attempts = (
        Attempt(number=1, started=100.0, time=110.0, first_step=0, step=50),
        Attempt(number=2, started=113.0, time=130.0, first_step=40, step=90, restart_seconds=2.0),
    )
    curve = Curve(step="train", name="loss", points=((5.0, 0.5), (25.0, 0.4)), positions=(20.0, 90.0))
    # From 50 to 346 pixels are steps 20 to 90, and seconds 5 to 25.
    for over_time, place in ((False, "176.9"), (True, "124")):
        (chart,) = training_charts([curve], over_time=over_time, job_times=[JobTimes(step="train", attempts=attempts)])
        assert "interrupted at step 50: 7.00 s lost, 10 steps taken again" in chart
        assert "1 interruption, 7.00 s lost" in texts_of(chart, "legend")[-1]
        (cut,) = (line for line in ElementTree.fromstring(chart).iter("line") if line.get("class") == "cut")
        assert cut.get("x1") == cut.get("x2") == place
    (epochs,) = training_charts(
        [Curve(step="train", name="epoch", points=((1.0, 1.0), (2.0, 2.0))), replace(curve, positions=())],
        job_times=[JobTimes(step="train", attempts=attempts)],
    )
    assert "interrupt" not in epochs
    assert "interrupt" not in training_charts([curve], job_times=[JobTimes(step="other", attempts=attempts)])[0]


def test_metrics_are_drawn_over_epochs_if_logged() -> None:
    curves = [
        Curve(step="train", name="epoch", points=((1.0, 1.0), (2.0, 2.0))),
        Curve(step="train", name="loss", points=((1.0, 0.5), (2.5, 0.4))),
    ]
    (chart,) = training_charts(curves)
    assert "loss 0.4000 at 2.000 epoch" in chart


def test_numbers_of_classes_are_bars_in_their_natural_order() -> None:
    measured = Measured(
        step="evaluate",
        numbers={"accuracy": 0.9, "accuracy_class_10": 0.7, "accuracy_class_2": 0.8, "accuracy_class_cat": 0.6},
    )
    assert per_class(measured) == {"accuracy": [("2", 0.8), ("10", 0.7), ("cat", 0.6)]}
    assert overall(measured) == {"accuracy": 0.9}
    assert len(class_charts([measured])) == 1
