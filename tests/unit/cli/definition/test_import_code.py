from __future__ import annotations

import json

from tests.fixtures.public_forms import FORMS


def test_a_definition_becomes_code_that_means_the_same(drivetrain) -> None:
    file, code = drivetrain.write("d.json", FORMS["regression"]()), drivetrain.folder / "nightly.py"
    said = drivetrain("import", file, "--code", code)
    text = code.read_text(encoding="utf-8")
    assert f"Wrote {code}: {text.count(chr(10))} lines.\nIt compiles to the same definition.\n" in said
    assert "from drivetrain.native import" in text and 'Pipeline(\n        name="d",' in text
    assert "is there already" in drivetrain.error("import", file, "--code", code)


def test_it_ends_with_one_and_says_why_where_the_code_means_something_else(drivetrain) -> None:
    file, code = drivetrain.write("d.json", FORMS["callbacks"]()), drivetrain.folder / "nightly.py"
    said = drivetrain("import", file, "--code", code, code=1)
    assert "It does not compile: nightly.py, line 10: Step 'Train': Arguments: 'RoleArn' is missing." in said
    code.unlink()
    definition = FORMS["cluster"]()
    definition["Parameters"] = [{"Name": "p", "Type": "String", "FieldOfNextYear": 1}]
    told = json.loads(drivetrain("import", drivetrain.write("d.json", definition), "--code", code, "--json", code=1))
    assert told["code"]["file"] == str(code)
    assert told["code"]["raw"] == {"Spark": "type EMR has no word"}
    assert [change["place"] for change in told["code"]["changes"]] == ["parameters.p.FieldOfNextYear"]


def test_the_file_of_code_can_be_imported(drivetrain) -> None:
    said = drivetrain.error("import", drivetrain.write("d.json", FORMS["deploy"]()), "--code", "my-pipeline.py")
    assert said.startswith("error: --code my-pipeline.py: a pipeline's file is imported.")


def test_a_state_machine_becomes_code_and_what_is_left_out_is_told(drivetrain, monkeypatch) -> None:
    import boto3
    from moto import mock_aws

    machine = {
        "StartAt": "Say",
        "States": {
            "Say": {"Type": "Task", "Resource": "arn:aws:lambda:eu-west-1:000000000000:function:f", "Next": "Tell"},
            "Tell": {"Type": "Task", "Resource": "arn:aws:states:::sns:publish", "Parameters": {}, "End": True},
        },
    }
    file, code = drivetrain.write("machine.asl.json", machine), drivetrain.folder / "nightly.py"
    said = drivetrain("import", file, "--code", code, code=1)
    assert "Tell is left out: no step calls arn:aws:states:::sns:publish." in said
    assert "It compiles to the same definition." in said
    assert f"Write it to a file: drivetrain import {file} -o machine.json" in said
    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        client = boto3.client("stepfunctions", region_name="eu-west-1")
        role = "arn:aws:iam::000000000000:role/r"
        arn = client.create_state_machine(name="m", definition=json.dumps(machine), roleArn=role)["stateMachineArn"]
        told = json.loads(drivetrain("import", arn, "--json", code=1))
    assert told["lost"][1] == "Tell is left out: no step calls arn:aws:states:::sns:publish"


def test_a_pipeline_of_kubeflow_becomes_code_for_it(drivetrain) -> None:
    container = {"image": "alpine", "command": ["true"]}
    ir = {
        "pipelineInfo": {"name": "nightly"},
        "schemaVersion": "2.1.0",
        "deploymentSpec": {"executors": {"e": {"container": container}}},
        "components": {"c": {"executorLabel": "e"}},
        "root": {"dag": {"tasks": {"run": {"componentRef": {"name": "c"}, "taskInfo": {"name": "run"}}}}},
    }
    file, code = drivetrain.write("d.yaml", ir), drivetrain.folder / "nightly.py"
    said = drivetrain("import", file, "--code", code)
    assert said.startswith(f"{file}: a pipeline of Kubeflow Pipelines with 1 step.\nWrote {code}: ")
    assert said.endswith("It compiles to a pipeline that means the same.\n")
    assert "nothing that would be refused" in drivetrain("check", code, "--target", "kubeflow")
    assert "its container is not run here" in drivetrain.error("run", code, "--target", "kubeflow")
    assert drivetrain.error("import", file, "-o", "x.json").startswith("error: --output is of SageMaker's definitions")
    code.unlink()
    ir["deploymentSpec"]["executors"]["e"]["container"]["command"] = ["a{{$.nothing"]
    assert "cluster would refuse" in drivetrain.error("import", drivetrain.write("d.yaml", ir), "--code", code)
