from typing import Any

import pytest

from drivetrain.registry import model_package
from drivetrain.registry.model_card import as_package_card, model_card, with_metrics


@pytest.mark.parametrize(
    ("package", "uri"),
    [
        ({"InferenceSpecification": {"Containers": [{}, {"ModelDataUrl": "s3://b/m.tar.gz"}]}}, "s3://b/m.tar.gz"),
        (
            {
                "InferenceSpecification": {
                    "Containers": [{"ModelDataSource": {"S3DataSource": {"S3Uri": "s3://b/model/"}}}]
                },
                "SourceUri": "s3://elsewhere",
            },
            "s3://b/model/",
        ),
        ({"SourceUri": "file:///models/1"}, "file:///models/1"),
        ({}, ""),
        ({"InferenceSpecification": None, "SourceUri": 3}, ""),
        ({"InferenceSpecification": {"Containers": "x"}}, ""),
    ],
)
def test_where_the_model_lies(package: dict[str, Any], uri: str) -> None:
    assert model_package.artifact(package) == uri


def test_lineage_is_what_properties_and_metadata_say() -> None:
    package = {
        "CustomerMetadataProperties": {"drivetrain-lineage-data": "d", "owner": "ada"},
        "MetadataProperties": {"GeneratedBy": "arn:1"},
    }
    assert model_package.lineage(package) == {"data": "d", "execution": "arn:1"}
    assert model_package.lineage({}) == {} and model_package.decision({}) is None and model_package.card({}) is None


@pytest.mark.parametrize("length", [0, 900, 1000, 1001, 12_345])
def test_a_decision_of_any_length_comes_back_from_the_card(length: int) -> None:
    decision = {"verdict": "register", "why": ["é" * length]}
    package = {"ModelCard": as_package_card(model_card(decision=decision))}
    assert model_package.decision(package) == decision


def test_a_card_that_is_damaged_is_none() -> None:
    package = {
        "ModelCard": {"ModelCardContent": "{"},
        "CustomerMetadataProperties": {"drivetrain-decision-verdict": "x"},
    }
    assert model_package.card(package) is None and model_package.decision(package) == {"verdict": "x"}
    assert model_package.metrics(package) == {}


def test_metrics_are_added_to_a_card_once_and_its_own_are_left() -> None:
    theirs = {"name": "by hand", "metric_groups": [{"name": "mine", "metric_data": [{"name": "x", "value": 1}]}]}
    card = with_metrics({"evaluation_details": [theirs]}, {"accuracy": 0.5})
    package = {"ModelCard": as_package_card(card)}
    assert model_package.metrics(package) == {"accuracy": 0.5} and card["evaluation_details"][0] == theirs
    assert with_metrics(card, {"accuracy": 0.5}) == card
