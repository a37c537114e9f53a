"""The section of the page that lists the steps: each with its time on the run's, and why it did what it did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from drivetrain.base.formatting import count, duration, status_class, status_word
from drivetrain.base.markup import Content, Markup, el, escape
from drivetrain.report.content.facts import RunFacts, StepFacts
from drivetrain.report.content.reasons import in_a_line
from drivetrain.report.document import section

MAX_VALUE_CHARACTERS = 400
# Of a ForEach with more steps of iterations than this, the others are folded.
MAX_OPEN = 12
_WENT_WELL = ("Succeeded", "Cached")


def steps_section(run: RunFacts) -> Markup:
    """All steps. Of a ForEach with many iterations the table has what did not go well, or the first ones, and the rest
    is below it, folded."""
    inner: dict[str, list[StepFacts]] = {}
    for step in run.steps:
        if step.parent is not None:
            inner.setdefault(step.parent, []).append(step)
    folded = {loop: steps for loop, steps in inner.items() if len(steps) > MAX_OPEN}
    shown = {loop: _first(steps) for loop, steps in folded.items()}
    top = [step for step in run.steps if step.parent not in folded or step in shown[step.parent]]
    return section(
        "Steps",
        _table(run, top),
        [
            el("details", el("summary", _all(run, loop, steps)), _table(run, steps), class_="iterations")
            for loop, steps in folded.items()
        ],
        id="steps",
    )


def status_mark(status: str) -> Markup:
    """A status in its colour."""
    return el("span", status_word(status), class_=f"status {status_class(status)}")


def short_value(value: Any) -> Markup:
    """A value as text, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape(text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…")


def _first(steps: Sequence[StepFacts]) -> list[StepFacts]:
    """Those that a reader looks for: what did not go well, or is at work; else the first."""
    found = [step for step in steps if step.status not in (*_WENT_WELL, "Waiting", "NotExecuted")]
    return found[:MAX_OPEN] or list(steps[:3])


def _all(run: RunFacts, loop: str, steps: Sequence[StepFacts]) -> str:
    title = next((step.title for step in run.steps if step.name == loop), loop)
    well = sum(step.status in _WENT_WELL for step in steps)
    more = "" if well == len(steps) else f", {well} of them succeeded"
    return f"{title}: all {count(len(steps), 'step')} of its iterations{more}"


def _table(run: RunFacts, steps: Sequence[StepFacts]) -> Markup:
    start = run.started
    end = max([run.ended or run.written, *(step.ended or start for step in run.steps)])
    total = max(end - start, 1e-9)
    head = el("tr", [el("th", name, scope="col") for name in ("Step", "Status", "Time", "When", "Tries", "Why")])
    rows = [_step(step, start, total, run.written) for step in steps]
    table = el("table", el("thead", head), el("tbody", rows), class_="steps")
    return el("div", table, class_="scroll", tabindex=0)


def _step(step: StepFacts, start: float, total: float, now: float) -> Markup:
    timeline = None
    if step.started is not None and step.status not in ("Cached", "NotExecuted"):
        ended = step.ended if step.ended is not None else now
        left = min(max((step.started - start) / total * 100, 0.0), 99.0)
        # A step of a moment is still a mark.
        width = max(min((ended - step.started) / total * 100, 100 - left), 1.0)
        words_of_it = f"from {duration(step.started - start)} to {duration(ended - start)}"
        timeline = el(
            "span", el("i", style=f"left:{left:.2f}%;width:{width:.2f}%"), class_="timeline", role="img",
            aria_label=words_of_it, title=words_of_it,
        )  # fmt: skip
    notes: list[Content] = [step.value] if step.value else []
    if step.cache_of:
        notes.append(["taken from ", el("code", step.cache_of)])
    if step.status not in ("Failed", "Stopped"):  # beside a failure it would read as the cause
        notes += step.why
    # Of a failed step the top of the page tells it in full; of iterations it tells some, and the table goes by item.
    if step.reason and (step.status != "Failed" or step.parent is not None):
        notes.append(in_a_line(step.reason))
    below = step.type if step.title == step.name else f"{step.name} · {step.type}"
    of_an_iteration = step.parent is not None
    if of_an_iteration and step.item is not None:
        notes.insert(0, ["for ", el("code", short_value(step.item))])
    return el(
        "tr",
        el("th", el("b", step.title), el("small", below), scope="row", class_="inner" if of_an_iteration else None),
        el("td", status_mark(step.status)),
        el("td", duration(step.seconds) if step.status not in ("Cached", "NotExecuted", "Waiting") else "–"),
        el("td", timeline),
        el("td", step.attempts or "–"),
        el("td", [el("div", note) for note in notes]),
        class_=status_class(step.status),
    )
