"""Batch transforms on this machine: models that bring their code, commands that stand for images, and refusals."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.options import data
from drivetrain.run_store.reader import Ledger
from tests.fixtures.local_runs import BUCKET, LocalRuns, join, model_of

# Doubles every number of a CSV line, or of a JSON object's "x"; "bad" is refused.
CODE = """
import json, os
def model_fn(model_dir):
    with open(os.path.join(model_dir, "factor")) as file:
        return float(file.read())
def input_fn(body, content_type):
    if "bad" in body:
        raise ValueError("the word bad is no number")
    if content_type == "text/csv":
        return [[float(cell) for cell in line.split(",")] for line in body.splitlines()]
    return [json.loads(line)["x"] for line in body.splitlines()]
def predict_fn(data, model):
    return [sum(row) * model for row in data] if isinstance(data[0], list) else [x * model for x in data]
def output_fn(prediction, accept):
    if accept == "application/jsonlines":
        return "".join(json.dumps({"y": y}) + "\\n" for y in prediction)
    return "".join(f"{y:g}\\n" for y in prediction), "text/csv"
"""
# What an image's own `serve` would be: counts the bodies that it is asked, and says how large they may be.
IMAGE = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
assert sys.argv[1:] == ["serve"], sys.argv
class Requests(BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        known = {"/ping": b"", "/execution-parameters": b'{"BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 1}'}
        self.answer(200 if self.path in known else 404, known.get(self.path, b""))
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        Requests.asked += 1
        if os.environ.get("FAILS") and Requests.asked <= int(os.environ["FAILS"]):
            return self.answer(503, b"busy")
        self.answer(200, b"%d:%s:%s" % (Requests.asked, os.environ["SAGEMAKER_BATCH"].encode(), body.upper()))
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
HTTPServer(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])), Requests).serve_forever()
"""


def archive(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content.encode())
            tar.addfile(about, io.BytesIO(content.encode()))
    return stream.getvalue()


def put_model(runs: LocalRuns, code: str = CODE) -> str:
    return runs.put("models/model.tar.gz", archive({"factor": "2", "code/inference.py": code}))


def model_step(data: Any, name: str = "model", **container: Any) -> dict[str, Any]:
    primary = {"Image": "000000000000.dkr.ecr.us-east-1.amazonaws.com/own:1", "ModelDataUrl": data, **container}
    return {"Name": name, "Type": "Model", "Arguments": {"ExecutionRoleArn": "r", "PrimaryContainer": primary}}


def transform_step(
    uri: Any,
    *,
    model: Any = None,
    into: dict[str, Any] | None = None,
    source: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """`into` is said of the output and `source` of the input; `more` of the job."""
    return {
        "Name": "predict",
        "Type": "Transform",
        "Arguments": {
            "ModelName": model or {"Get": "Steps.model.ModelName"},
            "TransformInput": {
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}},
                "ContentType": "text/csv",
                "SplitType": "Line",
                **(source or {}),
            },
            "TransformOutput": {
                "S3OutputPath": f"{BUCKET}/out",
                "Accept": "text/csv",
                "AssembleWith": "Line",
                **(into or {}),
            },
            "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
            **more,
        },
    }


def outputs(runs: LocalRuns) -> dict[str, str]:
    return {item.name: item.path.read_text() for item in runs.store.find(f"{BUCKET}/out/")}


def test_a_model_answers_by_its_own_code_file_by_file(runs: LocalRuns) -> None:
    runs.put("in/a.csv", "1,2\n3,4\n")
    runs.put("in/more/b.csv", "5,6")
    summary = runs.start([model_step(put_model(runs)), transform_step(f"{BUCKET}/in/")])
    assert summary.status == "Succeeded", summary.reason
    assert outputs(runs) == {"a.csv.out": "6\n14\n", "more/b.csv.out": "22\n"}
    with Ledger(runs.home) as ledger:
        model, predict = ledger.steps(summary.execution)
        assert predict.response["TransformJobStatus"] == "Completed"
        assert predict.response["ModelName"] == model.response["ModelName"] == predict.arguments["ModelName"]
        assert predict.value == "2 files, 2 requests"
        read = {row.name: row.files for row in ledger.artifacts(summary.execution, "predict") if row.flow == "input"}
    assert read == {"model": 1, "data": 2}


def test_a_folder_or_an_archive_stands_for_a_model_of_the_account(runs: LocalRuns, tmp_path: Path) -> None:
    uri = runs.put("in/a.csv", "1,2\n")
    (tmp_path / "churn" / "code").mkdir(parents=True)
    (tmp_path / "churn" / "factor").write_text("3")
    step = transform_step(uri, model="churn-2026")
    given = data([f"model/churn-2026={tmp_path / 'churn'}"])
    message = r"no code/inference\.py is known in its archive\. Give --image-command 'churn-2026=C"
    with pytest.raises(UserError, match=message):
        runs.start([step], data=given)
    (tmp_path / "churn" / "code" / "inference.py").write_text(CODE)
    assert runs.start([step], data=given).status == "Succeeded"
    assert outputs(runs) == {"a.csv.out": "9\n"}
    packed = tmp_path / "model.tar.gz"  # alone, or in the folder that a training left
    packed.write_bytes(archive({"factor": "5", "code/inference.py": CODE}))
    name = {"Get": "Parameters.Model"}
    parameters = [{"Name": "Model", "Type": "String", "DefaultValue": "churn-2026"}]
    step = transform_step(uri, model=name)
    for place in (packed, tmp_path):
        given = data([f"model/churn-2026={place}"])
        assert runs.start([step], data=given, parameters=parameters).status == "Succeeded"
        assert outputs(runs) == {"a.csv.out": "15\n"}
    with pytest.raises(UserError, match=r"\"other\" is no model .* given by --data model/other=FOLDER; or its results"):
        runs.start([step], {"Model": "other"}, data=given, parameters=parameters)


def test_columns_are_kept_from_the_model_and_joined_to_its_answers(runs: LocalRuns) -> None:
    runs.put("in/a.csv", 'x,1,2\n"y, z",3,4\n')
    step = transform_step(
        f"{BUCKET}/in/a.csv", DataProcessing={"InputFilter": "$[1:]", "JoinSource": "Input", "OutputFilter": "$[0,-1]"}
    )
    summary = runs.start([model_step(put_model(runs)), step])
    assert summary.status == "Succeeded", summary.reason
    assert outputs(runs) == {"a.csv.out": 'x,6\n"y, z",14\n'}


def test_json_lines_get_the_answer_as_a_member(runs: LocalRuns) -> None:
    runs.put("in/a.jsonl", '{"id": 7, "x": 1}\n{"id": 8, "x": 2}\n')
    kind = "application/jsonlines"
    step = transform_step(
        f"{BUCKET}/in/",
        source={"ContentType": kind},
        into={"Accept": kind},
        DataProcessing={"JoinSource": "Input", "OutputFilter": "$['id','SageMakerOutput']"},
    )
    summary = runs.start([model_step(put_model(runs)), step])
    assert summary.status == "Succeeded", summary.reason
    lines = [json.loads(line) for line in outputs(runs)["a.jsonl.out"].splitlines()]
    assert lines == [{"id": 7, "SageMakerOutput": {"y": 2.0}}, {"id": 8, "SageMakerOutput": {"y": 4.0}}]


def test_a_command_stands_for_the_image_and_says_how_it_is_asked(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "image.py").write_text(IMAGE)
    runs.put("in/a.txt", "one\ntwo\n")
    commands = {"own": (sys.executable, str(tmp_path / "image.py"))}
    steps = [model_step(put_model(runs)), transform_step(f"{BUCKET}/in/", into={"AssembleWith": "None"})]
    summary = runs.start(steps, image_commands=commands)
    assert summary.status == "Succeeded", summary.reason
    assert outputs(runs) == {"a.txt.out": "1:true:ONE2:true:TWO"}
    # The job's word counts before the server's.
    steps[1]["Arguments"]["BatchStrategy"] = "MultiRecord"
    assert runs.start(steps, image_commands=commands).status == "Succeeded"
    assert outputs(runs) == {"a.txt.out": "1:true:ONE\nTWO"}


@pytest.mark.parametrize(("fails", "retries", "status"), [(2, 2, "Succeeded"), (2, 1, "Failed")])
def test_failed_requests_are_retried_as_configured(
    runs: LocalRuns, tmp_path: Path, fails: int, retries: int, status: str
) -> None:
    (tmp_path / "image.py").write_text(IMAGE)
    runs.put("in/a.txt", "one")
    step = transform_step(f"{BUCKET}/in/", ModelClientConfig={"InvocationsMaxRetries": retries})
    step["Arguments"]["Environment"] = {"FAILS": str(fails)}
    commands = {"own": (sys.executable, str(tmp_path / "image.py"))}
    summary = runs.start([model_step(put_model(runs)), step], image_commands=commands)
    assert summary.status == status, summary.reason
    if status == "Failed":
        assert summary.reason == "predict: a.txt: request 1: the server answered 503: busy"


def test_gzipped_input_a_manifest_and_model_files_apart(runs: LocalRuns) -> None:
    runs.put("in/a.csv.gz", gzip.compress(b"1,1\n"))
    runs.put("in/b.csv.gz", gzip.compress(b"2,2\n"))
    runs.put("in/not-listed.csv.gz", gzip.compress(b"9,9\n"))
    manifest = runs.put("list.json", json.dumps([{"prefix": f"{BUCKET}/in/"}, "a.csv.gz", "b.csv.gz"]))
    runs.put("model/factor", "3")
    runs.put("model/code/inference.py", CODE)
    source = {"S3DataType": "S3Prefix", "S3Uri": f"{BUCKET}/model/", "CompressionType": "None"}
    model = model_step(None, ModelDataSource={"S3DataSource": source})
    del model["Arguments"]["PrimaryContainer"]["ModelDataUrl"]
    step = transform_step(
        manifest,
        source={
            "CompressionType": "Gzip",
            "DataSource": {"S3DataSource": {"S3DataType": "ManifestFile", "S3Uri": manifest}},
        },
    )
    summary = runs.start([model, step])
    assert summary.status == "Succeeded", summary.reason
    assert outputs(runs) == {"a.csv.gz.out": "6\n", "b.csv.gz.out": "12\n"}


def test_a_row_that_the_model_refuses_fails_the_step_with_the_models_words(runs: LocalRuns) -> None:
    runs.put("in/a.csv", "1,2\nbad\n")
    summary = runs.start([model_step(put_model(runs)), transform_step(f"{BUCKET}/in/")])
    assert summary.reason == "predict: a.csv: request 1: the server answered 400: the word bad is no number"
    assert not runs.store.exists(f"{BUCKET}/out/")


def test_a_server_that_does_not_come_up_fails_the_step(runs: LocalRuns) -> None:
    runs.put("in/a.csv", "1,2\n")
    summary = runs.start([model_step(put_model(runs, "raise SystemExit(7)")), transform_step(f"{BUCKET}/in/")])
    assert summary.reason == "predict: the server ended with 7 before it answered; its log says why"


def test_paths_are_rewritten_where_there_are_no_private_mounts(runs: LocalRuns) -> None:
    runs.put("in/a.csv", "1,2\n")
    summary = runs.start([model_step(put_model(runs)), transform_step(f"{BUCKET}/in/")], mode="rewrite")
    assert summary.status == "Succeeded", summary.reason
    assert outputs(runs) == {"a.csv.out": "6\n"}


def test_unsupported_transforms_are_refused_before_anything_starts(runs: LocalRuns) -> None:
    data, model = runs.put("in/a.csv", "1"), put_model(runs)
    runs.put("models/bare.tar.gz", archive({"weights": "w"}))
    bare = model_step(f"{BUCKET}/models/bare.tar.gz")
    direct = model_step(model)
    direct["Arguments"]["InferenceExecutionConfig"] = {"Mode": "Direct"}
    apart = {"SAGEMAKER_PROGRAM": "serve.py", "SAGEMAKER_SUBMIT_DIRECTORY": f"{BUCKET}/code/gone.tar.gz"}
    kind = {"S3DataType": "AugmentedManifestFile", "S3Uri": data}
    for steps, said in (
        ([bare, transform_step(data)], r"--image-command '000000000000.dkr.ecr.us-east-1.amazonaws.com/own:1=COMMAND'"),
        ([bare, transform_step(data)], r"--stub predict=outputs\.json"),
        ([direct, transform_step(data)], "containers are invoked directly"),
        ([model_step(model, Environment={"SAGEMAKER_PROGRAM": "x.py"}), transform_step(data)], r"no code/x\.py"),
        ([model_step(model, Environment=apart), transform_step(data)], r"--data s3://bucket/code/gone\.tar\.gz="),
        ([model_step(model, Mode="MultiModel"), transform_step(data)], "MultiModel"),
        ([transform_step(data, model="elsewhere")], r"'?\"elsewhere\" is no model of this definition"),
        ([model_step(model), transform_step(f"{BUCKET}/nothing/")], "nothing is there"),
        ([model_step(model), transform_step(data, source={"SplitType": "Word"})], "SplitType is 'Word'. Allowed: None"),
        ([model_step(model), transform_step(data, MaxPayloadInMB=101)], "MaxPayloadInMB 101"),
        ([model_step(model), transform_step(data, source={"DataSource": {"S3DataSource": kind}})], "AugmentedManifest"),
        (
            [
                model_step(model),
                transform_step(data, into={"Accept": "text/plain"}, DataProcessing={"JoinSource": "Input"}),
            ],
            "needs ContentType and Accept of one kind",
        ),
        ([model_step(model), transform_step(data, DataProcessing={"InputFilter": "$.[?(@.x)]"})], "cannot read"),
        (
            [
                model_step(model),
                transform_step(data, source={"SplitType": "None"}, DataProcessing={"InputFilter": "$[1:]"}),
            ],
            "needs SplitType Line and AssembleWith Line",
        ),
    ):
        with pytest.raises(UserError, match=said) as caught:
            runs.start(steps)
        assert "step 'predict'" in str(caught.value)
    with Ledger(runs.home) as ledger:
        assert ledger.executions() == []


def test_a_model_of_this_run_and_one_of_another_maker(runs: LocalRuns) -> None:
    """The training writes its code into the model; whether it will is not known before, unless the model says so."""
    data = runs.put("in/a.csv", "1,2\n")
    train = runs.training(
        "train",
        f"""
        from pathlib import Path
        Path("/opt/ml/model/code").mkdir()
        Path("/opt/ml/model/factor").write_text("10")
        Path("/opt/ml/model/code/serve.py").write_text({CODE!r})
        """,
    )
    steps = [train, model_step(model_of("train")), transform_step(data)]
    with pytest.raises(UserError, match="nothing is known here that serves its model"):
        runs.start(steps)
    steps[1]["Arguments"]["PrimaryContainer"]["Environment"] = {"SAGEMAKER_PROGRAM": "serve.py"}
    summary = runs.start(steps)
    assert summary.status == "Succeeded", summary.reason
    assert outputs(runs) == {"a.csv.out": "30\n"}


@pytest.mark.slow
def test_containers_of_a_chain_get_the_answer_of_the_previous_one(runs: LocalRuns, tmp_path: Path) -> None:
    """An inference pipeline: code that doubles, code from elsewhere that is told how, and a command for an image."""
    data = runs.put("in/a.csv", "1,2\n3,4\n")
    (tmp_path / "image.py").write_text(IMAGE)
    shout = "import os\ndef model_fn(d):\n    return os.environ['WORD']\ndef transform_fn(model, body, kind, accept):\n"
    shout += "    assert (kind, accept) == ('text/csv', '*/*'), (kind, accept)\n    return model + body, 'text/plain'\n"
    runs.put("code.tar.gz", archive({"shout.py": shout}))
    variables = {"SAGEMAKER_PROGRAM": "shout.py", "SAGEMAKER_SUBMIT_DIRECTORY": f"{BUCKET}/code.tar.gz", "WORD": "so: "}
    containers = [
        {"Image": "first", "ModelDataUrl": put_model(runs)},
        {"Image": "second", "ModelDataUrl": runs.put("m.tar.gz", archive({"weights": "w"})), "Environment": variables},
        {"Image": "own"},
    ]
    model = {"Name": "model", "Type": "Model", "Arguments": {"ExecutionRoleArn": "r", "Containers": containers}}
    commands = {"own": (sys.executable, str(tmp_path / "image.py"))}
    for mode in ("auto", "rewrite"):
        summary = runs.start([model, transform_step(data)], image_commands=commands, mode=mode)
        assert summary.status == "Succeeded", summary.reason
        assert outputs(runs) == {"a.csv.out": "1:true:SO: 6\n14\n"}
    with Ledger(runs.home) as ledger:
        read = {row.name for row in ledger.artifacts(summary.execution, "predict") if row.flow == "input"}
    assert read == {"model-0", "model-1", "code-1", "data"}


def test_a_registered_version_is_transformed_with(runs: LocalRuns) -> None:
    data = runs.put("in/a.csv", "1,2\n")
    register = {
        "Name": "register",
        "Type": "RegisterModel",
        "Arguments": {
            "ModelPackageGroupName": "doubling",
            "InferenceSpecification": {"Containers": [{"Image": "i", "ModelDataUrl": put_model(runs)}]},
        },
    }
    model = model_step(None)
    model["Arguments"]["PrimaryContainer"] = {"ModelPackageName": {"Get": "Steps.register.ModelPackageArn"}}
    out = transform_step(data, into={"S3OutputPath": join(f"{BUCKET}/out", "registered")})
    summary = runs.start([register, model, out])
    assert summary.status == "Succeeded", summary.reason
    assert outputs(runs) == {"registered/a.csv.out": "6\n"}


def test_a_model_without_data_or_containers_is_refused(runs: LocalRuns) -> None:
    with pytest.raises(UserError, match=r"model data reads s3://bucket/models/gone\.tar\.gz"):
        runs.start([model_step(f"{BUCKET}/models/gone.tar.gz")])
    with pytest.raises(UserError, match="has no container"):
        runs.start([{"Name": "model", "Type": "Model", "Arguments": {"ExecutionRoleArn": "r"}}])
