"""What is said of a definition shows no secret that stands in it."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.inspection import inspect, parameter_problems, warnings


def test_a_refused_value_is_quoted_unless_it_looks_like_a_secret() -> None:
    tags = [{"Key": "team", "Value": "vi$ion"}, {"Key": "password", "Value": 'canary"$'}]
    step = {"Name": "work", "Type": "Processing", "Arguments": {"Tags": tags, "Environment": {"API_TOKEN": ["canary"]}}}
    refused = [line for line in inspect(from_json({"Steps": [step]})).refused if "required" not in line.lower()]
    assert len(refused) == 3, refused
    hidden = "not of the right form; what looks like a secret is not shown."
    assert sum(line.endswith(hidden) for line in refused) == 2, refused
    assert any("Tags[0].Value" in line and "vi$ion" in line for line in refused)
    assert any(line.startswith("work: Arguments.Tags[1].Value: not of") for line in refused)
    assert not any("canary" in line for line in refused)


def test_the_warnings_of_a_run_are_one_a_kind_and_bounded() -> None:
    lacking = [{"Name": f"train{n}", "Type": "Training", "Arguments": {}} for n in range(5)]
    tags = [{"Key": "password", "Value": 'canary"$'}, *({"Key": "k", "Value": f"{n}$"} for n in range(20))]
    tagged = {"Name": "work", "Type": "Processing", "Arguments": {"Tags": tags}}
    said = warnings(from_json({"Steps": [tagged, *lacking]}, "file.json"))
    assert len(said) == 11 and said[-1] == "the service would refuse more: drivetrain check file.json"
    assert not any("canary" in line for line in said)
    said = warnings(from_json({"Steps": lacking}))
    assert all(line.startswith("the service would refuse train0, train1, train2 and 2 more: Argu") for line in said)
    assert any("'RoleArn' is missing. Required: " in line for line in said)
    assert warnings(from_json({"Steps": [{"Name": "new", "Type": "NobodyKnowsIt", "Arguments": {"a": 1}}]})) == []


def test_unknown_parts_are_named_without_fault() -> None:
    chosen = {"Std:If": {"Condition": {"Get": "Parameters.P"}, "Then": "ml.m5.large", "Else": {"Std:Omit": []}}}
    resources = {"InstanceType": chosen, "InstanceCount": {"Std:Omit": []}, "VolumeSizeInGB": 1}
    steps = [
        {"Name": "query", "Type": "Jbo"},
        {"Name": "train", "Type": "Training", "Arguments": {"ResourceConfig": resources}},
        {"Name": "athena", "Type": "Athena"},
        {"Name": "content", "Type": "HubContent"},
    ]
    found = inspect(from_json({"Parameters": [{"Name": "P", "Type": "Boolean"}], "Steps": steps}))
    assert found.unknown_types == {"Jbo": ("query",)}
    assert found.unknown_functions == {"Std:If": ("train",), "Std:Omit": ("train",)}
    assert found.faults == () and not any("ResourceConfig." in line for line in found.refused)
    assert found.notes()[1] == "    Jbo: query. Did you mean 'Job'?"


def test_names_that_a_run_refuses_are_found() -> None:
    steps = [{"Name": name, "Type": "Fail"} for name in ("a b", "..", "-x", "x" * 65, "good_1")]
    found = inspect(from_json({"Steps": steps}))
    assert [fault.split(":")[0] for fault in found.faults] == ["step 'a b'", "step '..'", "step '-x'"]
    assert f"{'x' * 65}: the name has 65 characters; at most 64." in found.refused


@pytest.mark.parametrize(
    ("kind", "default", "allowed"),
    [
        ("Integer", "x", "a whole number"),
        ("Integer", "1", "a whole number"),
        ("Integer", 1.5, "a whole number"),
        ("Integer", True, "a whole number"),
        ("Integer", None, "a whole number"),
        ("Float", "0.5", "a finite number"),
        ("Float", False, "a finite number"),
        ("Float", [1], "a finite number"),
        ("String", 1, "text"),
        ("String", None, "text"),
        ("String", {"a": 1}, "text"),
        ("Boolean", "true", "true or false"),
        ("Boolean", 1, "true or false"),
        ("Integer", 3, None),
        ("Integer", 10**30, None),
        ("Float", 3, None),
        ("Float", 0.5, None),
        ("String", "", None),
        ("Boolean", False, None),
    ],
)
def test_a_default_is_of_its_parameters_type(kind: str, default: Any, allowed: str | None) -> None:
    found = inspect(from_json({"Parameters": [{"Name": "P", "Type": kind, "DefaultValue": default}], "Steps": []}))
    assert (not found.problems()) == (allowed is None)
    assert [line.partition(". Allowed: ")[2].startswith(str(allowed)) for line in found.refused] == [True] * (
        allowed is not None
    )
    assert all(line.startswith("parameters.P.DefaultValue: ") for line in found.refused)


def test_choices_and_types_of_parameters_are_checked() -> None:
    given = [
        {"Name": "A", "Type": "Number"},
        {"Name": "B", "Type": "Integer", "DefaultValue": 3, "EnumValues": [1, "2"]},
        {"Name": "C", "Type": "String"},
        {"Name": "ApiToken", "Type": "Integer", "DefaultValue": "canary"},
    ]
    assert inspect(from_json({"Parameters": given, "Steps": []})).refused == (
        "parameters.A.Type: 'Number'. Allowed: Boolean, Float, Integer, String.",
        'parameters.B.EnumValues[1]: "2". Allowed: a whole number such as 3.',
        'parameters.B.DefaultValue: 3. Allowed: one of EnumValues, 1, "2".',
        'parameters.ApiToken.DefaultValue: "***". Allowed: a whole number such as 3.',
    )


def test_services_that_aws_closes_are_noted_without_fault() -> None:
    steps = [
        {"Name": "quality", "Type": "QualityCheck"},
        {"Name": "bias", "Type": "ClarifyCheck"},
        {"Name": "debugged", "Type": "Training", "Arguments": {"DebugHookConfig": {"S3OutputPath": "s3://b/d"}}},
        {"Name": "profiled", "Type": "Training", "Arguments": {"ProfilerConfig": {"S3OutputPath": "s3://b/p"}}},
        {"Name": "plain", "Type": "Training", "Arguments": {"ProfilerConfig": {"DisableProfiler": True}}},
    ]
    found = inspect(from_json({"Steps": steps}))
    assert [line.split(":")[0] for line in found.endings] == ["quality", "bias", "debugged", "profiled"]
    assert "since 2026-07-30" in found.endings[2] and "2027-06-30" in found.endings[3]
    assert found.faults == () and "AWS is taking out of service:" in found.notes()


def test_more_choices_than_the_service_takes() -> None:
    def told(count: int) -> list[str]:
        choices = [str(n) for n in range(count)]
        given = {"Steps": [], "Parameters": [{"Name": "P", "Type": "String", "EnumValues": choices}]}
        return list(parameter_problems(from_json(given).parameters[0]))

    assert told(16) == []
    assert told(17) == ["parameters.P.EnumValues: 17 values; at most 16."]
