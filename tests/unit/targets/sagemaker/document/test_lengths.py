"""A value of a parameter that fits the start, and not the argument that it becomes."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.targets.sagemaker.document.lengths import too_long

NOTE = {"Get": "Parameters.Note"}
Json = dict[str, Any]


def joined(*values: Any, on: str = "") -> Json:
    return {"Std:Join": {"On": on, "Values": list(values)}}


def arguments(*given: Any) -> Json:
    return {"AppSpecification": {"ImageUri": "image", "ContainerArguments": ["--note", *given]}}


@pytest.mark.parametrize(
    ("step", "given", "most"),
    [
        ("Processing", arguments(NOTE), 256),
        ("Processing", {"Environment": {"NOTE": NOTE}}, 256),
        ("Training", {"Environment": {"NOTE": NOTE}}, 512),
        ("Training", {"AlgorithmSpecification": {"ContainerArguments": [NOTE]}}, 256),
        ("Tuning", {"TrainingJobDefinition": {"OutputDataConfig": {"KmsKeyId": NOTE}}}, 2_048),
    ],
)
def test_each_place_has_its_own_limit(step: str, given: Json, most: int) -> None:
    assert list(too_long(step, given, {"Note": "x" * most})) == []
    (problem,) = too_long(step, given, {"Note": "x" * (most + 1)})
    assert f"gets {most + 1:,} characters by 'Note'; at most {most:,} can be passed" in problem


def test_the_place_and_what_to_do_are_said() -> None:
    (problem,) = too_long("Processing", arguments(NOTE), {"Note": "x" * 300})
    assert problem.startswith("Arguments.AppSpecification.ContainerArguments[1] gets 300 characters")
    assert "put the text in a file" in problem


def test_only_known_parts_of_a_join_count() -> None:
    run = {"Get": "Execution.PipelineExecutionId"}
    model = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
    numbers = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.e.PropertyFiles.m"}, "Path": "a"}}
    given = arguments(joined("rows-", NOTE, 12, joined(NOTE, True), run, model, numbers, on="/"))
    fixed = len("rows-") + len("12") + len("true") + 6
    assert list(too_long("Processing", given, {"Note": "x" * ((256 - fixed) // 2)})) == []
    (problem,) = too_long("Processing", given, {"Note": "x" * ((256 - fixed) // 2 + 1)})
    assert f"gets {fixed + 2 * ((256 - fixed) // 2 + 1)} characters" in problem


def test_lengths_independent_of_parameters_are_not_reported_here() -> None:
    assert list(too_long("Processing", arguments("x" * 300, joined("x" * 300)), {"Note": "x"})) == []
    assert list(too_long("Processing", arguments(NOTE), {})) == []
    assert list(too_long("Processing", arguments({"Get": "Parameters.Rows"}), {"Rows": 7})) == []
    assert list(too_long("Quantum2031", arguments(NOTE), {"Note": "x" * 300})) == []


def test_a_join_by_something_else_than_a_text_is_measured_all_the_same() -> None:
    foreign = {"Std:Join": {"On": 1.5, "Values": [NOTE, NOTE]}}
    assert len(list(too_long("Processing", arguments(foreign), {"Note": "x" * 300}))) == 1
