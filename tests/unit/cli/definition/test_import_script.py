from __future__ import annotations

import json
import sys

import pytest


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "nightly.py is a script. It would be executed, whatever it holds: read it, then add --run-script."),
        (["--python", sys.executable], "--python is of a script that is run. Add --run-script, or leave it out."),
        (["--run-script", "--role", "me"], "--role me: give the ARN of a role, such as arn:aws:iam::"),
        (["--run-script"], "bin/python has no SageMaker Python SDK. Install it there (pip install sagemaker, or"),
        (["--run-script", "--python", "absent"], "could not be run by absent: "),
    ],
)
def test_a_script_is_not_run_by_mistake(drivetrain, options: list[str], reason: str) -> None:
    touched = drivetrain.folder / "ran"
    file = drivetrain.write("nightly.py", "")
    file.write_text(f"open({str(touched)!r}, 'w')\n", encoding="utf-8")
    assert reason in drivetrain.error("import", file, "--region", "eu-west-1", *options)
    assert not touched.exists()


def test_only_scripts_are_run(drivetrain) -> None:
    said = drivetrain.error("import", drivetrain.write("d.json", {}), "--run-script")
    assert "--run-script runs a script, and " in said and "is no file that ends with .py or .ipynb." in said


def test_a_notebook_is_one(drivetrain) -> None:
    said = drivetrain.error("import", drivetrain.write("n.ipynb", json.dumps({"cells": []})))
    assert "n.ipynb is a script." in said
