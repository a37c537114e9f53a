"""The checkpoints that a run saved."""

from __future__ import annotations

from drivetrain.base.formatting import count, moment, size
from drivetrain.base.markup import Markup, el
from drivetrain.telling import place_code, section
from drivetrain.telling.content import RunFacts


def checkpoints_section(run: RunFacts) -> Markup | None:
    """A row a checkpoint, and the command that looks into one."""
    if not run.checkpoints:
        return None
    head = [el("th", name, scope="col") for name in ("Step", "Training step", "Saved", "Size", "Place", "")]
    rows = [
        el(
            "tr",
            el("th", one.step, scope="row"),
            el("td", f"{one.training_step:,}"),
            el("td", moment(one.saved)),
            el("td", size(one.bytes)),
            el("td", place_code(one.uri)),
            el("td", "" if one.whole else "incomplete"),
        )
        for one in run.checkpoints
    ]
    table = el("table", el("thead", el("tr", head)), el("tbody", rows))
    scroll = el("div", table, class_="scroll", tabindex=0, role="region", aria_label="Checkpoints")
    command = el("p", "Look into one: ", el("code", f"drivetrain checkpoints show {run.id}"))
    folded = el("details", el("summary", count(len(rows), "checkpoint")), scroll, command)
    return section("Checkpoints", folded, id="checkpoints")
