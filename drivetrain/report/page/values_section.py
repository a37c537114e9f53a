"""What a run was given: what has changed since the run before first, all the rest folded; and how to go on from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.formatting import count
from drivetrain.base.markup import Content, Markup, el
from drivetrain.report.content.facts import RunFacts
from drivetrain.report.content.given import shown_value
from drivetrain.report.document import section
from drivetrain.report.page.steps_section import short_value

# So few values need no folding.
FEW = 8


def parameters_section(run: RunFacts) -> Markup | None:
    """The parameters of the pipeline and the settings of its steps; None where there are none."""
    tables = [_value_table("Of the pipeline", run.parameters)] if run.parameters else []
    own = [(step, _value_table(f"Of {step.title}", step.settings)) for step in run.steps if step.settings]
    tables += [table for step, table in own if step.parent is None]
    inner = [table for step, table in own if step.parent is not None]
    if not tables and not inner:
        return None
    total = len(run.parameters) + sum(len(step.settings) for step in run.steps if step.parent is None)
    every: Content = el("div", tables, class_="values")
    if total > FEW:
        every = el("details", el("summary", f"All {count(total, 'value')}"), every)
    iterations = el("details", el("summary", "Of the steps of iterations"), el("div", inner, class_="values"))
    return section("Parameters", _changed(run), every, iterations if inner else None, id="parameters")


def commands_section(run: RunFacts) -> Markup | None:
    """How to go on from here."""
    if not run.commands:
        return None
    rows = [(el("dt", words), el("dd", el("code", command))) for words, command in run.commands]
    return section("Commands", el("dl", rows, class_="facts"), id="commands")


def _changed(run: RunFacts) -> Content:
    if run.changed is None:
        return None
    before = el("code", run.changed.since)
    if not run.changed.values:
        return el("p", "The same values as in the run before, ", before, ".")
    rows = [
        el("tr", el("th", name, scope="row"), [el("td", el("code", short_value(shown_value(each)))) for each in values])
        for name, values in run.changed.values.items()
    ]
    head = el("tr", [el("th", name, scope="col") for name in ("Value", "Before", "Now")])
    table = el("table", el("caption", "Changed since the run before, ", before), el("thead", head), el("tbody", rows))
    return el("div", table, class_="scroll", tabindex=0, role="region", aria_label="Changed values")


def _value_table(caption: str, values: Mapping[str, Any]) -> Markup:
    rows = [
        el("tr", el("th", name, scope="row"), el("td", el("code", short_value(value)), class_="right"))
        for name, value in values.items()
    ]
    return el("table", el("caption", caption), el("tbody", rows))
