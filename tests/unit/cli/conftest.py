"""Runs that need no process: every job is stubbed, so that what is tested is the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli import main


def definition() -> dict[str, Any]:
    """prepare -> evaluate -> gate -> register or stop."""
    return {
        "Version": "2020-12-01",
        "Parameters": [
            {"Name": "MinAccuracy", "Type": "Float", "DefaultValue": 0.9},
            {"Name": "ApiToken", "Type": "String", "DefaultValue": "none"},
        ],
        "Steps": [
            {"Name": "prepare", "Type": "Processing", "Arguments": _processing("data")},
            {
                "Name": "evaluate",
                "Type": "Processing",
                "DependsOn": ["prepare"],
                "Arguments": _processing("metrics"),
                "PropertyFiles": [{"PropertyFileName": "Metrics", "OutputName": "metrics", "FilePath": "metrics.json"}],
            },
            {
                "Name": "gate",
                "Type": "Condition",
                "Arguments": {
                    "Conditions": [
                        {
                            "Type": "GreaterThanOrEqualTo",
                            "LeftValue": {
                                "Std:JsonGet": {
                                    "PropertyFile": {"Get": "Steps.evaluate.PropertyFiles.Metrics"},
                                    "Path": "accuracy",
                                }
                            },
                            "RightValue": {"Get": "Parameters.MinAccuracy"},
                        }
                    ],
                    "IfSteps": [{"Name": "deploy", "Type": "Model", "Arguments": {}}],
                    "ElseSteps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "not good enough"}}],
                },
            },
        ],
    }


def _processing(output: str) -> dict[str, Any]:
    return {
        "ProcessingResources": {
            "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}
        },
        "AppSpecification": {"ImageUri": "somebody-elses-image", "ContainerArguments": ["--rows", "10"]},
        "ProcessingOutputConfig": {
            "Outputs": [
                {
                    "OutputName": output,
                    "S3Output": {
                        "LocalPath": f"/opt/ml/processing/output/{output}",
                        "S3Uri": f"s3://bucket/{output}/",
                        "S3UploadMode": "EndOfJob",
                    },
                }
            ]
        },
        "RoleArn": "arn:aws:iam::000000000000:role/r",
    }


class CommandLine:
    """`drivetrain ...` in this process, in a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.definition = definition
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        """The output on stdout; asserts the exit code."""
        found = main.run([str(argument) for argument in arguments])
        self.out, self.err = self._capsys.readouterr()
        assert found == code, (found, self.out, self.err)
        return self.out

    def error(self, *arguments: str | Path, code: int = 2) -> str:
        """The message on stderr of a command that is refused."""
        self(*arguments, code=code)
        assert self.err.startswith("error: "), self.err
        assert len(self.err.splitlines()) <= 3, self.err
        assert "Traceback" not in self.err
        return self.err

    def write(self, name: str, content: Any) -> Path:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def run(self, *more: str | Path, accuracy: float = 0.95, code: int = 0) -> str:
        """Run the definition above with every job stubbed."""
        metrics = self.folder / "metrics.json"
        metrics.write_text(json.dumps({"accuracy": accuracy, "accuracy_class_0": 1.0}))
        stubs = {
            "prepare": {},
            "evaluate": {
                "PropertyFiles": {"Metrics": {"accuracy": accuracy}},
                "OutputFolders": {"metrics": str(metrics)},
            },
            "deploy": {"ModelName": "m"},
        }
        options = [f"--stub={step}={self.write(f'{step}.json', stub)}" for step, stub in stubs.items()]
        file = self.write("nightly.json", definition())
        return self("run", "--definition", file, "--home", self.home, *options, *more, code=code)


@pytest.fixture
def drivetrain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRIVETRAIN_HOME", raising=False)
    monkeypatch.delenv("DRIVETRAIN_REGISTRY", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return CommandLine(tmp_path, capsys)
