"""The page of evaluations and decisions alone, for those who evaluated from a shell."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import moment_with_zone
from drivetrain.base.markup import Markup, el
from drivetrain.telling import document, section
from drivetrain.telling.content.decision import DecisionFacts
from drivetrain.telling.content.evaluation import EvaluationFacts
from drivetrain.telling.page.decision_section import decision_section, verdict
from drivetrain.telling.page.evaluation_section import evaluation_section

STYLE = "evaluation.css"


def evaluation_page(
    title: str, evaluations: Sequence[EvaluationFacts], decisions: Sequence[DecisionFacts], *, written: float
) -> str:
    """The whole page; `written` is seconds since the epoch."""
    return document(
        title,
        el("header", el("div", el("h1", title), class_="headline"), [verdict(one) for one in decisions]),
        el("main", decision_sections(decisions), evaluation_sections(evaluations, decisions)),
        el("footer", f"Written by drivetrain at {moment_with_zone(written)}."),
        styles=(STYLE,),
        scripts=("threshold.js",) if any(one.has_sliders for one in evaluations) else (),
    )


def decision_sections(decisions: Sequence[DecisionFacts]) -> list[Markup]:
    """A section a decision; what is wrong with a file is said by its verdict alone."""
    shown = [one for one in decisions if not one.problem]
    return [
        section(
            "Decision" if len(shown) == 1 else f"Decision of {one.step}",
            decision_section(one),
            id=f"decision-{place}",
        )
        for place, one in enumerate(shown, 1)
    ]


def evaluation_sections(evaluations: Sequence[EvaluationFacts], decisions: Sequence[DecisionFacts]) -> list[Markup]:
    """A section an evaluation; slices are compared by the metric that decided."""
    lead = next((one.metric for one in decisions if one.metric), "")
    return [
        section(
            "Evaluation" if len(evaluations) == 1 else f"Evaluation of {one.step}",
            evaluation_section(one, lead),
            id=f"evaluation-{place}",
        )
        for place, one in enumerate(evaluations, 1)
    ]
