"""What CreateTransformJob says, as far as it is known."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.targets.sagemaker.run.batch_transform.settings import Settings, problems


def arguments(**more: Any) -> dict[str, Any]:
    source = {"DataSource": {"S3DataSource": {"S3Uri": "s3://b/k"}}, "ContentType": "text/csv", "SplitType": "Line"}
    into = {"S3OutputPath": "s3://b/out", "Accept": "text/csv", "AssembleWith": "Line"}
    return {"TransformInput": source, "TransformOutput": into, **more}


def test_defaults_are_the_services() -> None:
    found = Settings.of({"TransformInput": {}, "TransformOutput": {}})
    assert (found.split_type, found.assemble_with, found.strategy, found.payload_mb) == ("None", "None", None, None)
    assert (found.timeout_s, found.retries, found.processing.shapes_output) == (600.0, 3, False)
    given = Settings.of(arguments(ModelClientConfig={"InvocationsMaxRetries": 0, "InvocationsTimeoutInSeconds": 9}))
    assert (given.retries, given.timeout_s) == (0, 9.0)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"MaxPayloadInMB": 0, "MaxConcurrentTransforms": 4},
        {"MaxPayloadInMB": 25, "MaxConcurrentTransforms": 4},
        {"MaxPayloadInMB": {"Get": "Parameters.P"}, "BatchStrategy": {"Get": "Parameters.S"}},
        {"DataProcessing": {"InputFilter": {"Get": "Parameters.F"}, "JoinSource": "Input"}},
        {"DataProcessing": {"InputFilter": "$", "OutputFilter": "$", "JoinSource": "None"}},
    ],
)
def test_allowed_or_unknown_values_are_no_problem(more: dict[str, Any]) -> None:
    assert list(problems(arguments(**more))) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"BatchStrategy": "Some"}, "BatchStrategy is 'Some'. Allowed: MultiRecord, SingleRecord"),
        ({"MaxPayloadInMB": -1}, "MaxPayloadInMB is -1. Allowed: a whole number from 0"),
        ({"MaxPayloadInMB": "6"}, "MaxPayloadInMB is '6'"),
        ({"MaxPayloadInMB": 26, "MaxConcurrentTransforms": 4}, "MaxPayloadInMB 26 (times MaxConcurrentTransforms 4)"),
        ({"DataProcessing": {"JoinSource": "Both"}}, "JoinSource is 'Both'. Allowed: Input, None"),
        ({"DataProcessing": {"InputFilter": 3}}, "InputFilter is 3"),
    ],
)
def test_what_the_service_refuses_is_refused(more: dict[str, Any], said: str) -> None:
    [problem] = problems(arguments(**more))
    assert problem.startswith(said)


@pytest.mark.parametrize(("holder", "field"), [("TransformInput", "ContentType"), ("TransformOutput", "Accept")])
@pytest.mark.parametrize("more", [{}, {"DataProcessing": {"JoinSource": "Input"}}])
@pytest.mark.parametrize("value", [5, ["text/csv"], False])
def test_a_content_type_is_text(holder: str, field: str, more: dict[str, Any], value: object) -> None:
    given = arguments(**more)
    given[holder] = {**given[holder], field: value}
    [problem] = problems(given)
    assert problem == f"{field} is {value!r}. Allowed: a content type such as text/csv."
