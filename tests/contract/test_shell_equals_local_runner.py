"""A program cannot tell which target runs it: from a plain shell and by the local runner it gives the same files.

The flagship pipeline is run once by the runner; then each of its programs is run again by hand, on the folders that
the runner gave it, and every output file is compared byte for byte.
"""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, step
from drivetrain.authoring.loading import load
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.calibrate import calibrate
from drivetrain.components.check_data import check_data
from drivetrain.components.check_served import check_served
from drivetrain.components.describe_model import describe_model
from drivetrain.components.fetch_previous import fetch_previous
from drivetrain.components.find_previous import find_previous
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.read_capture import read_capture
from drivetrain.components.read_source import read_source
from drivetrain.components.source_version import source_version
from drivetrain.components.train_on_sagemaker import job_name, train_on_sagemaker
from drivetrain.components.train_script import train_script
from drivetrain.components.train_table import train_table
from drivetrain.components.transform_data import transform_data
from drivetrain.data.manifest import Manifest
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import open_registry
from drivetrain.run_store.home import Home
from drivetrain.steps.declaration import Component
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.contract.test_train_table import fit
from tests.distributed.prepared_data import write_prepared
from tests.fixtures.s3_server import make_bucket
from tests.fixtures.sagemaker_server import sagemaker_server, sagemaker_variables
from tests.fixtures.tables import write_tables

BUCKET = "drivetrain-local"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Step name -> folder of its outputs in the local object store."""
    root = tmp_path_factory.mktemp("home")
    loaded = load("retraining", overrides=["epochs=2", "min_accuracy=0", "processes=1"])
    compiled = compile_pipeline(loaded.pipeline, here=True)
    home = Home(root / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="retraining"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    outputs = home.objects / BUCKET / "pipelines" / "retraining" / "steps"
    yield {step: outputs / step / summary.execution for step in ("prepare", "train", "evaluate", "compare")}


def shell(target: str, variables: Mapping[str, str] | None = None, **folders_and_parameters: Any) -> None:
    flags = [
        word
        for name, value in folders_and_parameters.items()
        for word in ("--" + name.replace("_", "-"), str(value).lower() if isinstance(value, bool) else str(value))
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **(variables or {})}
    command = [sys.executable, "-m", f"drivetrain.components.{target}", *flags]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unpacked(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as opened:
        opened.extractall(into, filter="data")
    return into


def timeless(output: Path) -> dict[str, Any]:
    """What a training writes beside its model, without the hour and the speed of its steps."""
    found = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    lines = [{k: v for k, v in line.items() if k not in ("time", "samples_per_second")} for line in found]
    events = len(list((output / "tensorboard").iterdir()))
    timed = ("metrics.jsonl", "tensorboard", "health")
    rest = {name: data for name, data in contents(output).items() if not name.startswith(timed)}
    found = json.loads((output / "health/health.json").read_text())["findings"]
    return {**rest, "metrics.jsonl": lines, "tensorboard": events, "health": found}


def parameters(step: str) -> dict[str, Any]:
    pipeline = load("retraining", overrides=["epochs=2", "min_accuracy=0", "processes=1"]).pipeline
    found = next(one for one in pipeline.steps if one.name == step)
    return dict(found.parameters)  # type: ignore[union-attr]


@pytest.mark.slow
def test_prepare_data(finished: dict[str, Path], tmp_path: Path) -> None:
    raw = Path(__file__).parents[2] / "pipelines" / "data" / "digits.csv.gz"
    folders = {name: tmp_path / name for name in ("train", "validation", "test")}
    shell("prepare_data", raw=raw, **folders, **parameters("prepare"))
    for name, folder in folders.items():
        assert contents(folder) == contents(finished["prepare"] / name)
        assert "manifest.json" in contents(folder)


@pytest.mark.slow
def test_train(finished: dict[str, Path], tmp_path: Path) -> None:
    (archive,) = finished["train"].rglob("model.tar.gz")
    prepared = finished["prepare"]
    shell(
        "train",
        train=prepared / "train",
        validation=prepared / "validation",
        model=tmp_path / "model",
        output=tmp_path / "output",
        checkpoints=tmp_path / "checkpoints",
        **parameters("train"),
    )
    assert contents(tmp_path / "model") == contents(unpacked(archive, tmp_path / "runner"))
    (results,) = finished["train"].rglob("output.tar.gz")
    by_shell, by_runner = timeless(tmp_path / "output"), timeless(unpacked(results, tmp_path / "runner-output"))
    assert set(by_shell) == {"history.json", "metrics.jsonl", "tensorboard", "health"}
    assert by_shell == by_runner


@pytest.mark.slow
def test_evaluate(finished: dict[str, Path], tmp_path: Path) -> None:
    """On the model.tar.gz, as a job gets it, and on the unpacked folder."""
    (archive,) = finished["train"].rglob("model.tar.gz")
    expected = {name: contents(finished["evaluate"] / name) for name in ("metrics", "report")}
    assert {"evaluation.json", "bootstrap.json", "curves.json"} < set(expected["report"])
    for model in (archive.parent, unpacked(archive, tmp_path / "model")):
        outputs = {name: tmp_path / f"{name}-{model.name}" for name in expected}
        shell("evaluate", model=model, data=finished["prepare"] / "test", **outputs, **parameters("evaluate"))
        assert {name: contents(folder) for name, folder in outputs.items()} == expected


@pytest.mark.slow
def test_batch_predict(finished: dict[str, Path], tmp_path: Path) -> None:
    (archive,) = finished["train"].rglob("model.tar.gz")
    model, data = unpacked(archive, tmp_path / "model"), finished["prepare"] / "test"
    predicting = step(batch_predict, name="predict", model=model, data=data, keep="id", rows_per_shard=256)
    compiled = compile_pipeline(Pipeline(name="predicting", steps=[predicting]), here=True)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="predicting"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    outputs = home.objects / BUCKET / "pipelines" / "predicting" / "steps" / "predict" / summary.execution
    parameters = {**predicting.parameters, "output": tmp_path / "output", "metrics": tmp_path / "metrics"}
    shell("batch_predict", model=model, data=data, **parameters)
    assert contents(tmp_path / "output") == contents(outputs / "output")
    assert {"manifest.json", "part-00000.parquet", "part-00001.parquet"} <= set(contents(tmp_path / "output"))
    assert contents(tmp_path / "metrics") == contents(outputs / "metrics")


@pytest.mark.slow
def test_compare(finished: dict[str, Path], tmp_path: Path) -> None:
    """With a registry that is as empty as the run's was; it is all that the two records say differently."""
    (archive,) = finished["train"].rglob("model.tar.gz")
    given = {name: value for name, value in parameters("compare").items() if name not in ("floors", "registry")}
    shell(
        "compare",
        evaluation=finished["evaluate"] / "report",
        model=archive.parent,
        data=finished["prepare"] / "test",
        decision=tmp_path / "decision",
        metrics=tmp_path / "metrics",
        registry=f"local:{tmp_path / 'ledger.db'}",
        floors='{"accuracy": 0.0}',
        **given,
    )
    (by_shell, by_runner) = (
        {**json.loads((folder / "decision.json").read_text()), "registry": "", "decision_hash": ""}
        for folder in (tmp_path / "decision", finished["compare"] / "decision")
    )
    assert by_shell == by_runner and by_shell["verdict"] == "register"
    assert contents(tmp_path / "metrics") == contents(finished["compare"] / "metrics")


@pytest.mark.slow
def test_train_script(tmp_path: Path) -> None:
    """What the script writes about its own place differs; the model is what it learnt from the same data."""
    scripts = Path(__file__).parents[1] / "fixtures" / "own_scripts"
    data = scripts.parent / "definitions"
    fit = step(train_script, name="fit", train=data, source=scripts, script="report.py")
    compiled = compile_pipeline(Pipeline(name="own", steps=[fit]))
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="own"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    (archive,) = home.objects.rglob("model.tar.gz")
    folders: dict[str, Any] = {name: tmp_path / name for name in ("model", "output", "checkpoints")}
    shell("train_script", train=data, source=scripts, script="report.py", **folders)
    assert contents(tmp_path / "model") == contents(unpacked(archive, tmp_path / "runner"))
    assert "gate.json" in (tmp_path / "model" / "model.txt").read_text()


@pytest.mark.slow
def test_describe_model(tmp_path: Path) -> None:
    folders = {"trained": tmp_path / "trained", "source": tmp_path / "own"}
    for folder, name, text in (
        (folders["trained"], "weight.txt", "0.25"),
        (
            folders["source"],
            "answer.py",
            "def load(folder):\n    return float((folder / 'weight.txt').read_text())\n\n\n",
        ),
    ):
        folder.mkdir()
        (folder / name).write_text(text)
    with (folders["source"] / "answer.py").open("a") as file:
        file.write("def predict(model, columns):\n    return {'score': model + 0 * columns['x0']}\n")
    rows = {"id": [1, 2, 3], "x0": [0.5, 1.5, 2.5], "label": [0, 1, 0]}
    given: dict[str, Any] = {**folders, "data": write_prepared(tmp_path / "data", rows)}
    describing = step(describe_model, name="describe", task="binary", **given)
    compiled = compile_pipeline(Pipeline(name="describing", steps=[describing]), here=True)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="describing"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    made = home.objects / BUCKET / "pipelines/describing/steps/describe" / summary.execution / "model"
    shell("describe_model", task="binary", model=tmp_path / "model", **given)
    assert contents(tmp_path / "model") == contents(made)
    assert "code/own/answer.py" in contents(made)


@pytest.mark.slow
def test_train_table(tmp_path: Path) -> None:
    tables = write_tables(tmp_path / "tables", num_rows=200)
    given: dict[str, Any] = {"train": tables["train"], "validation": tables["validation"], "rounds": 8}
    given |= {"estimator_options": '{"categories": ["plan"], "subsample": 0.8}', "early_stopping": 3}
    compiled = compile_pipeline(Pipeline(name="table", steps=[step(train_table, name="fit", **given)]), here=True)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="table"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    (archive,) = home.objects.rglob("model.tar.gz")
    folders: dict[str, Any] = {name: tmp_path / name for name in ("model", "output", "checkpoints")}
    shell("train_table", **given, **folders)
    assert contents(tmp_path / "model") == contents(unpacked(archive, tmp_path / "runner"))
    (results,) = home.objects.rglob("output.tar.gz")
    by_runner = contents(unpacked(results, tmp_path / "runner-output"))
    assert contents(tmp_path / "output")["history.json"] == by_runner["history.json"]


@pytest.mark.slow
def test_check_data(tmp_path: Path) -> None:
    raw = Path(__file__).parents[2] / "pipelines" / "data" / "digits.csv.gz"
    sets: dict[str, Any] = {side: tmp_path / side for side in ("train", "validation", "test")}
    prepare_data(raw=raw, key="id", **sets)
    given: dict[str, Any] = {**sets, "group": "nights", "night": "2026-11-30"}
    compiled = compile_pipeline(Pipeline(name="nights", steps=[step(check_data, name="check", **given)]), here=True)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="nights"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    made = home.objects / BUCKET / "pipelines/nights/steps/check" / summary.execution
    # The same night again, by the registry that has it.
    shell(
        "check_data", report=tmp_path / "report", metrics=tmp_path / "metrics", registry=f"local:{home.ledger}", **given
    )
    assert contents(tmp_path / "report") == contents(made / "report")
    assert contents(tmp_path / "metrics") == contents(made / "metrics")


def test_read_capture(tmp_path: Path) -> None:
    body = {"data": "1,a\n2,b", "encoding": "CSV", "mode": "INPUT"}
    line = json.dumps({"captureData": {"endpointInput": body}, "eventMetadata": {"eventId": "e"}})
    (tmp_path / "captured.jsonl").write_text(line + "\n")
    given: dict[str, Any] = {"captured": tmp_path / "captured.jsonl", "columns": "age, plan"}
    compiled = compile_pipeline(Pipeline(name="read", steps=[step(read_capture, name="rows", **given)]), here=True)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="read"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    made = home.objects / BUCKET / "pipelines/read/steps/rows" / summary.execution
    shell("read_capture", output=tmp_path / "output", metrics=tmp_path / "metrics", **given)
    assert contents(tmp_path / "output") == contents(made / "output")
    assert contents(tmp_path / "metrics") == contents(made / "metrics")


@pytest.mark.slow
def test_check_served(tmp_path: Path) -> None:
    """A version without a report: only the drift of inputs is judged, against the profile that a check of data kept."""
    raw = Path(__file__).parents[2] / "pipelines" / "data" / "digits.csv.gz"
    sets: dict[str, Any] = {side: tmp_path / side for side in ("train", "validation", "test")}
    prepare_data(raw=raw, key="id", validation_percent=0, test_percent=0, **sets)
    home = Home(tmp_path / "home")
    home.root.mkdir()
    registry = open_registry(f"local:{home.ledger}")
    check_data(train=sets["train"], report=tmp_path / "night", group="digits", registry=f"local:{home.ledger}")
    lineage = {"data": Manifest.read(sets["train"], checksums=False).content_hash}
    registry.register("digits", "a" * 64, ModelRecord(artifact="s3://m/model", lineage=lineage), approval="Approved")
    given: dict[str, Any] = {"data": sets["train"], "group": "digits", "day": "2026-11-30"}
    compiled = compile_pipeline(Pipeline(name="watch", steps=[step(check_served, name="check", **given)]), here=True)
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="watch"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    made = home.objects / BUCKET / "pipelines/watch/steps/check" / summary.execution
    shell(
        "check_served",
        report=tmp_path / "report",
        metrics=tmp_path / "metrics",
        registry=f"local:{home.ledger}",
        **given,
    )
    assert contents(tmp_path / "report") == contents(made / "report")
    assert contents(tmp_path / "metrics") == contents(made / "metrics")


@pytest.mark.slow
def test_calibrate(tmp_path: Path) -> None:
    tables = write_tables(tmp_path / "tables", num_rows=200)
    fitted = fit(tables, tmp_path / "fitted", rounds=3)
    given: dict[str, Any] = {"trained": fitted, "data": tables["test"], "false_negative_cost": 5.0}
    compiled = compile_pipeline(Pipeline(name="costly", steps=[step(calibrate, name="fit", **given)]), here=True)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="costly"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    made = home.objects / BUCKET / "pipelines/costly/steps/fit" / summary.execution
    shell("calibrate", model=tmp_path / "model", metrics=tmp_path / "metrics", **given)
    assert contents(tmp_path / "model") == contents(made / "model")
    assert contents(tmp_path / "metrics") == contents(made / "metrics")


@pytest.mark.slow
def test_transform_data(tmp_path: Path) -> None:
    raw = Path(__file__).parents[2] / "pipelines" / "data" / "digits.csv.gz"
    plan = '[{"filter": {"greater": ["p20", 0]}}, {"select": ["id", "label", "p20"]}]'
    transforming = step(transform_data, name="transform", raw=raw, plan=plan)
    compiled = compile_pipeline(Pipeline(name="transforming", steps=[transforming]), here=True)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="transforming"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    outputs = home.objects / BUCKET / "pipelines" / "transforming" / "steps" / "transform" / summary.execution
    shell("transform_data", raw=raw, output=tmp_path / "output", plan=plan)
    files = {"manifest.json", "part-00000.parquet", "profile.npz"}
    assert {Path(name).name for name in contents(tmp_path / "output")} == files
    assert contents(tmp_path / "output") == contents(outputs / "output")


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run that reads a table: the folder of its steps' outputs, and what both steps were given."""
    root = tmp_path_factory.mktemp("sources")
    with closing(sqlite3.connect(root / "shop.db")) as connection, connection:
        connection.execute("create table orders as select 1 as id, 2.5 as price union select 2, 3.5")
    given: dict[str, Any] = {"source": f"sqlite:{root}/shop.db", "query": "select * from orders", "watermark": "id"}
    steps: list[Any] = [step(source_version, **given), step(read_source, **given)]
    compiled = compile_pipeline(Pipeline(name="reading", steps=steps), here=True)
    home = Home(root / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="reading"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    return home.objects / BUCKET / "pipelines" / "reading" / "steps", given


@pytest.mark.slow
def test_source_version(read: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shell("source_version", metrics=tmp_path / "metrics", **read[1])
    (found,) = (read[0] / "source-version").glob("*/metrics")
    assert contents(tmp_path / "metrics") == contents(found) != {}


@pytest.mark.slow
def test_read_source(read: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shell("read_source", output=tmp_path / "output", **read[1])
    (found,) = (read[0] / "read-source").glob("*/output")
    assert contents(tmp_path / "output") == contents(found) != {}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run before whose training an approved version is found and fetched: its steps' outputs, and the registry."""
    root = tmp_path_factory.mktemp("earlier")
    (root / "model").mkdir()
    (root / "model" / "weights").write_text("1")
    home = Home(root / "home")
    home.ledger.parent.mkdir(parents=True)
    url = f"local:{home.ledger}"
    record = ModelRecord(artifact=(root / "model").as_uri())
    open_registry(url).register("own", content_hash(root / "model"), record, approval="Approved")
    steps: list[Any] = [found := step(find_previous, group="own")]
    told = {name: found.text(name) for name in ("version", "content_hash")}
    steps.append(step(fetch_previous, group="own", registry="auto", **told))
    compiled = compile_pipeline(Pipeline(name="going-on", steps=steps), here=True)
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="going-on"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    return home.objects / BUCKET / "pipelines" / "going-on" / "steps", url


@pytest.mark.slow
def test_find_previous(earlier: tuple[Path, str], tmp_path: Path) -> None:
    shell("find_previous", metrics=tmp_path / "metrics", group="own", registry=earlier[1])
    (found,) = (earlier[0] / "find-previous").glob("*/metrics")
    assert contents(tmp_path / "metrics") == contents(found) != {}


@pytest.mark.slow
def test_fetch_previous(earlier: tuple[Path, str], tmp_path: Path) -> None:
    (found,) = (earlier[0] / "find-previous").glob("*/metrics/metrics.json")
    told = json.loads(found.read_text())
    shell("fetch_previous", previous=tmp_path / "previous", group="own", registry=earlier[1], **told)
    (fetched,) = (earlier[0] / "fetch-previous").glob("*/previous")
    assert contents(tmp_path / "previous") == contents(fetched) != {}


@pytest.mark.slow
def test_train_on_sagemaker(tmp_path: Path) -> None:
    """The service (moto's, where a job is done as soon as it is made) has the model; here it lies in both stores."""
    channel = {"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://data"}}, "ChannelName": "train"}
    body = {
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/training",
        "InputDataConfig": [channel],
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }
    endpoint = sagemaker_server()
    variables = {**sagemaker_variables(endpoint), "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": endpoint}
    bucket = make_bucket(endpoint)
    body["OutputDataConfig"] = {"S3OutputPath": f"s3://{bucket}/runs"}
    name = job_name("train", body, "")
    request = tmp_path / "request.json"
    request.write_text(json.dumps(body))
    home = Home(tmp_path / "home")
    archive = home.objects / bucket / "runs" / name / "output" / "model.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as opened:
        opened.add(Path(__file__), "weights.txt")
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables.items():
            patch.setenv(variable, value)
        from drivetrain.steps.kubeflow import objects

        objects.write(f"s3://{bucket}/{archive.relative_to(home.objects / bucket)}", archive.read_bytes())
    # A step's variables can be read by many, so credentials are in a file, as on a machine of one's own.
    (tmp_path / "config").write_text("[default]\naws_access_key_id = testing\naws_secret_access_key = testing\n")
    public = {each: value for each, value in variables.items() if "KEY" not in each}
    variables = {**public, "AWS_CONFIG_FILE": str(tmp_path / "config")}
    fit = step(train_on_sagemaker, name="fit", request=request, environment=variables)
    compiled = compile_pipeline(Pipeline(name="far", steps=[fit]))
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="far"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    outputs = home.objects / BUCKET / "pipelines" / "far" / "steps" / "fit" / summary.execution
    folders = {each: tmp_path / each for each in ("model", "metrics")}
    shell("train_on_sagemaker", variables, request=request, **folders)
    assert contents(tmp_path / "model") == contents(outputs / "model")
    assert contents(tmp_path / "metrics") == contents(outputs / "metrics")
    assert json.loads((tmp_path / "metrics" / "metrics.json").read_text())["job"] == name


def test_every_component_is_compared() -> None:
    """A file of components/ with a component in it has its test here."""
    names = {
        value.function.__name__
        for path in (Path(__file__).parents[2] / "components").glob("*.py")
        if path.stem != "__init__"
        for module in [importlib.import_module(f"drivetrain.components.{path.stem}")]
        for value in vars(module).values()
        if isinstance(value, Component) and value.function.__module__ == module.__name__
    }
    assert "prepare_data" in names
    assert sorted(name for name in names if f"test_{name}" not in globals()) == []


@pytest.mark.slow
def test_register_model(finished: dict[str, Path], tmp_path: Path) -> None:
    """Registered by the run and from a shell, one content is one version."""
    (archive,) = finished["train"].rglob("model.tar.gz")
    home = next(parent for parent in archive.parents if (parent / "ledger.db").exists())
    shell(
        "register_model",
        model=unpacked(archive, tmp_path / "model"),
        evaluation=finished["evaluate"] / "metrics",
        group="retraining",
        registry=f"local:{home / 'ledger.db'}",
        metrics=tmp_path / "registered",
    )
    assert json.loads((tmp_path / "registered" / "metrics.json").read_text()) == {"created": 0, "version": 1}
