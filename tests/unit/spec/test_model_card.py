"""The fields of a model card: what the service's schema has passes, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.base.errors import SpecError
from drivetrain.registry.model_card import model_card
from drivetrain.spec.model_card import check_card


def test_a_card_of_every_section_passes() -> None:
    job = {
        "training_arn": "arn",
        "training_datasets": ["s3://b/train"],
        "training_environment": {"container_image": ["image"]},
        "user_provided_training_metrics": [{"name": "loss", "value": 0.5, "notes": "at the end"}],
        "hyper_parameters": [{"name": "epochs", "value": "3"}],
    }
    objective = {"function": {"function": "Minimize", "facet": "Loss", "condition": "none"}, "notes": "cross entropy"}
    metric = {"name": "roc", "type": "linear_graph", "value": [[0, 1]], "x_axis_name": "fpr", "y_axis_name": "tpr"}
    check_card(
        {
            "model_overview": {"model_creator": "ada", "model_artifact": ["s3://b/m.tar.gz"]},
            "intended_uses": {"purpose_of_model": "mail", "risk_rating": "Low"},
            "business_details": {"line_of_business": "post"},
            "training_details": {"objective_function": objective, "training_job_details": job},
            "evaluation_details": [
                {"name": "own", "metadata": {"my": "name"}, "metric_groups": [{"name": "g", "metric_data": [metric]}]}
            ],
            "additional_information": {"custom_details": {"anything": "that we say"}},
        }
    )
    check_card({})


def test_the_card_of_a_registration_passes() -> None:
    made = model_card(
        artifact="s3://b/m.tar.gz",
        model={"recipe": "digits_cnn", "step": 5, "training": {"epochs": 3}, "data": {"rows": 9}},
        evaluation={
            "num_samples": 9,
            "data": {"rows": 9},
            "metrics": {"loss": {"low": 0.1, "high": 0.2, "bound": 0.1}},
        },
        decision={"verdict": "register", "why": ["better"]},
        numbers={"loss": 0.5},
    )
    assert set(made) == {"model_overview", "training_details", "evaluation_details", "additional_information"}
    check_card(made)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (
            {"bussiness_details": {}},
            "A model card has no section 'bussiness_details'. Did you mean 'business_details'?",
        ),
        (
            {"business_details": {"business_problm": "x"}},
            "card['business_details'] of the model card has no field 'business_problm'. Did you mean "
            "'business_problem'? Allowed: business_problem, business_stakeholders, line_of_business.",
        ),
        (
            {"training_details": {"training_job_details": {"training_arm": "x"}}},
            "card['training_details']['training_job_details'] of the model card has no field 'training_arm'. Did you "
            "mean 'training_arn'?",
        ),
        (
            {"training_details": {"objective_function": {"function": {"facets": "x"}}}},
            "card['training_details']['objective_function']['function'] of the model card has no field 'facets'. Did",
        ),
        (
            {"evaluation_details": [{"name": "a"}, {"nmae": "b"}]},
            "card['evaluation_details'][1] of the model card has no field 'nmae'. Did you mean 'name'?",
        ),
        (
            {"evaluation_details": [{"name": "a", "metric_groups": [{"metric_data": [{"values": 1}]}]}]},
            "card['evaluation_details'][0]['metric_groups'][0]['metric_data'][0] of the model card has no field "
            "'values'. Did you mean 'value'?",
        ),
        (
            {"evaluation_details": {"name": "a"}},
            "card['evaluation_details'] of the model card is {'name': 'a'}. Give a",
        ),
        (
            {"evaluation_details": "accuracy 0.9"},
            "card['evaluation_details'] of the model card is 'accuracy 0.9'. Give",
        ),
        ({"model_overview": None}, "card['model_overview'] of the model card is None. Give an object with model_"),
        (
            {"business_details": {1: "x"}},
            "card['business_details'] of the model card has no field 1. Allowed: business",
        ),
    ],
)
def test_unknown_card_fields_are_refused_with_their_place(card: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_card(card)
    assert str(caught.value).startswith(said)
