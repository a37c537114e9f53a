"""A pipeline of the SageMaker SDK, from its account into code, back into the account, and step by step into scripts."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.telling.content.from_ledger import run_facts
from tests.fixtures.public_forms import BUCKET, definition, framework, get, model, output, processing, scripted
from tests.fixtures.sagemaker_service.command_line import CommandLine

SCRIPTS = {
    "Prepare": """
import sys
numbers = [float(line) for line in open("/opt/ml/processing/input/rows.csv")]
assert sys.argv[1:] == ["--scale", "2", "--to", "/opt/ml/processing/train"], sys.argv
open("/opt/ml/processing/train/rows.csv", "w").writelines(f"{2 * number}\\n" for number in numbers)
""",
    "Train": """
import os, sys
numbers = [float(line) for line in open(os.environ["SM_CHANNEL_TRAINING"] + "/rows.csv")]
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert given["--objective"] == "reg:linear", given
mean = sum(numbers) / len(numbers) * int(given["--epochs"])
open(os.environ["SM_MODEL_DIR"] + "/mean.txt", "w").write(str(mean))
""",
    "Evaluate": """
import json, tarfile
with tarfile.open("/opt/ml/processing/model/model.tar.gz") as archive:
    mean = float(archive.extractfile("mean.txt").read())
json.dump({"metrics": {"mse": {"value": mean}}}, open("/opt/ml/processing/evaluation/evaluation.json", "w"))
""",
}
FILES = {"Prepare": "preprocess.py", "Train": "train.py", "Evaluate": "evaluate.py"}


def foreign(bucket: str) -> dict[str, Any]:
    prepare = scripted("Prepare", FILES["Prepare"], {"input-1": f"{BUCKET}/data"}, ["train"])
    arguments = ["--scale", "2", "--to", "/opt/ml/processing/train"]
    prepare["Arguments"]["AppSpecification"]["ContainerArguments"] = arguments
    given = {"epochs": {"Std:Join": {"On": "", "Values": [get("Parameters.Epochs")]}}, "objective": '"reg:linear"'}
    train = framework("Train", FILES["Train"], {"training": output("Prepare", "train")}, **given)
    del train["Arguments"]["ProfilerConfig"]
    evaluate = processing(
        "Evaluate",
        {"input-1": (model("Train"), "model"), "code": (f"{BUCKET}/code", "input/code")},
        {"evaluation": f"{BUCKET}/reports"},
        entry=["python3", f"/opt/ml/processing/input/code/{FILES['Evaluate']}"],
        report=("Report", "evaluation", "evaluation.json"),
        CacheConfig={"Enabled": True, "ExpireAfter": "30d"},
    )
    file = {"PropertyFile": get("Steps.Evaluate.PropertyFiles.Report"), "Path": "metrics.mse.value"}
    bad = {"Type": "GreaterThan", "LeftValue": {"Std:JsonGet": file}, "RightValue": 100.0}
    stop = {"Name": "Stop", "Type": "Fail", "Arguments": {"ErrorMessage": "Too bad."}}
    gate = {"Name": "Gate", "Type": "Condition", "Arguments": {"Conditions": [bad], "IfSteps": [stop], "ElseSteps": []}}
    made = definition([prepare, train, evaluate, gate], [("Epochs", "Integer", 3)])
    return json.loads(json.dumps(made).replace(BUCKET.removeprefix("s3://"), bucket))


def places(definition: dict[str, Any]) -> dict[str, str]:
    """Step -> the URI of its code."""
    steps = {step["Name"]: step["Arguments"] for step in definition["Steps"]}
    found = {
        name: item["S3Input"]["S3Uri"]
        for name in ("Prepare", "Evaluate")
        for item in steps[name]["ProcessingInputs"]
        if item["InputName"] == "code"
    }
    found["Evaluate"] += f"/{FILES['Evaluate']}"
    return {**found, "Train": json.loads(steps["Train"]["HyperParameters"]["sagemaker_submit_directory"])}


def content(name: str) -> bytes:
    if name != "Train":
        return SCRIPTS[name].encode()
    packed, data = io.BytesIO(), SCRIPTS[name].encode()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo(FILES[name])
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture
def imported(drivetrain: CommandLine) -> dict[str, Any]:
    """The definition as somebody deployed it, whose scripts lie in the account's bucket."""
    made = foreign(drivetrain.bucket)
    for name, uri in places(made).items():
        drivetrain.account.client("s3").put_object(
            Bucket=drivetrain.bucket, Key=uri.partition(f"{drivetrain.bucket}/")[2], Body=content(name)
        )
    drivetrain.account.client("sagemaker").create_pipeline(
        PipelineName="sdk",
        PipelineDefinition=json.dumps(made),
        RoleArn=f"arn:aws:iam::{drivetrain.account.number}:role/pipelines",
        ClientRequestToken=f"{'sdk':-<32}",
    )
    return made


def results(home: Path) -> tuple[Any, ...]:
    with Ledger(Home(home)) as ledger:
        facts = run_facts(ledger, "latest")
    steps = {step.name: step.status for step in facts.steps}
    return facts.status, steps, facts.steps[3].value, [(each.step, dict(each.numbers)) for each in facts.measured]


def test_steps_move_one_after_another_and_give_the_same(drivetrain: CommandLine, imported: dict[str, Any]) -> None:
    folder = drivetrain.folder
    (folder / "data").mkdir()
    (folder / "data" / "rows.csv").write_text("1\n2\n6\n")
    given = ["--data", f"s3://{drivetrain.bucket}/data={folder / 'data'}"]
    for name, uri in places(imported).items():
        (folder / "objects" / name).mkdir(parents=True)
        file = folder / "objects" / name / uri.rpartition("/")[2]
        file.write_bytes(content(name))
        at = uri if name != "Evaluate" else uri.rpartition("/")[0]
        given += ["--data", f"{at}={file if at == uri else file.parent}"]
    (folder / "sdk.json").write_text(json.dumps(imported))
    drivetrain("run", "-d", "sdk.json", "--home", "raw", *given)
    expected = results(folder / "raw")
    assert expected[0] == "Succeeded" and "18" in str(expected[3])

    moving: list[str] = []
    for step in FILES:
        moving += ["--moving", step]
        code = f"{step.lower()}.py"
        said = drivetrain("import", "sdk", "--code", code, *moving)
        assert f"{step} is the script src/{FILES[step]} now" in said and "Fetch it" not in said
        assert f"{step}: RoleArn " in said and ("parameter Fresh added" in said) == (step != "Prepare")
        assert ("src/preprocess.py is there already, and stays as it is." in said) == (step != "Prepare")
        drivetrain("run", code, "--home", step, *given)
        assert results(folder / step) == expected


def test_it_is_planned_adopted_and_pulled_as_code(drivetrain: CommandLine, imported: dict[str, Any]) -> None:
    sagemaker = drivetrain.account.client("sagemaker")
    place = [f"--set=deployment.targets.sagemaker.{name}={drivetrain.settings[name]}" for name in ("bucket", "role")]

    def deployed() -> str:
        return sagemaker.describe_pipeline(PipelineName="sdk")["PipelineDefinition"]

    # As code it means what is deployed: only tags are added, and the definition stays the same bytes.
    drivetrain("import", "sdk", "--code", "sdk.py")
    before = deployed()
    plan = drivetrain.json("plan", "sdk.py", *place)
    assert [change["kind"] for change in plan["changes"]] == ["record"]
    drivetrain("apply", "sdk.py", "--adopt", "--yes", *place)
    assert deployed() == before
    assert "is what the code says" in drivetrain("plan", "sdk.py", "--exit-code", *place)

    # An edit in Studio is refused to be undone, and pulled beside the code.
    edited = json.loads(before)
    edited["Steps"][1]["Arguments"]["ResourceConfig"]["InstanceType"] = "ml.m5.4xlarge"
    sagemaker.update_pipeline(PipelineName="sdk", PipelineDefinition=json.dumps(edited))
    assert "Apply will refuse this." in drivetrain("plan", "sdk.py", *place)
    assert "Train: instance ml.m5.xlarge -> ml.m5.4xlarge" in drivetrain("pull", "sdk.py", *place)
    assert "and in the code already" in drivetrain("plan", "sdk.py", *place)

    # An edit of the code, too: both arrive, and nothing else changes where the cache of the service looks.
    code = drivetrain.folder / "sdk.py"
    code.write_text(code.read_text().replace("mse > 100.0", "mse > 90.0"))
    drivetrain("apply", "sdk.py", "--yes", *place)
    now = json.loads(deployed())
    assert now["Steps"][3]["Arguments"]["Conditions"][0]["RightValue"] == 90.0
    for step, expected in zip(now["Steps"][:3], edited["Steps"], strict=False):
        assert json.dumps(step["Arguments"], sort_keys=True) == json.dumps(expected["Arguments"], sort_keys=True)


def test_a_script_that_cannot_be_read_is_left_to_a_person(drivetrain: CommandLine, imported: dict[str, Any]) -> None:
    s3 = drivetrain.account.client("s3")
    keys = {name: uri.partition(f"{drivetrain.bucket}/")[2] for name, uri in places(imported).items()}
    s3.delete_object(Bucket=drivetrain.bucket, Key=keys["Prepare"])
    s3.put_object(Bucket=drivetrain.bucket, Key=keys["Train"], Body=b"damaged")
    said = drivetrain("import", "sdk", "--code", "sdk.py", "--moving", "Prepare", "--moving", "Train")
    assert f"S3 does not read {places(imported)['Prepare']}: 404" in said and "Fetch it: aws s3 cp" in said
    assert "Not a gzipped file" in said and "| tar xz -C src" in said
    assert not (drivetrain.folder / "src").exists()
