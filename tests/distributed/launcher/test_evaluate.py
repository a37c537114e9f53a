"""Evaluation through real launchers: on one host and on two, from a model folder and from checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain import Cluster, Pipeline, step
from drivetrain.components.evaluate import evaluate as components_evaluate
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from drivetrain.training_scripts.checkpoints import run as checkpoints

pytestmark = pytest.mark.slow

SETTINGS = ("--batch-size=4", "--bootstrap=20", "--predictions=True", "--slices=site")


@pytest.fixture(scope="module")
def trained(prepared_data: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and with the model and the checkpoints of a training of two epochs."""
    base = tmp_path_factory.mktemp("trained")
    columns = prepared_data.digit_columns(50)
    columns["site"] = [("north", "south")[row % 2] for row in range(50)]
    prepared_data.write_prepared(base / "data", columns)
    manifest = json.loads((base / "data/manifest.json").read_text())
    manifest["statistics"] = {"site": {"values": [{"value": "north", "rows": 25}, {"value": "south", "rows": 25}]}}
    (base / "data/manifest.json").write_text(json.dumps(manifest))
    folders = {"train": "data", "model": "model", "checkpoints": "checkpoints"}
    words = [f"--{name}={base / folder}" for name, folder in folders.items()]
    words += [
        "--recipe=digits_cnn",
        '--recipe-options={"channels": 4, "hidden": 16}',
        "--epochs=2",
        "--global-batch=16",
    ]
    words += ["--checkpoint-every=epoch"]
    subprocess.run(
        [sys.executable, "-m", "drivetrain.training_scripts.train", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return base


def evaluate(model: Path, data: Path, out: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    folders = (f"--model={model}", f"--data={data}", f"--metrics={out / 'metrics'}", f"--report={out / 'report'}")
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.components.evaluate", *folders, *SETTINGS, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
    )


def contents(folder: Path) -> dict[str, Any]:
    """All files, but for what says how many processes and hosts there were, and the hash of all that is said."""
    found: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    document = json.loads(found["report/evaluation.json"])
    assert document.pop("report_hash")
    where = [document["settings"].pop(name) for name in ("processes", "hosts")]
    assert document.pop("collectives") == (where != [1, 1]) * (2 if document["bootstrap"] else 1)
    return {**found, "report/evaluation.json": document}


@pytest.fixture(scope="module")
def alone(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process writes."""
    out = tmp_path_factory.mktemp("alone")
    ended = evaluate(trained / "model", trained / "data", out, "--processes=1")
    assert ended.returncode == 0, ended.stderr
    return out


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_processes_of_one_host(processes: int, trained: Path, alone: Path, tmp_path: Path) -> None:
    ended = evaluate(trained / "model", trained / "data", tmp_path, f"--processes={processes}")
    assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path) == contents(alone)
    assert "50 of 50 samples counted, each once; 2 collectives for the metrics;" in ended.stdout
    document = json.loads((tmp_path / "report/evaluation.json").read_text())
    assert len(document["model"]["content_hash"]) == 64


@pytest.mark.nightly
def test_two_hosts(trained: Path, alone: Path, tmp_path: Path, two_hosts: Any) -> None:
    """The first process of all writes what one process writes."""
    hash_of = json.loads((alone / "report/evaluation.json").read_text())["model"]["content_hash"]
    processes = two_hosts(
        *("drivetrain.training_scripts.evaluate", f"--model={trained / 'model'}", f"--data={trained / 'data'}"),
        *(f"--metrics={tmp_path / 'out/metrics.json'}", f"--report={tmp_path / 'out/report'}"),
        *(f"--model-hash={hash_of}", *SETTINGS),
        processes=2,
        OMP_NUM_THREADS="1",
    )
    for process in processes:
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
    expected = contents(alone)
    numbers = json.loads(expected.pop("metrics/metrics.json"))
    assert json.loads((tmp_path / "out/metrics.json").read_text()) == numbers
    (tmp_path / "out/metrics.json").unlink()
    assert contents(tmp_path / "out") == expected


def test_two_hosts_of_a_step(trained: Path, alone: Path, tmp_path: Path, new_interpreters: None) -> None:
    """What both hosts write is merged, and one of them has written: all of it once."""
    measured = step(
        components_evaluate,
        model=trained / "model",
        data=trained / "data",
        cluster=Cluster(instance_type="ml.m5.large", count=2, processes=1),
        **{"batch_size": 4, "bootstrap": 20, "predictions": True, "slices": "site"},
    )
    compiled = compile_pipeline(Pipeline(name="two", steps=[measured]), source=None, base=tmp_path)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="two"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    (document,) = home.objects.rglob("evaluation.json")
    settings = json.loads(document.read_text())["settings"]
    assert (settings["hosts"], settings["processes"]) == (2, 1)
    folders = (document.parent.parent, alone)
    found, expected = (json.loads((folder / "metrics/metrics.json").read_text()) for folder in folders)
    assert found == pytest.approx(expected, rel=1e-6)  # (of other numbers of threads, perhaps)


def test_a_checkpoint_is_evaluated_like_its_exported_model(trained: Path, alone: Path, tmp_path: Path) -> None:
    newest = evaluate(trained / "checkpoints", trained / "data", tmp_path / "newest")
    assert newest.returncode == 0, newest.stderr
    first = evaluate(trained / "checkpoints", trained / "data", tmp_path / "first", "--checkpoint=4")
    assert first.returncode == 0, first.stderr
    metrics = [json.loads((out / "metrics/metrics.json").read_text()) for out in (tmp_path / "newest", alone)]
    assert metrics[0] == metrics[1]
    document = json.loads((tmp_path / "first/report/evaluation.json").read_text())
    assert document["model"]["step"] == 4
    assert document["metrics"]["loss"]["value"] != metrics[0]["loss"]
    checkpoints(["export", str(trained / "checkpoints"), "4", "--out", str(tmp_path / "model")])
    exported = evaluate(tmp_path / "model", trained / "data", tmp_path / "exported")
    assert exported.returncode == 0, exported.stderr
    assert contents(tmp_path / "exported") == contents(tmp_path / "first")


def test_a_missing_checkpoint_step_is_refused(trained: Path, tmp_path: Path) -> None:
    ended = evaluate(trained / "checkpoints", trained / "data", tmp_path, "--checkpoint=5")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1
    assert "5" in ended.stderr


def test_a_bad_row_of_one_process_is_one_error(trained: Path, prepared_data: ModuleType, tmp_path: Path) -> None:
    import numpy as np

    columns = prepared_data.digit_columns(30)
    columns["p5"] = columns["p5"].astype(np.float64)
    columns["p5"][13] = np.nan
    prepared_data.write_prepared(tmp_path / "data", columns)
    ended = evaluate(trained / "model", tmp_path / "data", tmp_path / "out", "--slices=", "--processes=2")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ") and "part-00000.parquet, row 14" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list((tmp_path / "out").rglob("*.json"))
