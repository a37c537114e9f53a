"""The page's section on a binary model's threshold: cost, precision and recall over it, and what costs would move."""

from __future__ import annotations

import json

from drivetrain.base.formatting import number
from drivetrain.base.markup import Markup, el
from drivetrain.telling import Row, scrolled, table
from drivetrain.telling.charts.square_chart import Line, square_chart
from drivetrain.telling.content.evaluation import EvaluationFacts, interval_words
from drivetrain.telling.content.plotted import Outcome, ThresholdFacts

STEPS = 40
"""A slider has so many steps to each side: from a hundredth of the cost to its hundredfold."""


def threshold_part(found: EvaluationFacts) -> Markup | None:
    """None where no threshold was chosen."""
    facts = found.threshold
    if facts is None:
        return None
    return el(
        "div",
        el("h3", "Threshold"),
        el("p", _sentence(found, facts)),
        _sliders(found, facts) if facts.corners else None,
        el("div", _charts(found, facts), class_="charts") if len(facts.points) > 1 else None,
        _table(facts),
        class_="below",
    )


def _sentence(found: EvaluationFacts, facts: ThresholdFacts) -> str:
    chosen, half, measure = facts.chosen, facts.at_half, found.measures.get("threshold")
    between = interval_words(measure) if measure is not None and measure.interval else ""
    said = (
        f"Where a false positive costs {chosen.false_positive_cost:g} and a false negative "
        f"{chosen.false_negative_cost:g}, the cheapest threshold is {number(chosen.threshold)}"
        f"{f' ({between})' if between else ''}: {number(chosen.cost)} a sample"
    )
    said += f", and {number(half.cost)} at 0.5." if half is not None else "."
    return f"{said} It is chosen on these samples; on others it costs a little more."


def _sliders(found: EvaluationFacts, facts: ThresholdFacts) -> Markup:
    """Two sliders of costs, which threshold.js reads; without scripts they are not shown, and the table has some."""
    chosen = facts.chosen
    outcomes = [chosen, *facts.other_costs]
    candidates = {*facts.corners, *((o.threshold, o.true_positives, o.false_positives) for o in outcomes)}
    zero, one = (name if (name := found.class_name(each)) != each else f"class {each}" for each in "01")
    costs = (
        ("false positive", chosen.false_positive_cost, f"{zero} taken for {one}"),
        ("false negative", chosen.false_negative_cost, f"{one} taken for {zero}"),
    )
    rows = [
        el(
            "div",
            el("span", f"A {name} costs ", el("output", f"{cost:g}")),
            el("input", type="range", min=-STEPS, max=STEPS, value=0, data_cost=cost, aria_valuetext=f"{cost:g}",
               aria_label=f"cost of a {name}, {what}"),
            el("small", what),
        )
        for name, cost, what in costs
    ]  # fmt: skip
    return el(
        "fieldset",
        el("legend", "Try other costs"),
        rows,
        el("p", _found(chosen), class_="found", role="status"),
        class_="costs",
        data_candidates=json.dumps(sorted(candidates)),
        data_positives=chosen.true_positives + chosen.false_negatives,
        data_negatives=chosen.false_positives + chosen.true_negatives,
        data_steps=STEPS,
    )


def _found(one: Outcome) -> str:
    """As threshold.js words it."""
    positives, taken = one.true_positives + one.false_negatives, one.true_positives + one.false_positives
    return (
        f"Cheapest threshold {_digits(one.threshold)}: cost a sample {_digits(one.cost)}, "
        f"precision {_digits(one.true_positives / taken if taken else 0.0)}, "
        f"recall {_digits(one.true_positives / positives if positives else 0.0)}; "
        f"{one.false_positives:,} false positives, {one.false_negatives:,} false negatives."
    )


def _digits(value: float) -> str:
    """Four significant digits, as `Number(value.toPrecision(4))` prints them."""
    return f"{value:.4g}"


def _charts(found: EvaluationFacts, facts: ThresholdFacts) -> list[Markup]:
    chosen, measure = facts.chosen, found.measures.get("threshold")
    mark = (chosen.threshold, f"chosen: {number(chosen.threshold)}")
    band = measure.interval if measure is not None else None
    cost = Line(name="cost", points=[(x, y) for x, y, _, _ in facts.points], note=f"{number(chosen.cost)} at best")
    rates = [
        Line(name="precision", points=[(x, y) for x, _, y, _ in facts.points]),
        Line(name="recall", points=[(x, y) for x, _, _, y in facts.points]),
    ]
    return [
        square_chart("cost over the threshold", [cost], x_label="threshold", y_label="cost a sample", mark=mark,
                     band=band),
        square_chart("precision and recall over the threshold", rates, x_label="threshold", y_label="share", mark=mark,
                     band=band),
    ]  # fmt: skip


def _table(facts: ThresholdFacts) -> Markup:
    rows = [("chosen", facts.chosen), *([("0.5", facts.at_half)] if facts.at_half else [])]
    rows += [("", one) for one in facts.other_costs]
    names = ("cost of a false positive : negative", "threshold", "true positives", "false positives", "true negatives",
             "false negatives", "cost a sample")  # fmt: skip
    caption = "Samples by threshold, and what would be chosen at other costs"
    made = table(names, [_row(name, one) for name, one in rows], right=names[1:], caption=caption)
    return scrolled(made, kind="metrics", label="Thresholds")


def _row(name: str, one: Outcome) -> Row:
    costs = f"{one.false_positive_cost:g} : {one.false_negative_cost:g}"
    counts = (one.true_positives, one.false_positives, one.true_negatives, one.false_negatives)
    cells = [number(one.threshold), *(f"{each:,}" for each in counts), number(one.cost)]
    note = el("small", {"chosen": " chosen", "0.5": " at 0.5"}.get(name, "")) if name else None
    return Row([[costs, note], *cells], "deciding" if name == "chosen" else None)
