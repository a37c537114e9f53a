"""The checkpoints that a run saved."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count, moment, size
from drivetrain.base.markup import Markup, el
from drivetrain.telling import place_code, scrolled, section, table
from drivetrain.telling.content import CheckpointFacts


def draw(checkpoints: Sequence[CheckpointFacts], execution: str) -> Markup:
    """A row a checkpoint, and the command that looks into one."""
    rows = [
        (
            one.step,
            f"{one.training_step:,}",
            moment(one.saved),
            size(one.bytes),
            place_code(one.uri),
            "" if one.whole else "incomplete",
        )
        for one in checkpoints
    ]
    made = table(("Step", "Training step", "Saved", "Size", "Place", ""), rows)
    scroll = scrolled(made, label="Checkpoints")
    command = el("p", "Look into one: ", el("code", f"drivetrain checkpoints show {execution}"))
    folded = el("details", el("summary", count(len(rows), "checkpoint")), scroll, command)
    return section("Checkpoints", folded, id="checkpoints")
