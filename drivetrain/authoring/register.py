"""The word for a new version of a model group.

register(model=model["model"], evaluation=scores, decision=compared, group="digits")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.authoring.binding import dependencies, output_of, refuse_other_kinds
from drivetrain.base.errors import SpecError
from drivetrain.registry import model_package
from drivetrain.spec.model_card import check_card
from drivetrain.spec.steps import BaseStep, Dependency, ProcessingStep, RegisterStep
from drivetrain.spec.values import as_value


def register(
    *,
    model: Any,
    group: Any,
    metrics: ProcessingStep | Any | None = None,
    evaluation: ProcessingStep | Any | None = None,
    decision: ProcessingStep | Any | None = None,
    data_check: ProcessingStep | Any | None = None,
    approval: Any = "PendingManualApproval",
    name: str = "register-model",
    image: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    intended_use: str = "",
    card: Mapping[str, Any] | None = None,
    against_decision: str = "",
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
) -> RegisterStep:
    """A new version of the model group.

    Args:
        model: the output that holds the model, or the step itself: its output `model`, else its only output.
        image: the container image that serves the model; without one that of the
            deployment (`serving_image`), or the stock inference image.
        metrics: the step whose numbers are kept with the version.
        evaluation: the evaluate step (or its report folder), whose report is kept with the version.
        decision: the compare step (or its decision folder). Of the step, the verdict and the hashes are kept too: of
            the content, by which a repeated execution finds the version, of data, settings and code.
        data_check: the check_data step (or its report folder), whose statistics and constraints the version names as
            baselines of later data.
        intended_use: what the model is for; it stands on the model card.
        card: more sections of the model card, in the service's schema: {"business_details": {"business_problem": ...}}.
        metadata: names and texts of your own, of at most 256 characters.
        against_decision: why versions are registered that the decision keeps out, or that were compared with another
            champion than that of the moment; it is kept with them.

    Raises:
        SpecError: a step without the output that is needed; a section or field that a model card does not have.
    """
    refuse_other_kinds(f"register(name={name!r})", metadata=(dict, metadata), card=(dict, card))
    if isinstance(model, BaseStep):
        model = output_of(model, "model", f"model of step {name!r}")
    if isinstance(metrics, BaseStep):
        metrics = metrics["metrics"]
    if isinstance(evaluation, BaseStep):
        evaluation = evaluation["report"]
    if isinstance(data_check, BaseStep):
        data_check = data_check["report"]
    known: dict[str, Any] = {}
    if isinstance(decision, BaseStep):
        known = _decided(decision)
        decision = decision["decision"]
    against = {model_package.AGAINST: against_decision} if against_decision else {}
    return RegisterStep(
        name=name,
        display_name=display_name,
        description=description,
        depends_on=dependencies(after),
        group=as_value(group),
        model=as_value(model),
        metrics=None if metrics is None else as_value(metrics),
        evaluation=None if evaluation is None else as_value(evaluation),
        decision=None if decision is None else as_value(decision),
        data_check=None if data_check is None else as_value(data_check),
        approval=as_value(approval),
        image=image,
        metadata={key: as_value(value) for key, value in {**known, **against, **(metadata or {})}.items()},
        card=_card(intended_use, card),
    )


def _decided(step: BaseStep) -> dict[str, Any]:
    """The results of compare about a version, under the names by which registries find them."""
    texts = step.texts if isinstance(step, ProcessingStep) else ()
    if not isinstance(step, ProcessingStep) or "content_hash" not in texts:
        raise SpecError(
            f"decision={step.name!r} is no step that compares: it returns no content_hash. Give step(compare, ...), or "
            "the folder of a decision."
        )
    kept = {
        model_package.CONTENT_HASH: "content_hash",
        f"{model_package.LINEAGE}data": "data_hash",
        f"{model_package.LINEAGE}test-data": "test_data_hash",
        f"{model_package.LINEAGE}config": "config_hash",
        f"{model_package.LINEAGE}code": "code_hash",
        f"{model_package.DECISION}verdict": "verdict",
        f"{model_package.DECISION}champion": "champion",
        f"{model_package.DECISION}report": "report_hash",
    }
    return {name: step.text(text) for name, text in kept.items() if text in texts}


def _card(intended_use: str, card: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if card is not None:
        check_card(card)
    if not intended_use:
        return None if card is None else dict(card)
    uses = {"intended_uses": intended_use, **(card or {}).get("intended_uses", {})}
    return {**(card or {}), "intended_uses": uses}
