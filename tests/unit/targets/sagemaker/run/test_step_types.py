"""Each step type as a definition has it: several hosts, training jobs, Lambda, registration, stubs."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.events import MetricLogged, StepFinished
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run import step_types
from tests.fixtures.local_runs import BUCKET, LocalRuns, join, model_of, output_of

TRAIN = """
import json, os
from pathlib import Path
parameters = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
for epoch in range(int(parameters["epochs"])):
    print(f"epoch={epoch} loss={1 / (epoch + 1):.3f}", flush=True)
Path("/opt/ml/model/weights.txt").write_text("w" * int(parameters["epochs"]))
"""
REPORT = """
import json
from pathlib import Path
import tarfile
assert tarfile.open("/opt/ml/processing/input/model/model.tar.gz").getnames() == ["weights.txt"]
Path("/opt/ml/processing/output/report/report.json").write_text(
    json.dumps({"metrics": {"accuracy": {"value": 0.9}}}))
"""


def test_every_type_is_found_by_its_name_as_definitions_spell_it() -> None:
    known = step_types.known()
    assert {"emr_serverless": "EMRServerless", "auto_ml": "AutoML", "lambda_": "Lambda"}.items() <= known.items()
    for file, name in known.items():
        module = step_types.find(name)
        assert step_types.file_name(name) == file
        assert module is not None and callable(module.check) and callable(module.run)
    assert step_types.find("Quantum") is None


def test_an_unknown_type_is_refused_and_can_be_stubbed(runs: LocalRuns) -> None:
    query = {"Name": "query", "Type": "Quantum", "Arguments": {"QueryString": "SELECT 1"}}
    after = runs.processing(
        "after",
        "import sys; open('/opt/ml/processing/output/out/x', 'w').write(sys.argv[1])",
        outputs=["out"],
        arguments=[{"Get": "Steps.query.QueryString"}],
    )
    with pytest.raises(UserError, match=r"of type Quantum, which is not known here.*--stub query=outputs\.json"):
        runs.start([query, after])
    summary = runs.start([query, after], stubs={"query": {}})
    assert summary.status == "Succeeded", summary.reason
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/after/out/x") == "SELECT 1"


def test_two_hosts_run_at_once_and_their_outputs_are_merged(runs: LocalRuns) -> None:
    program = """
        import json, time
        from pathlib import Path
        config = json.loads(Path("/opt/ml/config/resourceconfig.json").read_text())
        files = sorted(p.name for p in Path("/opt/ml/processing/input/data").iterdir())
        Path(f"/opt/ml/processing/output/out/{config['current_host']}.json").write_text(
            json.dumps([files, config["hosts"]]))
    """
    for name in "abc":
        runs.put(f"data/{name}.csv", name)
    step = runs.processing("s", program, inputs={"data": f"{BUCKET}/data/"}, outputs=["out"], count=2, sharded=True)
    summary = runs.start([step])
    assert summary.status == "Succeeded", summary.reason
    out = f"{BUCKET}/runs/{summary.execution}/s/out"
    hosts = ["127.0.0.1", "127.0.0.2"]
    assert json.loads(runs.read(f"{out}/127.0.0.1.json")) == [["a.csv", "c.csv"], hosts]
    assert json.loads(runs.read(f"{out}/127.0.0.2.json")) == [["b.csv"], hosts]


def test_a_name_written_by_two_hosts_is_an_error(runs: LocalRuns) -> None:
    program = "open('/opt/ml/processing/output/out/same.txt', 'w').write('x')"
    summary = runs.start([runs.processing("s", program, outputs=["out"], count=2)])
    assert summary.status == "Failed"
    assert "127.0.0.1 and 127.0.0.2 both wrote 'same.txt' to output 'out'" in str(summary.reason)
    assert not runs.store.exists(f"{BUCKET}/runs/{summary.execution}")


def train_and_register(runs: LocalRuns, epochs: str = "3", **fields: Any) -> list[dict[str, Any]]:
    train = runs.training(
        "train", TRAIN, hyperparameters={"epochs": epochs}, metrics={"loss": r"loss=([0-9.]+)"}, **fields
    )
    evaluate = runs.processing("evaluate", REPORT, inputs={"model": model_of("train")}, outputs=["report"])
    evaluate["PropertyFiles"] = [{"PropertyFileName": "Report", "OutputName": "report", "FilePath": "report.json"}]
    register = {
        "Name": "register",
        "Type": "RegisterModel",
        "Arguments": {
            "ModelPackageGroupName": "digits",
            "InferenceSpecification": {"Containers": [{"Image": "i", "ModelDataUrl": model_of("train")}]},
            "ModelMetrics": {
                "ModelQuality": {
                    "Statistics": {
                        "ContentType": "application/json",
                        "S3Uri": join(output_of("evaluate", "report"), "report.json"),
                    }
                }
            },
            "ModelApprovalStatus": "Approved",
        },
    }
    good_enough = {
        "Type": "GreaterThanOrEqualTo",
        "LeftValue": {
            "Std:JsonGet": {
                "PropertyFile": {"Get": "Steps.evaluate.PropertyFiles.Report"},
                "Path": "metrics.accuracy.value",
            }
        },
        "RightValue": {"Get": "Parameters.threshold"},
    }
    fail = {
        "Name": "stop",
        "Type": "Fail",
        "Arguments": {"ErrorMessage": join("below", {"Get": "Parameters.threshold"}, on=" ")},
    }
    gate = {
        "Name": "gate",
        "Type": "Condition",
        "Arguments": {"Conditions": [good_enough], "IfSteps": [register], "ElseSteps": [fail]},
    }
    return [train, evaluate, gate]


THRESHOLD = [{"Name": "threshold", "Type": "Float", "DefaultValue": 0.8}]


def test_training_evaluation_decision_and_registration(runs: LocalRuns) -> None:
    summary = runs.start(train_and_register(runs), parameters=THRESHOLD)
    assert summary.status == "Succeeded", summary.reason
    assert runs.statuses() == {
        "train": "Succeeded",
        "evaluate": "Succeeded",
        "gate": "Succeeded",
        "register": "Succeeded",
        "stop": "NotExecuted",
    }
    with Ledger(runs.home) as ledger:
        train, _, gate, register, stop = ledger.steps(summary.execution)
        uri = train.response["ModelArtifacts"]["S3ModelArtifacts"]
        assert uri == f"{BUCKET}/runs/{summary.execution}/train/pipelines-{summary.execution}-train/output/model.tar.gz"
        [metric] = train.response["FinalMetricDataList"]
        assert (metric["MetricName"], metric["Value"]) == ("loss", 0.333)
        assert [row.value for row in ledger.metrics(summary.execution, "train")] == [1.0, 0.5, 0.333]
        assert gate.value == "yes" and gate.response == {"Outcome": "True"}
        assert stop.reason == "gate took the other branch"
        assert register.value == "digits version 1"
        lineage = {(a.step, a.name): a.from_step for a in ledger.artifacts(summary.execution) if a.flow == "input"}
        assert lineage["register", "model"] == "train" and lineage["evaluate", "model"] == "train"
    assert [event.value for event in runs.of(MetricLogged)] == [1.0, 0.5, 0.333]
    version = LocalRegistry(runs.home.ledger).version("digits", "latest")
    assert (version.version, version.status, version.execution) == (1, "Approved", summary.execution)
    assert version.metrics == {"metrics.accuracy.value": 0.9}
    with tarfile.open(runs.store.path(uri)) as archive:
        assert archive.getnames() == ["weights.txt"]


def test_the_same_content_gives_one_version_and_other_content_another(runs: LocalRuns) -> None:
    first = runs.start(train_and_register(runs), parameters=THRESHOLD)
    second = runs.start(train_and_register(runs), parameters=THRESHOLD)
    assert (first.status, second.status) == ("Succeeded", "Succeeded")
    finished = next(event for event in runs.of(StepFinished) if event.step == "register")
    assert finished.value == "digits version 1 (the same content was registered before)"
    runs.start(train_and_register(runs, epochs="4"), parameters=THRESHOLD)
    assert [version.version for version in LocalRegistry(runs.home.ledger).versions("digits")] == [2, 1]


def test_the_other_branch_fails_the_execution_with_its_message(runs: LocalRuns) -> None:
    summary = runs.start(train_and_register(runs), {"threshold": "0.95"}, parameters=THRESHOLD)
    assert (summary.status, summary.reason) == ("Failed", "stop: below 0.95")
    assert runs.statuses()["register"] == "NotExecuted"


def test_checkpoints_are_copied_back_and_restored_on_every_host(runs: LocalRuns) -> None:
    program = """
        import json
        from pathlib import Path
        host = json.loads(Path("/opt/ml/input/config/resourceconfig.json").read_text())["current_host"]
        folder = Path("/opt/ml/checkpoints")
        seen = sorted(p.name for p in folder.iterdir())
        Path(f"/opt/ml/model/{host}.json").write_text(json.dumps(seen))
        (folder / f"step-{len(seen)}-{host}").write_text("x")
    """
    where = f"{BUCKET}/checkpoints/train/"
    runs.put("checkpoints/train-of-a-sibling/step-9", "not ours")
    steps = [runs.training("train", program, count=2, checkpoints=where)]
    first = runs.start(steps)
    second = runs.start(steps)
    assert (first.status, second.status) == ("Succeeded", "Succeeded"), (first.reason, second.reason)
    expected = ["step-0-127.0.0.1", "step-0-127.0.0.2"]
    with Ledger(runs.home) as ledger:
        [step] = ledger.steps(second.execution)
    with tarfile.open(runs.store.path(step.response["ModelArtifacts"]["S3ModelArtifacts"])) as archive:
        for host in ("127.0.0.1", "127.0.0.2"):
            content = archive.extractfile(f"{host}.json")
            assert content is not None and json.load(content) == expected
    assert [item.name for item in runs.store.find(where)] == [
        *expected,
        "step-2-127.0.0.1",
        "step-2-127.0.0.2",
    ]


@pytest.mark.parametrize("mode", ["auto", "rewrite"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_job_of_the_stock_images_toolkit_runs(runs: LocalRuns, tmp_path: Path, count: int, mode: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(
        "import os, sys\n"
        "host = os.environ['SM_CURRENT_HOST']\n"
        "open(os.path.join(os.environ['SM_MODEL_DIR'], host), 'w').write(' '.join(sys.argv[1:]))\n"
    )
    with tarfile.open(tmp_path / "source.tar.gz", "w:gz") as archive:
        archive.add(source / "train.py", "train.py")
    uri = runs.put("code/source.tar.gz", (tmp_path / "source.tar.gz").read_bytes())
    step = runs.training(
        "train",
        "",
        count=count,
        hyperparameters={
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": json.dumps(uri),
            "epochs": "3",
        },
    )
    del step["Arguments"]["AlgorithmSpecification"]["ContainerEntrypoint"]
    summary = runs.start([step], mode=mode)
    assert summary.status == "Succeeded", summary.reason
    with Ledger(runs.home) as ledger:
        [row] = ledger.steps(summary.execution)
    with tarfile.open(runs.store.path(row.response["ModelArtifacts"]["S3ModelArtifacts"])) as archive:
        assert archive.getnames() == [f"127.0.0.{number + 1}" for number in range(count)]
        content = archive.extractfile("127.0.0.1")
        assert content is not None and content.read() == b"--epochs 3"


HANDLER = """
import os

import ledger  # a module beside the handler, with a name that the runner has, too

def handler(event, context):
    print("called", context.function_name, os.getpid())
    if event.get("wrong"):
        return {"doubled": "four"}
    if event.get("broken"):
        raise ValueError("no such model")
    return {"doubled": ledger.FACTOR * event["number"], "name": context.function_name}
"""


def test_without_private_mounts_paths_are_rewritten_and_a_literal_one_is_refused(runs: LocalRuns) -> None:
    program = """
        import sys
        from pathlib import Path
        assert not sys.argv[2].startswith("/opt/ml")
        Path(sys.argv[2], "y.txt").write_text(Path(sys.argv[1], "x.txt").read_text())
    """
    data = runs.put("data/x.txt", "x")
    folders = ("/opt/ml/processing/input/data", "/opt/ml/processing/output/out")
    step = runs.processing("s", program, inputs={"data": data}, outputs=["out"], arguments=folders)
    summary = runs.start([step], mode="rewrite")
    # The literal in startswith() is one too: this program would look for a folder that is not there.
    assert summary.status == "Failed" and "s.py, line 4: a literal /opt/ml" in str(summary.reason)
    runs.put("code/s/s.py", "\n".join(line.strip() for line in program.splitlines() if "startswith" not in line))
    summary = runs.start([step], mode="rewrite")
    assert summary.status == "Succeeded", summary.reason
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/s/out/y.txt") == "x"


def lambda_step(**arguments: Any) -> dict[str, Any]:
    return {
        "Name": "call",
        "Type": "Lambda",
        "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:double",
        "Arguments": arguments,
        "OutputParameters": [
            {"OutputName": "doubled", "OutputType": "Integer"},
            {"OutputName": "name", "OutputType": "String"},
        ],
    }


@pytest.fixture
def functions(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "doubling.py").write_text(HANDLER)
    (tmp_path / "ledger.py").write_text("FACTOR = 2")
    return {"double": f"{tmp_path / 'doubling.py'}:handler"}


def test_a_lambda_step_calls_a_handler_and_gives_its_outputs(runs: LocalRuns, functions: dict[str, str]) -> None:
    after = runs.processing(
        "after",
        "import sys; open('/opt/ml/processing/output/out/x', 'w').write(sys.argv[1])",
        outputs=["out"],
        arguments=[join("n", {"Get": "Steps.call.OutputParameters['doubled']"}, on="=")],
    )
    summary = runs.start([lambda_step(number=21), after], functions=functions)
    assert summary.status == "Succeeded", summary.reason
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/after/out/x") == "n=42"


def test_a_lambda_that_raises_or_gives_the_wrong_type_fails_its_step(
    runs: LocalRuns, functions: dict[str, str]
) -> None:
    summary = runs.start([lambda_step(broken=True)], functions=functions)
    assert summary.status == "Failed" and "ValueError: no such model" in str(summary.reason)
    summary = runs.start([lambda_step(wrong=True)], functions=functions)
    assert summary.reason == "call: the handler gave doubled='four'. Allowed: Integer."


def test_a_lambda_that_ends_the_program_fails_its_step(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text("def handler(event, context):\n    raise SystemExit\n")
    summary = runs.start([lambda_step()], functions={"double": f"{tmp_path / 'leaving.py'}:handler"})
    assert summary.status == "Failed" and "before it gave an answer" in str(summary.reason)


def test_a_lambda_without_a_handler_is_refused_before_anything_starts(runs: LocalRuns) -> None:
    with pytest.raises(UserError, match="no handler is given") as caught:
        runs.start([lambda_step()])
    assert "function:double=file.py:handler" in str(caught.value)
    with pytest.raises(UserError, match="there is no file"):
        runs.start([lambda_step()], functions={"call": "nowhere.py:handler"})


@pytest.mark.slow
def test_a_lambda_takes_and_gives_at_most_6_mb(runs: LocalRuns, functions: dict[str, str], tmp_path: Path) -> None:
    summary = runs.start([lambda_step(number=1, payload="x" * (6 << 20))], functions=functions)
    assert summary.status == "Failed" and "Lambda takes at most 6,291,456" in str(summary.reason)
    (tmp_path / "doubling.py").write_text(
        "def handler(event, context):\n    return {'doubled': 1, 'name': 'x' * (7 << 20)}\n"
    )
    summary = runs.start([lambda_step(number=1)], functions=functions)
    assert summary.status == "Failed" and "at most 6,291,456" in str(summary.reason)


def test_a_lambda_of_an_installed_module_is_called(runs: LocalRuns) -> None:
    step = lambda_step(number=1)
    step["OutputParameters"] = []
    summary = runs.start([step], functions={"call": "json:dumps"})
    # json.dumps(event, context) is a call with one argument too many: the module was found, and its error is told.
    assert summary.status == "Failed" and "TypeError" in str(summary.reason)
    summary = runs.start([step], functions={"call": "no_such_module:handler"})
    assert summary.status == "Failed" and "there is no module 'no_such_module'" in str(summary.reason)


def test_a_stub_that_cannot_be_copied_fails_its_step(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gone").symlink_to("nowhere")
    stub = {"producer": {"OutputFolders": {"train": str(tmp_path / "data")}}}
    summary = runs.start([runs.processing("producer", "", outputs=["train"])], stubs=stub)
    assert summary.status == "Failed" and f"{tmp_path / 'data' / 'gone'} cannot be copied" in str(summary.reason)


def test_a_stub_that_holds_the_home_is_refused_before_anything_starts(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    step = runs.processing("producer", "", outputs=["train"])
    for folder in (tmp_path, tmp_path / "link", runs.home.root, runs.home.runs):
        with pytest.raises(UserError, match=rf"--stub producer: {folder}, given for output 'train', holds the home"):
            runs.start([step], stubs={"producer": {"OutputFolders": {"train": str(folder)}}})
    assert not list(runs.home.runs.glob("*"))


def test_stubs_replace_steps_that_cannot_run_here(runs: LocalRuns, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "x.txt").write_text("from the stub")
    copy = """
        from pathlib import Path
        text = Path("/opt/ml/processing/input/data/x.txt").read_text()
        Path("/opt/ml/processing/output/out/x.txt").write_text(text)
    """
    producer = runs.processing("producer", "", outputs=["train"])
    del producer["Arguments"]["AppSpecification"]["ContainerEntrypoint"]
    producer["PropertyFiles"] = [{"PropertyFileName": "Report", "OutputName": "train", "FilePath": "r.json"}]
    good = {
        "Type": "Equals",
        "LeftValue": {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.producer.PropertyFiles.Report"}, "Path": "ok"}},
        "RightValue": True,
    }
    steps = [
        producer,
        {"Name": "model", "Type": "Model", "Arguments": {"ExecutionRoleArn": "r"}},
        {
            "Name": "gate",
            "Type": "Condition",
            "Arguments": {
                "Conditions": [good],
                "IfSteps": [
                    runs.processing(
                        "use",
                        copy,
                        inputs={"data": output_of("producer", "train")},
                        outputs=["out"],
                        environment={"MODEL": {"Get": "Steps.model.ModelName"}},
                    )
                ],
                "ElseSteps": [],
            },
        },
    ]
    stubs = {
        "producer": {"OutputFolders": {"train": str(data)}, "PropertyFiles": {"Report": {"ok": True}}},
        "model": {"ModelName": "m-1"},
    }
    summary = runs.start(steps, stubs=stubs)
    assert summary.status == "Succeeded", summary.reason
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/use/out/x.txt") == "from the stub"
    with Ledger(runs.home) as ledger:
        assert ledger.step(summary.execution, "use").arguments["Environment"] == {"MODEL": "m-1"}
    with pytest.raises(UserError, match="Did you mean 'model'"):
        runs.start(steps, stubs={**stubs, "modle": {}})
    with pytest.raises(UserError, match="does not exist"):
        runs.start(steps, stubs={**stubs, "producer": {"OutputFolders": {"train": str(tmp_path / "nothing")}}})


def test_an_image_command_and_local_data_stand_in_for_what_is_not_here(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "given.csv").write_text("1,2")
    step = runs.processing("s", "", inputs={"data": "s3://far/away/given.csv"}, outputs=["out"], arguments=["x y"])
    del step["Arguments"]["AppSpecification"]["ContainerEntrypoint"]
    program = (
        "import shutil, sys; "
        "shutil.copy('/opt/ml/processing/input/data/given.csv', '/opt/ml/processing/output/out/' + sys.argv[1])"
    )
    summary = runs.start(
        [step],
        image_commands={"python": ("python3", "-c", program)},
        data={"s3://far/away/given.csv": str(tmp_path / "given.csv")},
    )
    assert summary.status == "Succeeded", summary.reason
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/s/out/x y") == "1,2"


def test_files_read_beside_training_outputs_must_exist(runs: LocalRuns) -> None:
    """A training writes into a folder of its job's name: a bucket that is its output path brings nothing else."""
    train = runs.training("train", TRAIN, hyperparameters={"epochs": "1"})
    train["Arguments"]["OutputDataConfig"]["S3OutputPath"] = f"{BUCKET}/"
    use = "assert open('/opt/ml/processing/input/data/model.tar.gz', 'rb').read()"
    after = runs.processing("after", use, inputs={"data": f"{BUCKET}/data/"})
    with pytest.raises(UserError, match=r"step 'after': input 'data' reads s3://bucket/data/, and nothing is there"):
        runs.start([train, after])
    job = join("pipelines", {"Get": "Execution.PipelineExecutionId"}, "train", on="-")
    after = runs.processing("after", use, inputs={"data": join("s3:/", "bucket", job, "output/")}, DependsOn=["train"])
    summary = runs.start([train, after])
    assert summary.status == "Succeeded", summary.reason


def test_a_placeholder_in_a_uri_is_said_to_be_one(runs: LocalRuns) -> None:
    step = runs.processing("s", "", inputs={"data": "s3://$BUCKET/data/"})
    with pytest.raises(UserError, match=r"names no bucket.*\$NAME.*--stub STEP"):
        runs.start([step])
