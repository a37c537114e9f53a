"""Small SageMaker definitions for the families that hand them to `drivetrain`."""

from __future__ import annotations

from typing import Any

VERSION = "2020-12-01"
ROLE = "arn:aws:iam::000000000000:role/Role"


def definition(*steps: dict[str, Any], parameters: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"Version": VERSION, "Parameters": parameters or [], "Steps": list(steps)}


def sound() -> dict[str, Any]:
    """The smallest in order."""
    return {"Version": VERSION, "Steps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}]}


def processing_step(name: str, program: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "ProcessingResources": {
            "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}
        },
        "AppSpecification": {"ImageUri": "image", "ContainerEntrypoint": ["python3", "-c", program]},
        "RoleArn": ROLE,
    }
    return {"Name": name, "Type": "Processing", "Arguments": arguments}


def training_step(name: str, hyperparameters: dict[str, str], program: str = "") -> dict[str, Any]:
    """Without a program it is the toolkit's, which takes the script from a hyperparameter."""
    algorithm: dict[str, Any] = {"TrainingImage": "image", "TrainingInputMode": "File"}
    if program:
        algorithm["ContainerEntrypoint"] = ["python3", "-c", program]
    arguments = {
        "AlgorithmSpecification": algorithm,
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/trained"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "HyperParameters": hyperparameters,
    }
    return {"Name": name, "Type": "Training", "Arguments": arguments}


def worded(words: list[str], program: str) -> dict[str, Any]:
    """A definition with the words in every place that takes any text."""
    step = processing_step("work", program)
    arguments = step["Arguments"]
    arguments["AppSpecification"]["ContainerArguments"] = [*words, f"--name={words[0]}"]
    arguments["AppSpecification"]["ImageUri"] = f"image{words[2]}"
    arguments["Environment"] = {"WORDS": words[1]}
    arguments["Tags"] = [{"Key": "a", "Value": words[2]}]
    step |= {"DisplayName": words[0], "Description": words[1]}
    parameters = [{"Name": "Words", "Type": "String", "DefaultValue": words[0], "EnumValues": [words[0], words[1]]}]
    more = {"Name": "odd", "Type": words[2], "Arguments": {words[0]: words[1]}}
    refused = {"Conditions": [{"Type": "Equals", "LeftValue": {"Get": "Parameters.Words"}, "RightValue": words[1]}]}
    gate = {"Name": "gate", "Type": "Condition", "Arguments": {**refused, "IfSteps": [more], "ElseSteps": []}}
    return {**definition(step, gate, parameters=parameters), "Metadata": {words[0]: words[1]}}
