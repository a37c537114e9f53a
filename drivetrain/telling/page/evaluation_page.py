"""The page of evaluations and decisions alone, for those who evaluated from a shell."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import moment_with_zone
from drivetrain.base.markup import el
from drivetrain.telling import document
from drivetrain.telling.content.decision import DecisionFacts
from drivetrain.telling.content.evaluation import EvaluationFacts
from drivetrain.telling.page import decision_section, evaluation_section


def evaluation_page(
    title: str, evaluations: Sequence[EvaluationFacts], decisions: Sequence[DecisionFacts], *, written: float
) -> str:
    """The whole page; `written` is seconds since the epoch."""
    return document(
        title,
        el(
            "header",
            el("div", el("h1", title), class_="headline"),
            [decision_section.verdict(one) for one in decisions],
        ),
        el("main", decision_section.draw(decisions), evaluation_section.draw(evaluations, decisions)),
        el("footer", f"Written by drivetrain at {moment_with_zone(written)}."),
        styles=("evaluation.css",),
        scripts=("threshold.js",) if any(one.has_sliders for one in evaluations) else (),
    )
