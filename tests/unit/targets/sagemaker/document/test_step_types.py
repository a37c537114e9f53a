"""One record a type of step: they are whole, and no other table of types stands beside them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from drivetrain.targets.sagemaker.document.service import service
from drivetrain.targets.sagemaker.document.step_types import (
    JOBS_OF_METADATA,
    STEP_TYPES,
    StepType,
    is_processing,
    job_of,
    step_type,
)
from drivetrain.targets.sagemaker.run import step_types as local

ROOT = Path(__file__).parents[5]
RECORDS = "drivetrain/targets/sagemaker/document/step_types.py"
# Tables that go by types of steps and are no facts of a type.
OTHERS = {
    "drivetrain/catalog/quotas.py": "limits of the service, which lie below the document",
    "drivetrain/schemas/definition.py": "the forms of the pipeline's own types, and what two types need",
    "drivetrain/targets/kubeflow/deploy/executions/steps.py": "words of the platform, and no types of the service",
    "drivetrain/targets/sagemaker/prices/table.py": "the kinds of the price list",
    "drivetrain/targets/sagemaker/document/retirements.py": "products of AWS that close",
    "drivetrain/targets/sagemaker/run/execution/execution.py": "what begins with our start file",
    "drivetrain/targets/sagemaker/run/execution/nothing_new.py": "what judges and publishes, and makes nothing of data",
    "drivetrain/targets/sagemaker/run/step_types/_absent.py": "what each type needs that does not run on this machine",
    "drivetrain/run_store/statuses.py": "members of the service's events, which spell the types anew",
}


def test_every_type_that_runs_here_has_a_record_and_the_other_way_round() -> None:
    ours = {name for name in local.known().values() if not name.startswith("Bedrock")}
    assert ours == STEP_TYPES.keys()


def test_requests_and_answers_are_those_of_the_service_model() -> None:
    requests, responses = service()["requests"], service()["responses"]
    assert {name for name, each in STEP_TYPES.items() if each.creates} == requests.keys() - {"Pipeline", "Execution"}
    for name, each in STEP_TYPES.items():
        assert len(each.describes) == len(responses.get(name, []))
        if each.creates is None:
            continue
        assert requests[name].startswith(each.creates)
        members = service()["shapes"][requests[name]]["members"]
        assert each.named_by in members
        assert set(each.key or ()) <= members.keys()
        assert each.is_structured
        if each.job is not None:
            assert each.creates == f"Create{each.job.api}"
            assert each.named_by == each.job.name_member


def test_fields_that_the_cache_compares_are_fields_of_the_step() -> None:
    for each in STEP_TYPES.values():
        assert set(each.key_fields) <= set(each.fields)


def test_jobs_are_described_by_the_calls_of_boto3() -> None:
    assert {name: job.describe for name, job in JOBS_OF_METADATA.items()} == {
        "ClarifyCheck": "describe_processing_job",
        "ProcessingJob": "describe_processing_job",
        "QualityCheck": "describe_processing_job",
        "TrainingJob": "describe_training_job",
        "TransformJob": "describe_transform_job",
    }
    assert [name for name in STEP_TYPES if is_processing(name)] == ["ClarifyCheck", "Processing", "QualityCheck"]
    assert job_of("Tuning") is not None


def test_a_type_that_is_not_known_has_a_record_with_nothing_in_it() -> None:
    assert step_type("New") == StepType("New")


@pytest.mark.slow
def test_no_table_of_types_stands_elsewhere() -> None:
    found: set[str] = set()
    for path in sorted((ROOT / "drivetrain").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name == RECORDS or any(parent.is_symlink() for parent in path.parents):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.Set) else []
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                parts = node.value.elts
            if sum(isinstance(part, ast.Constant) and part.value in STEP_TYPES for part in parts) >= 2:
                found.add(name)
    assert found == OTHERS.keys()
