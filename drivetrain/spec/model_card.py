"""The fields of a model card: those of the model card schema of SageMaker's model packages
(https://docs.aws.amazon.com/sagemaker/latest/dg/model-registry-details.html#model-card-schema).

The service refuses a card with other fields, and it does so when the step runs, hours after it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from drivetrain.base.errors import SpecError, did_you_mean

# Of a field, what it holds: an object of such fields; a list of such objects, in brackets; None for a value, a list of
# values, or an object with names of the author's own.
_TRAINING_METRIC: dict[str, Any] = dict.fromkeys(("name", "notes", "value"))
_HYPER_PARAMETER: dict[str, Any] = dict.fromkeys(("name", "value"))
_METRIC: dict[str, Any] = dict.fromkeys(("name", "notes", "type", "value", "x_axis_name", "y_axis_name"))
_CARD: dict[str, Any] = {
    "model_overview": dict.fromkeys(("model_creator", "model_artifact")),
    "intended_uses": dict.fromkeys(
        (
            "purpose_of_model",
            "intended_uses",
            "factors_affecting_model_efficiency",
            "risk_rating",
            "explanations_for_risk_rating",
        )
    ),
    "business_details": dict.fromkeys(("business_problem", "business_stakeholders", "line_of_business")),
    "training_details": {
        "objective_function": {"function": dict.fromkeys(("function", "facet", "condition")), "notes": None},
        "training_observations": None,
        "training_job_details": {
            "training_arn": None,
            "training_datasets": None,
            "training_environment": {"container_image": None},
            "training_metrics": [_TRAINING_METRIC],
            "user_provided_training_metrics": [_TRAINING_METRIC],
            "hyper_parameters": [_HYPER_PARAMETER],
            "user_provided_hyper_parameters": [_HYPER_PARAMETER],
        },
    },
    "evaluation_details": [
        {
            "name": None,
            "evaluation_observation": None,
            "evaluation_job_arn": None,
            "datasets": None,
            "metadata": None,
            "metric_groups": [{"name": None, "metric_data": [_METRIC]}],
        }
    ],
    "additional_information": dict.fromkeys(
        ("ethical_considerations", "caveats_and_recommendations", "custom_details")
    ),
}


def check_card(card: Mapping[str, Any]) -> None:
    """
    Raises:
        SpecError: a section or field that a card does not have, however deep, with the closest match; a value, a list
            or an object in the place of another.
    """
    for section in card:
        if section not in _CARD:
            raise SpecError(f"A model card has no section {section!r}. {did_you_mean(str(section), _CARD)}")
    _check("card", card, _CARD)


def _check(place: str, given: Any, known: Any) -> None:
    if isinstance(known, list):
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise SpecError(f"{place} of the model card is {given!r:.60}. Give a list of objects.")
        for number, entry in enumerate(cast("Sequence[Any]", given)):
            _check(f"{place}[{number}]", entry, known[0])
    elif isinstance(known, dict):
        fields = cast("dict[str, Any]", known)
        if not isinstance(given, Mapping):
            raise SpecError(f"{place} of the model card is {given!r:.60}. Give an object with {', '.join(fields)}.")
        for name, value in cast("Mapping[Any, Any]", given).items():
            if name not in fields:
                raise SpecError(f"{place} of the model card has no field {name!r}. {did_you_mean(str(name), fields)}")
            _check(f"{place}[{name!r}]", value, fields[name])
