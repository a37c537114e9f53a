"""A version's record, and CreateModelPackage's request: nothing is lost from one to the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.registry.model_card import as_package_card, model_card
from drivetrain.registry.package_mapping import record_of, request_of
from drivetrain.registry.record import ModelRecord, Serving

SERVING = Serving(
    image="image:1",
    environment={"SAGEMAKER_PROGRAM": "inference.py"},
    content_types=("text/csv",),
    response_types=("application/json",),
    instance_types=("ml.m5.large",),
)
RECORD = ModelRecord(
    artifact="s3://models/model.tar.gz",
    description="digits, trained by drivetrain",
    serving=SERVING,
    quality="s3://models/quality.json",
    baselines="s3://models/monitor",
    made_by="arn:1",
    lineage={"data": "d", "code": "c"},
    decision={"verdict": "register"},
    properties={"owner": "ada"},
    card=model_card(artifact="s3://models/model.tar.gz"),
    others={"Domain": "COMPUTER_VISION"},
)
BASELINES = {
    "Statistics": {"ContentType": "application/json", "S3Uri": "s3://models/monitor/statistics.json"},
    "Constraints": {"ContentType": "application/json", "S3Uri": "s3://models/monitor/constraints.json"},
}
CONTAINER = {"Image": "a", "ModelDataUrl": "s3://m/a.tar.gz"}


@pytest.mark.parametrize(
    "record",
    [
        ModelRecord(),
        RECORD,
        ModelRecord(artifact="file:///models/1"),
        ModelRecord(serving=Serving()),
        ModelRecord(artifact="s3://m/x", serving=Serving(content_types=("text/csv",))),
        ModelRecord(properties={"drivetrain-content-hash": "0" * 64}),
    ],
)
def test_a_record_comes_back_from_the_request(record: ModelRecord) -> None:
    assert record_of(request_of(record)) == record


def test_the_request_in_the_service_s_words() -> None:
    card = request_of(RECORD)["ModelCard"]
    assert request_of(RECORD) == {
        "ModelPackageDescription": "digits, trained by drivetrain",
        "MetadataProperties": {"GeneratedBy": "arn:1"},
        "InferenceSpecification": {
            "Containers": [
                {
                    "ModelDataUrl": "s3://models/model.tar.gz",
                    "Image": "image:1",
                    "Environment": {"SAGEMAKER_PROGRAM": "inference.py"},
                }
            ],
            "SupportedContentTypes": ["text/csv"],
            "SupportedResponseMIMETypes": ["application/json"],
            "SupportedRealtimeInferenceInstanceTypes": ["ml.m5.large"],
            "SupportedTransformInstanceTypes": ["ml.m5.large"],
        },
        "ModelMetrics": {
            "ModelQuality": {"Statistics": {"ContentType": "application/json", "S3Uri": "s3://models/quality.json"}},
            "ModelDataQuality": BASELINES,
        },
        "DriftCheckBaselines": {"ModelDataQuality": BASELINES},
        "CustomerMetadataProperties": {
            "owner": "ada",
            "drivetrain-lineage-data": "d",
            "drivetrain-lineage-code": "c",
            "drivetrain-decision-verdict": "register",
        },
        "ModelCard": card,
        "Domain": "COMPUTER_VISION",
    }


# What others write: several containers, sources, fields that we never write, and what is damaged.
FOREIGN: list[dict[str, Any]] = [
    {"InferenceSpecification": {"Containers": [CONTAINER, CONTAINER]}},
    {"InferenceSpecification": {"Containers": [{"ModelDataSource": {"S3DataSource": {"S3Uri": "s3://b/model/"}}}]}},
    {"InferenceSpecification": None, "SourceUri": 3},
    {"InferenceSpecification": {"Containers": "x"}},
    {"InferenceSpecification": {"Containers": [CONTAINER], "SupportedContentTypes": [1]}, "SourceUri": "s3://b/c"},
    {"SourceUri": "s3://b/c", "SkipModelValidation": "All", "DriftCheckBaselines": {"Bias": {}}},
    {"DriftCheckBaselines": {"ModelDataQuality": BASELINES}},
    {"ModelMetrics": {"ModelDataQuality": {"Statistics": BASELINES["Statistics"]}}},
    {"MetadataProperties": {"GeneratedBy": "arn:1", "CommitId": "abc"}, "ModelPackageDescription": None},
    {"ModelCard": {"ModelCardContent": "{", "ModelCardStatus": "Draft"}},
    {"ModelCard": {"ModelCardContent": '{"a":  1}', "ModelCardStatus": "Approved"}},
    {"CustomerMetadataProperties": {"drivetrain-lineage-data": "d", "owner": "ada", "n": 3}},
    {"ModelMetrics": {"ModelQuality": {"Statistics": {"ContentType": "text/plain", "S3Uri": "s3://q"}}, "Bias": {}}},
]


@pytest.mark.parametrize("request_", FOREIGN, ids=[str(each)[:40] for each in FOREIGN])
def test_a_foreign_request_round_trips(request_: dict[str, Any]) -> None:
    assert request_of(record_of(request_)) == request_


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_NAMES = [*request_of(RECORD), "SourceUri", "Tags"]


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(_NAMES), _JSON))
def test_any_request_round_trips(request_: dict[str, Any]) -> None:
    assert request_of(record_of({**request_of(RECORD), **request_})) == {**request_of(RECORD), **request_}


def test_group_and_approval_come_from_the_version() -> None:
    given = {"ModelPackageGroupName": "digits", "ModelApprovalStatus": "Approved", "SourceUri": "s3://b/c"}
    assert record_of(given) == ModelRecord(artifact="s3://b/c")


@pytest.mark.parametrize("length", [0, 900, 1000, 1001, 12_345])
def test_a_decision_of_any_length_round_trips_through_the_card(length: int) -> None:
    decision = {"verdict": "register", "why": ["é" * length]}
    record = record_of({"ModelCard": as_package_card(model_card(decision=decision))})
    assert record.whole_decision == decision


def test_without_a_card_the_decision_is_read_from_its_texts() -> None:
    damaged = {
        "ModelCard": {"ModelCardContent": "{"},
        "CustomerMetadataProperties": {"drivetrain-decision-verdict": "x"},
    }
    assert record_of(damaged).card is None and record_of(damaged).whole_decision == {"verdict": "x"}
    assert ModelRecord().whole_decision is None
