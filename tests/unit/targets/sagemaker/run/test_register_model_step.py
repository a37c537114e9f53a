import io
import json
import tarfile
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.package_mapping import request_of
from drivetrain.registry.registry import ModelVersion
from tests.fixtures.local_runs import BUCKET, LocalRuns
from tests.fixtures.reports import hashed

DESCRIPTION = {"format": 1, "recipe": "digits_cnn", "training": {"epochs": 3}, "data": {"content_hash": "d" * 64}}
DECISION = {"format": 1, "verdict": "register", "why": ["better"], "metric": "accuracy"}


def evaluation(**more: Any) -> str:
    metrics = {"accuracy": {"value": 0.98, "low": 0.96, "high": 0.99}}
    data = {"content_hash": "e" * 64}
    return json.dumps(hashed({"num_samples": 360, "data": data, "metrics": metrics, **more}))


def model(runs: LocalRuns, weights: bytes = b"weights") -> str:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in (("model.json", json.dumps(DESCRIPTION).encode()), ("code/inference.py", weights)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return runs.put("run/model.tar.gz", packed.getvalue())


def register(uri: str, **arguments: Any) -> dict[str, Any]:
    container = {"Image": "i", "ModelDataUrl": uri}
    given = {"ModelPackageGroupName": "digits", "InferenceSpecification": {"Containers": [container]}, **arguments}
    return {"Name": "register", "Type": "RegisterModel", "Arguments": given}


def quality(uri: str) -> dict[str, Any]:
    return {"ModelQuality": {"Statistics": {"ContentType": "application/json", "S3Uri": uri}}}


def registered(runs: LocalRuns, **arguments: Any) -> ModelVersion:
    summary = runs.start([register(model(runs), **arguments)])
    assert summary.status == "Succeeded", summary.reason
    return LocalRegistry(runs.home.ledger).version("digits")


def test_facts_of_the_definition_and_the_files_are_registered(runs: LocalRuns) -> None:
    report = runs.put(
        "run/report/model_quality.json", '{"multiclass_classification_metrics": {"accuracy": {"value": 1}}}'
    )
    runs.put("run/report/evaluation.json", evaluation())
    record = runs.put("run/decision/decision.json", json.dumps(DECISION))
    version = registered(
        runs,
        ModelMetrics=quality(report),
        CustomerMetadataProperties={
            "drivetrain-decision-uri": record,
            "drivetrain-lineage-code": "c" * 64,
            "team": "a",
        },
        ModelCard={"ModelCardContent": json.dumps({"intended_uses": {"purpose_of_model": "digits"}})},
    )
    assert version.metrics == {"accuracy": 0.98, "num_samples": 360} and version.decision == DECISION
    assert version.card is not None and version.card["intended_uses"] == {"purpose_of_model": "digits"}
    assert version.card["training_details"]["training_observations"].startswith(
        "Trained by drivetrain: recipe digits_cnn"
    )
    # What the definition says counts, and the files add the rest.
    assert version.lineage["code"] == "c" * 64 and version.lineage["data"] == "d" * 64
    assert version.lineage["test-data"] == "e" * 64 and len(version.lineage["config"]) == 64
    properties = request_of(version.record)["CustomerMetadataProperties"]
    assert properties["drivetrain-content-hash"] == version.content_hash and properties["team"] == "a"
    assert version.artifact == f"{BUCKET}/run/model.tar.gz"


def test_numbers_of_a_report_that_is_not_ours_are_kept_by_their_paths(runs: LocalRuns) -> None:
    report = runs.put("run/evaluation.json", '{"regression_metrics": {"mse": {"value": 4.5}}}')
    assert registered(runs, ModelMetrics=quality(report)).metrics == {"regression_metrics.mse.value": 4.5}
    flat = runs.put("run/metrics/metrics.json", '{"accuracy": 0.5}')
    runs.start([register(model(runs, b"other"), ModelMetrics=quality(flat))])
    assert LocalRegistry(runs.home.ledger).version("digits", 2).metrics == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("files", "properties", "said"),
    [
        ({}, {"drivetrain-content-hash": "0" * 64}, "its drivetrain-content-hash is 000000000000…, but the files"),
        ({}, {"drivetrain-decision-uri": f"{BUCKET}/run/none.json"}, "drivetrain-decision-uri"),
        ({"run/d.json": "{}"}, {"drivetrain-decision-uri": f"{BUCKET}/run/d.json"}, "holds no decision of format 1"),
        (
            {"run/d.json": json.dumps({**DECISION, "candidate": {"content_hash": "1" * 64}})},
            {"drivetrain-decision-uri": f"{BUCKET}/run/d.json"},
            "decision.json belongs to another model",
        ),
        (
            {"run/evaluation.json": evaluation(model={"content_hash": "1" * 64})},
            {},
            "evaluation.json belongs to another model",
        ),
        ({"run/evaluation.json": "{"}, {}, "is not a JSON file"),
    ],
)
def test_evidence_of_another_model_fails_the_step_and_registers_nothing(
    runs: LocalRuns, files: dict[str, str], properties: dict[str, str], said: str
) -> None:
    runs.put("run/model_quality.json", "{}")
    for key, content in files.items():
        runs.put(key, content)
    arguments: dict[str, Any] = {"ModelMetrics": quality(f"{BUCKET}/run/model_quality.json")}
    if properties:
        arguments["CustomerMetadataProperties"] = properties
    try:
        summary = runs.start([register(model(runs), **arguments)])
    except UserError as error:
        reason = str(error)
    else:
        assert summary.status == "Failed"
        reason = str(summary.reason)
    assert said in reason and "register" in reason
    assert LocalRegistry(runs.home.ledger).groups() == []
