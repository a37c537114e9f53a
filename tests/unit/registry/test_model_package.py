from typing import Any

import pytest

from drivetrain.registry import model_package
from drivetrain.registry.model_card import as_package_card, with_metrics


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
def test_the_package_points_to_the_model(package: dict[str, Any], uri: str) -> None:
    assert model_package.artifact(package) == uri


def test_metrics_are_added_to_a_card_once_and_its_own_are_kept() -> None:
    theirs = {"name": "by hand", "metric_groups": [{"name": "mine", "metric_data": [{"name": "x", "value": 1}]}]}
    card = with_metrics({"evaluation_details": [theirs]}, {"accuracy": 0.5})
    package = {"ModelCard": as_package_card(card)}
    assert model_package.metrics(package) == {"accuracy": 0.5} and card["evaluation_details"][0] == theirs
    assert with_metrics(card, {"accuracy": 0.5}) == card
